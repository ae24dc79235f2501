"""What an engine answers is looked at before it is used: by cell, or row by row."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import PrivacyError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.rows import Rows
from sfumato.kernel.source.answer import checked
from sfumato.schema import Schema

MEASURES = {"m": {"lower": -8, "upper": 8, "step": 1}}


def schema_of(sizes) -> Schema:
    attributes = {f"a{place}": {"type": "integer", "lower": 0, "upper": size - 1} for place, size in enumerate(sizes)}
    return Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": attributes, "measures": MEASURES})


FEW, MANY = schema_of([10, 10]), schema_of([100] * 5)


def by_cell(cells, counts, sums):
    return pa.table({"cell": cells, "n": counts, "s0": sums})


def by_row(*words, m):
    columns = {f"word{place}": pa.array(word, pa.int32()) for place, word in enumerate(words)}
    return pa.table(columns | {"m0": m})


def test_answers_by_cell():
    found = checked(by_cell([0, 5], [1, 2], [8, -16]), FEW, row_by_row=False)
    assert isinstance(found, Aggregate) and found.counts.tolist() == [1, 2]
    for wrong in (
        by_cell([5, 0], [1, 2], [0, 0]),
        by_cell([0, 0], [1, 2], [0, 0]),
        by_cell([-1, 0], [1, 2], [0, 0]),
        by_cell([0, 100], [1, 2], [0, 0]),
        by_cell([0, 1], [1, 0], [0, 0]),
        by_cell([0, 1], [1, 2], [9, 0]),
        by_cell([0, 1], [1, 2], [0.0, 0.0]),
        by_cell([0, 1], [1, 2], [0, None]),
        by_cell([0, 1], [1, 2], [0, 0]).drop_columns("s0"),
    ):
        with pytest.raises(PrivacyError, match="nothing is published"):
            checked(wrong, FEW, row_by_row=False)


def test_answers_row_by_row():
    found = checked(by_row([0, 9999, 9999], [9999, 0, 0], [99, 1, 0], m=[8, -8, 0]), MANY, row_by_row=True)
    assert isinstance(found, Rows) and len(found) == 3
    assert found.codes("a1", slice(0, 3)).tolist() == [0, 99, 99]
    assert found.codes("a4", slice(0, 3)).tolist() == [99, 1, 0]
    assert all(word.dtype == np.uint16 for word in found.words)
    empty = checked(by_row([], [], [], m=pa.array([], pa.int64())), MANY, row_by_row=True)
    assert isinstance(empty, Rows) and len(empty) == 0 and len(empty.gathered.cells) == 0
    for wrong in (
        by_row([10_000], [0], [0], m=[0]),
        by_row([0], [-1], [0], m=[0]),
        by_row([0], [0], [100], m=[0]),
        by_row([0], [0], [0], m=[9]),
        by_row([0], [0], [0], m=[-9]),
        by_row([0], [0], [0], m=[-(2**63)]),
        by_row([0], [None], [0], m=[0]),
        by_row([0], [0], [0], m=[0.0]),
        by_row([0], [0], m=[0]),
        by_cell([0, 5], [1, 2], [8, -16]),
    ):
        with pytest.raises(PrivacyError, match="nothing is published"):
            checked(wrong, MANY, row_by_row=True)
