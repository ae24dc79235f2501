"""Rows that somebody brings to a model: values to cells, and what cannot be read goes nowhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sfumato.errors import QueryError, TableError
from sfumato.releases.rows.encode import NOWHERE, codes_in, read_rows
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
    codes = codes_in(read_rows(ROWS), SCHEMA.domain, SCHEMA.domain.names)
    assert codes["age"].tolist() == [0, 9, NOWHERE, NOWHERE]
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
    found = codes_in(read_rows(given), SCHEMA.domain, SCHEMA.domain.names)
    wanted = codes_in(rows, SCHEMA.domain, SCHEMA.domain.names)
    assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_what_is_lacking_or_unreadable_is_said(tmp_path):
    with pytest.raises(QueryError, match="no column 'sex'; the model needs age, sex"):
        codes_in(pa.table({"age": [1]}), SCHEMA.domain, ["age", "sex"])
    with pytest.raises(TableError, match="cannot read"):
        read_rows(tmp_path / "none.csv")
    with pytest.raises(TableError, match="not rows"):
        read_rows("rows.xlsx")
    with pytest.raises(QueryError, match="a path"):
        read_rows(3)
