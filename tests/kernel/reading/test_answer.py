"""What an engine answers is looked at before it is used: by cell, or row by row."""

import numpy as np
import pyarrow as pa
import pytest

from sfumato.errors import PrivacyError
from sfumato.kernel.counts import Aggregate, Rows
from sfumato.kernel.reading.statement import checked
from sfumato.schema import Schema

MEASURES = {"m": {"lower": -8, "upper": 8, "step": 1, "missing": "drop"}}


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


def test_a_row_without_a_value_adds_no_steps():
    """For privacy: sums and missing values are charged as one, because no row is in both."""
    kept = {"m": {"lower": -8, "upper": 8, "step": 1}}
    few, many = (Schema.from_dict({**one.to_dict(), "measures": kept}) for one in (FEW, MANY))

    def cells(sums, missing):
        return pa.table({"cell": [0, 5], "n": [1, 3], "s0": sums, "s1": missing})

    def rows(steps, missing):
        return by_row([0, 1], [0, 1], [0, 1], m=steps).append_column("missing0", pa.array(missing))

    found = checked(cells([0, -16], [1, 1]), few, row_by_row=False)
    assert isinstance(found, Aggregate) and found.sums["missing m"].tolist() == [1, 1]
    placed = checked(rows([0, -8], [1, 0]), many, row_by_row=True)
    assert isinstance(placed, Rows) and placed.gathered.sums["missing m"].tolist() == [1, 0]
    for wrong in (cells([1, 0], [1, 0]), cells([0, -17], [0, 1]), cells([0, 0], [2, 0]), cells([0, 0], [-1, 0])):
        with pytest.raises(PrivacyError, match="nothing is published"):
            checked(wrong, few, row_by_row=False)
    for wrong in (rows([1, 0], [1, 0]), rows([0, 0], [2, 0]), rows([0, 0], [0, -1]), rows([0, 0], [0, 1]).drop(["m0"])):
        with pytest.raises(PrivacyError, match="nothing is published"):
            checked(wrong, many, row_by_row=True)
