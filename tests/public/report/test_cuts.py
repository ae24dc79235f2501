"""Axes cut into few groups, none of whose cells is lost or counted twice."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.public.report.distributions import OTHERS, cut
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
