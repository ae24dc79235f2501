"""Intervals that end where no table can go further."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 39}},
        "measures": {
            "cost": {"lower": 0, "upper": 10, "step": 1, "missing": "drop"},
            "gain": {"lower": -5, "upper": 5, "step": 1, "missing": "drop"},
        },
    }
)


@pytest.fixture(scope="module")
def release() -> Release:
    counts = np.zeros(40, dtype=np.int64)
    curator = curator_of(SCHEMA, counts, sums={"cost": counts, "gain": counts}, entropy=TestingEntropy(2))
    content = find_mechanism("cells").run(curator, SCHEMA, Budget.pure(1))
    return Release(content, "cells", describe_guarantee(Budget.pure(1), SCHEMA), False)


def test_counts_end_at_nothing_and_their_values_are_left(release):
    sql = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
    plain, clipped = release.query(sql).column("n"), release.query(sql, possible=True).column("n")
    assert [one.value for one in plain] == [one.value for one in clipped] and min(one.value for one in clipped) < 0
    assert [max(0.0, one.low) for one in plain] == [one.low for one in clipped]
    near = [(one, other) for one, other in zip(plain, clipped, strict=True) if one.value >= -one.stderr]
    assert near and all(one.high == other.high for one, other in near)


def test_low_noise_does_not_bound_a_count_by_zero(release):
    """A value of more than one standard error below 0 has the upper end that one of a standard error has."""
    sql = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
    plain, clipped = (release.query(sql, possible=possible).column("n") for possible in (False, True))
    far = [(one, other) for one, other in zip(plain, clipped, strict=True) if one.value < -one.stderr]
    assert far
    for one, other in far:
        assert other.high == pytest.approx(one.high - one.value - one.stderr) and other.high > 0.0


def test_sums_end_where_amounts_do(release):
    (row,) = release.query(
        "SELECT SUM(cost), SUM(gain), -SUM(cost) AS less, COUNT(*) / 2 AS half FROM t", possible=True
    )
    cost, gain, less, half = row
    assert cost.low >= 0 and gain.low < 0 < gain.high and less.high <= 0 and half.low >= 0
