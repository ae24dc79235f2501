"""Pairs of attributes: what depends is found and stands first, what noise made is not shown."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.models import find_mechanism
from sfumato.public.report.distributions import distribution_of
from sfumato.public.report.pairs import strength_of, strongest_pairs
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "a": {"type": "category", "values": list("uvwxyz")},
            "b": {"type": "integer", "lower": 0, "upper": 24},
            "c": {"type": "boolean"},
        },
    }
)


def table(dependent: bool) -> np.ndarray:
    """150 rows a cell of a and c; b leans on a, or on nothing."""
    a, b, _ = np.meshgrid(np.arange(6), np.arange(25), np.arange(2), indexing="ij")
    return np.where(b // 4 == a, 60, 8) if dependent else np.full(a.shape, 20)


@pytest.mark.parametrize("mechanism", ["cells", "margins", "sfumato"])
def test_what_depends_is_found_and_what_does_not_is_left_out(mechanism):
    budget = Budget.pure(1)
    for dependent in (True, False):
        curator = curator_of(SCHEMA, table(dependent), entropy=SystemEntropy())
        content = find_mechanism(mechanism).run(curator, SCHEMA, budget, None)
        release = Release(content, mechanism, describe_guarantee(budget, SCHEMA), private=True)
        known = {axis.name: distribution_of(release, axis, 0.95) for axis in SCHEMA.domain}
        pairs = strongest_pairs(release, known, 1 - 1e-6)
        if not dependent:
            assert pairs == []
            continue
        (first, *_) = pairs
        assert (first.rows.axis.name, first.columns.axis.name) == ("a", "b") and first.strength > 0.3
        assert first.values.sum() == pytest.approx(table(True).sum(), rel=0.2)
        assert (first.certainty > 1).sum() >= 4 and first.words in ("strong", "clear")


def test_strength_is_cramers_v_where_there_is_no_noise_and_nothing_where_there_is_only_noise():
    table = np.array([[30.0, 10.0], [10.0, 50.0]])
    usual = np.outer(table.sum(1), table.sum(0)) / 100
    assert strength_of(table, 0.0) == pytest.approx((((table - usual) ** 2 / usual).sum() / 100) ** 0.5)
    assert strength_of(table, 10.0) < strength_of(table, 0.0) and strength_of(table, 1e4) == 0.0
    assert strength_of(np.zeros((2, 2)), 1.0) == 0.0


def test_a_release_without_a_number_of_its_own_is_known_by_it():
    budget = Budget.pure(1)
    content = find_mechanism("cells").run(
        curator_of(SCHEMA, table(True), entropy=SystemEntropy()), SCHEMA, budget, None
    )
    release = Release(content, "cells", describe_guarantee(budget, SCHEMA), private=True)
    found = distribution_of(release, SCHEMA.domain["a"], 0.95)
    assert found.known and sum(found.grades) == 6 and found.verdict == "All 6 values are known to within 10 %."
    lost = replace(found, counts=tuple(replace(one, low=-9e9, high=9e9) for one in found.counts))
    assert lost.verdict == "All 6 values are lost in the noise."
