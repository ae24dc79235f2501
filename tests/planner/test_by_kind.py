"""Errors by kind: those of the strategy where noise alone decides, those that a release states otherwise."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest

from sfumato.kernel.budget import Budget
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.planner.marginal_errors import WORDS, errors_by_kind, one_way_errors
from sfumato.queries import default_workload
from sfumato.schema import Schema

SIZES = (4, 3, 2, 5)


def of_sizes(*sizes, **more):
    attributes = {f"a{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes} | more)


def test_noise_on_every_cell_adds_up_over_what_a_count_sums():
    schema, cells = of_sizes(*SIZES), MECHANISMS["cells"]
    found = errors_by_kind(schema, cells, default_workload(schema.domain), Budget.pure(1))
    one = 2 * np.exp(-1) / (1 - np.exp(-1)) ** 2  # the variance of discrete Laplace noise of scale 1
    assert list(found) == list(WORDS)
    assert found["all rows"] == pytest.approx(sqrt(120 * one))
    assert found["one attribute"] == pytest.approx(sqrt(one * np.mean([120 / size for size in SIZES])))


def test_a_release_that_adapts_is_asked_itself_and_says_about_what_it_states():
    schema = of_sizes(20, 10)
    budget, mine = Budget.pure(1), MECHANISMS["sfumato"]
    content = mine.run(over_counts(schema, np.full(200, 50), budget, TestingEntropy(1)), schema, budget)
    found = errors_by_kind(schema, mine, default_workload(schema.domain), budget, content)
    assert list(found) == list(WORDS[:3])
    stated = content.linear(default_workload(schema.domain).blocks[0][[0]], 0.95)[0].stderr
    assert 0.2 * stated < found["one attribute"] < 5 * stated
    assert errors_by_kind(schema, mine, default_workload(schema.domain), budget) == {}


def test_one_way_errors_are_known_beforehand_of_what_auto_takes():
    schema = of_sizes(*SIZES)
    for name in ("cells", "hierarchical", "matrix", "sfumato"):
        found = one_way_errors(schema, MECHANISMS[name], default_workload(schema.domain), Budget.pure(1))
        assert list(found) == ["a0", "a1", "a2", "a3"] and all(1 < error < 40 for error in found.values())
    assert one_way_errors(schema, MECHANISMS["mwem"], default_workload(schema.domain), Budget.pure(1)) == {}


def test_errors_of_weighted_counts_are_in_the_weights_own_unit():
    """In steps of a sixteenth noise is sixteen times as large, and what it stands for a sixteenth."""
    parts = {"dataset": "t", "privacy_unit": "row", "attributes": {"a": {"type": "integer", "lower": 0, "upper": 3}}}
    schemas = [Schema(**parts, weight={"column": "w", "upper": 20, "step": step}) for step in ("1", "0.0625")]
    found = [
        errors_by_kind(schema, MECHANISMS["cells"], default_workload(schema.domain), Budget.pure(1))
        for schema in schemas
    ]
    assert found[0]["one attribute"] == pytest.approx(found[1]["one attribute"], rel=0.01)
