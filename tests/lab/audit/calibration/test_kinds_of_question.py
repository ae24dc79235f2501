"""Questions drawn by kind: every kind that a table has, in few statements, with the truth defined as the answer is."""

from __future__ import annotations

from fractions import Fraction
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.calibrate import NEARLY_EXACT
from sfumato.lab.audit.calibration.worst_question import AT_ONCE, KINDS, OF_BINS, TOP, Ground, Question, statements
from sfumato.models import find_mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.release import Release
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 5, "upper": 16},
            "load": {"type": "number", "lower": 0, "upper": 30, "bins": 6},
            "ward": {"type": "category", "values": ["it's", "b", "never"]},
            "day": {"type": "integer", "lower": 1, "upper": 7},
        },
        "measures": {"m": {"lower": 0, "upper": 10, "step": 1, "missing": "drop"}},
    }
)


@pytest.fixture(scope="module")
def ground() -> Ground:
    age, load, ward, day = (np.arange(3000) // step % size for step, size in ((1, 12), (5, 6), (3, 2), (11, 7)))
    columns = {"age": age + 5, "load": load * 5.0 + 2.5, "ward": np.array(["it's", "b"])[ward], "day": day + 1}
    return Ground(SCHEMA, pa.table(columns | {"m": (age + day) % 11}))


def released(ground: Ground, epsilon: Fraction) -> Release:
    columns = ground.rows.to_pydict()
    ward = np.where(np.array(columns["ward"]) == "b", 1, 0)
    codes = np.array(columns["age"]) - 5, np.array(columns["load"]).astype(int) // 5, ward, np.array(columns["day"]) - 1
    cell = np.ravel_multi_index(codes, SCHEMA.domain.shape)
    held, place = np.unique(cell, return_inverse=True)
    sums = np.bincount(place, np.array(columns["m"]) - 5).astype(np.int64)
    rows, budget = Aggregate(held, np.bincount(place), {"m": sums}), Budget.pure(epsilon)
    content = find_mechanism("cells").run(curator_of(SCHEMA, rows, budget, TestingEntropy(3)), SCHEMA, budget, None)
    return Release(content, "cells", describe_guarantee(budget, SCHEMA), False)


def test_every_kind_is_drawn_and_few_statements_ask_all(ground):
    drawn = ground.draw(Random(1), 150, sets=3)
    of_bins = {f"{kind}{OF_BINS}" for kind, made in KINDS.items() if any("{a}" in one for one in made)}
    assert len(drawn) == 150 and set(KINDS) <= {one.kind for one in drawn} <= set(KINDS) | of_bins
    together = statements(drawn)
    assert len(together) < 60 and sorted(map(str, drawn)) == sorted(str(one) for each in together for one in each)
    assert all(len({(one.by, frozenset(one.attributes)) for one in each}) == 1 for each in together)
    assert drawn == ground.draw(Random(1), 150, sets=3) != ground.draw(Random(2), 150, sets=3)


def test_without_noise_every_answer_is_the_truth(ground):
    """Bins hold their middles here, so that even sums of bins are exact; only ranks within bins may differ."""
    drawn = ground.draw(Random(4), 70, sets=2)
    answers = ground.ask(released(ground, NEARLY_EXACT), drawn)
    assert {one.question for one in answers} == set(drawn) and all(one.held for one in answers)
    off = [one for one in answers if abs(one.estimate.value - one.truth) > 1e-6 * (1 + abs(one.truth))]
    assert all(one.question.kind.endswith(OF_BINS) for one in off)


def test_groups_without_rows_have_counts_and_no_averages(ground):
    asked = [Question("x", column, ("ward",), ("ward",)) for column in ("COUNT(*)", 'SUM("m")', 'AVG("m")')]
    answers = ground.ask(released(ground, Fraction(1)), asked)
    assert {(one.group, one.truth) for one in answers if one.group == ("never",)} == {(("never",), 0.0)}
    assert [sum(one.question == each for one in answers) for each in asked] == [3, 3, 2]


def test_both_kinds_of_interval_are_asked_and_variances_have_one(ground):
    drawn = ground.draw(Random(5), 12, sets=1, kinds=["two ranges", "STDDEV", TOP, AT_ONCE])
    answers = ground.ask(released(ground, Fraction(1)), drawn, interval="both")
    ranges = [one for one in answers if one.question.kind == "two ranges"]
    assert ranges and all(one.surely_held is not None for one in ranges)
    top = [one for one in answers if one.question.kind == TOP]
    assert len(top) == 5 and all(one.truth == 250 for one in top)  # of twelve ages
