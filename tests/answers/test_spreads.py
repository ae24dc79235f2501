"""Variances from noisy counts of bins."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema


def made(schema: Schema, counts: np.ndarray, epsilon: Fraction | int, seed: int = 4) -> Release:
    budget = Budget.pure(epsilon)
    curator = curator_of(schema, counts, epsilon=epsilon, entropy=TestingEntropy(seed))
    content = MECHANISMS["cells"].run(curator, schema, budget, None)
    return Release(content, "cells", describe_guarantee(budget, schema), False)


def schema_of(attribute: dict) -> Schema:
    attributes = {"x": attribute, "sex": {"type": "category", "values": ["F", "M"]}}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes})


def only(release: Release, expression: str):
    ((found,),) = release.query(f"SELECT {expression} FROM t").rows
    return found


def test_intervals_of_deviations_hold_as_often_as_they_say():
    """150 releases at 95 %: 125 or fewer hits have a chance under 1e-6 (binomial)."""
    schema = schema_of({"type": "integer", "lower": 1_000_000, "upper": 1_000_019})
    counts = np.outer(np.arange(20), [3, 5])
    values = np.repeat(np.arange(20), counts.sum(axis=1))
    found = [only(made(schema, counts, Fraction(1, 2), seed), "STDDEV(x)") for seed in range(150)]
    held = sum(one.low <= values.std(ddof=1) <= one.high for one in found)
    assert held > 125 and np.mean([one.high - one.low for one in found]) < 3


def test_rows_may_lie_anywhere_in_their_bins():
    schema = schema_of({"type": "number", "lower": 0, "upper": 100, "cuts": [10, 20, 60]})
    counts = np.array([[300, 0], [500, 0], [200, 0], [100, 0]])
    release = made(schema, counts, 10**5)
    found = only(release, "STDDEV_POP(x)")
    edges = np.array([0, 10, 20, 60, 100.0])
    rng = np.random.default_rng(1)
    for _ in range(50):
        corners = rng.random(4) < rng.random()
        values = np.repeat(np.where(corners, edges[1:] - 1e-9, edges[:-1]), counts.sum(axis=1))
        assert found.low <= values.std() <= found.high
    middle = np.repeat((edges[1:] + edges[:-1]) / 2, counts.sum(axis=1))
    assert found.value == pytest.approx(middle.std())
    assert found.high < middle.std() + 20  # half of the widest bin, which holds few rows
    assert only(release, "VAR_POP(x)").value == pytest.approx(middle.var())


def test_too_few_rows_have_no_variance():
    schema = schema_of({"type": "integer", "lower": 0, "upper": 9})
    found = only(made(schema, np.zeros((10, 2), dtype=int), 1), "STDDEV(x)")
    assert found.low == 0 and found.high == pytest.approx(9 / np.sqrt(2))
    one = np.zeros((10, 2), dtype=int)
    one[4, 0] = 1
    assert np.isnan(only(made(schema, one, 10**5), "VARIANCE(x)").value)
    assert only(made(schema, one, 10**5), "VAR_POP(x)").value == 0
