"""Rows that somebody brings to a model: values to cells, and what cannot be read goes nowhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sfumato.errors import QueryError, TableError
from sfumato.releases.rows.coding import NOWHERE, codes_in, read_rows
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "pay": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
            "sex": {"type": "category", "values": ["F", "M"]},
            "ill": {"type": "boolean", "missing": "keep"},
            "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-01-31"},
        },
    }
)
ROWS = [
    {"age": 0, "pay": 0.0, "sex": "F", "ill": True, "day": "2024-01-01"},
    {"age": 9, "pay": 10.0, "sex": "M", "ill": False, "day": "2024-01-31"},
    {"age": 10, "pay": 9.99, "sex": "X", "ill": None, "day": "never"},
    {"age": None, "pay": None, "sex": None, "ill": True, "day": None},
]


def test_values_find_their_cells():
    codes = codes_in(read_rows(ROWS), SCHEMA, SCHEMA.domain.names)
    assert codes["age"].tolist() == [0, 9, 9, NOWHERE]  # beyond the bounds: the nearest, as in the table
    assert codes["pay"].tolist() == [0, 4, 4, NOWHERE]
    assert codes["sex"].tolist() == [0, 1, NOWHERE, NOWHERE]
    assert codes["ill"].tolist() == [1, 0, 2, 1]
    assert codes["day"].tolist() == [0, 30, NOWHERE, NOWHERE]


@pytest.mark.parametrize("form", ["csv", "parquet", "arrow", "pandas"])
def test_every_form_of_rows_says_the_same(form, tmp_path):
    rows = pa.Table.from_pylist(ROWS[:2])
    given: object = rows
    if form == "csv":
        given = tmp_path / "r.csv"
        given.write_text("age,pay,sex,ill,day\n0,0.0,F,true,2024-01-01\n9,10.0,M,false,2024-01-31\n")
    elif form == "parquet":
        given = tmp_path / "r.parquet"
        parquet.write_table(rows, given)
    elif form == "pandas":
        given = rows.to_pandas()
    found = codes_in(read_rows(given), SCHEMA, SCHEMA.domain.names)
    wanted = codes_in(rows, SCHEMA, SCHEMA.domain.names)
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_what_is_lacking_or_unreadable_is_said(tmp_path):
    with pytest.raises(QueryError, match="no column 'sex'; the model needs age, sex"):
        codes_in(pa.table({"age": [1]}), SCHEMA, ["age", "sex"])
    with pytest.raises(TableError, match="cannot read"):
        read_rows(tmp_path / "none.csv")
    with pytest.raises(TableError, match="not rows"):
        read_rows("rows.xlsx")
    with pytest.raises(QueryError, match="a path"):
        read_rows(3)


MESSY = Schema.from_dict(
    {
        "dataset": "visits",
        "privacy_unit": "row",
        "file": {"delimiter": ";", "dates": "%d.%m.%Y %H:%M"},
        "attributes": {
            "weekday": {"type": "date", "by": "weekday", "column": "Arrived"},
            "hour": {"type": "date", "by": "hour_of_day", "column": "Arrived"},
            "month": {"type": "date", "by": "month", "lower": "2024-01-01", "upper": "2024-03-31", "column": "Arrived"},
            "ward": {"type": "category", "values": ["S", "N"], "map": {"north": "N"}, "fold": "case", "other": True},
            "urgent": {"type": "boolean", "map": {"ja": True, "nein": False}, "missing": "keep"},
        },
    }
)


def test_rows_are_read_as_the_table_was_or_as_a_release_names_values():
    theirs = [
        {"Arrived": "14.02.2024 23:10", "ward": "North", "urgent": "ja"},
        {"Arrived": "31.12.2023 00:00", "ward": "Z", "urgent": None},
        {"Arrived": "soon", "ward": None, "urgent": "nein"},
    ]
    named = [
        {"weekday": "Wednesday", "hour": 23, "month": "2024-02", "ward": "N", "urgent": True},
        {"weekday": "Sunday", "hour": 0, "month": "2024-01", "ward": "other", "urgent": None},
        {"weekday": None, "hour": None, "month": None, "ward": None, "urgent": False},
    ]
    wanted = {"weekday": [2, 6, -1], "hour": [23, 0, -1], "month": [1, 0, -1], "ward": [1, 2, -1], "urgent": [1, 2, 0]}
    for rows in (theirs, named):
        found = codes_in(read_rows(rows), MESSY, MESSY.domain.names)
        assert {name: codes.tolist() for name, codes in found.items()} == wanted
    with pytest.raises(QueryError, match="no column 'weekday' nor 'Arrived', as the table has it"):
        codes_in(read_rows([{"ward": "N"}]), MESSY, ["weekday"])
