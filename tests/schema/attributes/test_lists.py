"""The cells of listed values."""

import numpy as np
import pytest

from sfumato.schema.attributes import Boolean, Category


@pytest.mark.parametrize(
    ("values", "other", "labels", "numeric"),
    [
        (["F", "M"], False, ["F", "M"], False),
        (["F", "M"], True, ["F", "M", "other"], False),
        (["other", "F"], False, ["other", "F"], False),
        ([1, 2.5, -0.001], False, ["1", "2.5", "-0.001"], True),
        ([1e21, 1.0], False, ["1000000000000000000000", "1"], True),
        ([1, "08"], False, ["1", "08"], False),
        (["", " "], False, ["", " "], False),
        ([np.int64(3), np.str_("a")], False, ["3", "a"], False),
    ],
)
def test_category_cells_are_the_listed_values(values, other, labels, numeric):
    attribute = Category(values=values, other=other)
    axis = attribute.axis("sex")
    assert axis.labels() == labels
    assert attribute.numeric is numeric
    assert [axis.read(label) for label in labels] == list(range(len(labels)))
    assert attribute.listed == tuple(labels[: len(values)])


def test_boolean_cells_are_false_and_true():
    axis = Boolean().axis("married")
    assert axis.labels() == [False, True]
    assert axis.edges.tolist() == [0, 1, 2]


def test_missing_values_come_after_all_others():
    assert Category(values=["F", "M"], other=True, missing="keep").axis("sex").labels() == ["F", "M", "other", None]
    assert Boolean(missing="keep").axis("married").labels() == [False, True, None]
    assert Boolean(missing="keep").size == 3
