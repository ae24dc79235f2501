"""Axes cut into few groups, none of whose cells is lost or counted twice."""

from __future__ import annotations

from datetime import date
from functools import reduce
from operator import or_

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain.values import ValueSet
from sfumato.public.report.distributions import OTHERS, cut, cut_periods, united
from sfumato.schema import Schema

AXES = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 99, "missing": "keep"},
            "pay": {"type": "number", "lower": 0, "upper": 1000, "bins": 40},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
            "town": {"type": "category", "values": [f"town {n}" for n in range(30)]},
            "ill": {"type": "boolean"},
        },
    }
).domain


@pytest.mark.parametrize("name", ["age", "pay", "day", "town", "ill"])
@pytest.mark.parametrize("most", [4, 10, 500])
def test_every_cell_is_in_one_group(name, most):
    found = cut(AXES[name], most)
    assert found.size <= most and len(found.labels) == found.size
    assert np.array_equal(np.sort(np.concatenate(found.groups)), np.arange(AXES[name].size))
    assert found.whole == (AXES[name].size <= most)
    covered = np.zeros(AXES[name].size)
    for place, cells in enumerate(found.groups):
        (box,) = found.where(place).boxes or (None,)
        share = AXES[name].cover(box[name]).share
        assert share[cells].min() == 1.0
        covered += share
    assert (covered == 1.0).all()


def test_groups_have_names_that_readers_understand():
    assert cut(AXES["age"], 11).labels[:2] == ("0 to 9", "10 to 19") and cut(AXES["age"], 11).labels[-1] == "no value"
    assert cut(AXES["pay"], 4).labels[0] == "0 to 250"
    sizes = np.arange(30.0)
    largest = cut(AXES["town"], 4, sizes)
    assert largest.labels == ("town 27", "town 28", "town 29", OTHERS)
    assert largest.as_asked[:2].tolist() == [0, 0] and largest.as_asked[27:].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("first", "last", "by", "short"),
    [
        (date(2023, 12, 24), date(2024, 1, 10), "week", {0: (1, 7), 3: (3, 7)}),
        (date(2024, 1, 1), date(2024, 1, 14), "week", {}),
        (date(2024, 1, 10), date(2024, 1, 12), "week", {0: (3, 7)}),
        (date(2024, 2, 2), date(2024, 3, 31), "month", {0: (28, 29)}),
        (date(2024, 1, 1), date(2024, 5, 15), "quarter", {1: (45, 91)}),
        (date(2023, 3, 1), date(2024, 12, 31), "year", {0: (306, 365)}),
        (date.min, date(1, 12, 30), "year", {0: (364, 365)}),
        (date(9999, 1, 2), date.max, "year", {0: (364, 365)}),
        (date(2024, 1, 3), date(2024, 1, 9), "day", {}),
        (date(2024, 1, 3), date(2024, 1, 4), "hour", {}),
    ],
)
def test_a_first_and_last_period_that_the_bounds_cut_is_known(first, last, by, short):
    days = {"type": "date", "lower": first, "upper": last, "by": by}
    axis = Schema(dataset="t", privacy_unit="row", attributes={"day": days}).domain["day"]
    assert cut_periods(axis) == short


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=7))
def test_many_sets_are_united_as_two_by_two(parts):
    sets = [
        (
            ValueSet.below(at, inclusive=at % 2 == 0),
            ValueSet.above(at, inclusive=at % 2 == 0),
            ValueSet.one_of([at, at + 2]),
            ValueSet.missing(),
            ValueSet.above(at, inclusive=True) & ValueSet.below(at + 1, inclusive=False),
        )[kind]
        for kind, at in parts
    ]
    assert united(sets) == reduce(or_, sets, ValueSet.nothing())
