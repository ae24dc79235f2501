"""Excel: each cell by itself, formulas and errors as missing, and dates in the form that the schema states."""

import datetime as dt

import pytest

from sfumato.errors import TableError
from sfumato.kernel.source.table import open_table
from sfumato.schema import Schema

openpyxl = pytest.importorskip("openpyxl")
PUBLIC = {
    "dataset": "t",
    "privacy_unit": "row",
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 9},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31", "by": "month"},
    },
}


def written(tmp_path, rows, title="Sheet"):
    book = openpyxl.Workbook()
    book.active.title = "first"
    sheet = book.active if title == "Sheet" else book.create_sheet(title)
    for row in rows:
        sheet.append(row)
    book.save(tmp_path / "t.xlsx")
    return tmp_path / "t.xlsx"


def counts(path, **file):
    schema = Schema.from_dict(PUBLIC | ({"file": file} if file else {}))
    found = open_table(path, schema=schema).aggregate(schema, key=1)
    return [cell for cell, n in zip(found.cells.tolist(), found.counts.tolist(), strict=True) for _ in range(n)]


DAY = dt.date(2024, 3, 1)
ROWS = [
    ["note", "age", "day"],
    ["x", 1, DAY],
    [None] * 3,
    ["x", "2", "2024-02-01"],
    ["x", "=1+1", DAY],
    ["x", "#N/A", DAY],
]


def test_cells_are_read_one_by_one(tmp_path):
    rows = [*ROWS, ["x", 3.0, dt.datetime(2024, 3, 1, 23, 59), "beyond the header"], ["x", 4, None], ["short"]]
    assert counts(written(tmp_path, rows)) == [14, 25, 38]


def test_dates_of_excel_and_dates_as_text_in_one_column(tmp_path):
    rows = [ROWS[0], ["x", 1, DAY], ["x", 2, "01.03.2024"], ["x", 3, "2024-03-01"]]
    assert counts(written(tmp_path, rows), dates="%d.%m.%Y") == [14, 26]


def test_a_sheet_is_named_and_a_header_may_be_missing(tmp_path):
    path = written(tmp_path, ROWS, "data")
    assert counts(path, sheet="data") == [14, 25]
    with pytest.raises(TableError, match="has no sheet 'dat'; it has first, data"):
        counts(path, sheet="dat")
    with pytest.raises(TableError, match=r"t\.xlsx has no header"):
        counts(path)
    (tmp_path / "bad.xlsx").write_text("x")
    with pytest.raises(TableError, match=r"bad\.xlsx cannot be opened"):
        counts(tmp_path / "bad.xlsx")
    assert counts(written(tmp_path, ROWS[1:]), columns=["note", "age", "day"]) == [14, 25]
