"""Files of rows, plain or as the released table was written."""

from __future__ import annotations

import pytest

from sfumato.releases.rows.coding import read_csv
from sfumato.schema import Schema

PLAIN = {
    "dataset": "t",
    "privacy_unit": "row",
    "attributes": {
        "zip": {"type": "category", "values": ["01", "10"], "column": "post code"},
        "pay": {"type": "number", "lower": 0, "upper": 10, "bins": 5},
    },
}
STATED = {"delimiter": ";", "decimal": ",", "encoding": "cp1252"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ({}, "post code,pay\n01,2.5\n,\n"),
        (STATED, "post code;pay\n01;2,5\n;\n"),
        (STATED, "post code,pay\n01,2.5\n,\n"),
        ({**STATED, "columns": ["post code", "pay"]}, "01;2,5\n;\n"),
        ({**STATED, "columns": ["post code", "pay"]}, "post code;pay\n01;2,5\n;\n"),
    ],
    ids=["plain", "stated", "plain all the same", "no header", "a header all the same"],
)
def test_a_file_is_read_as_it_is_written(file, text, tmp_path):
    schema = Schema.from_dict({**PLAIN, **({"file": file} if file else {})})
    path = tmp_path / "r.csv"
    path.write_bytes(text.encode("cp1252"))
    assert read_csv(path, schema).to_pylist() == [{"post code": "01", "pay": 2.5}, {"post code": None, "pay": None}]


def test_without_a_schema_types_are_guessed(tmp_path):
    (tmp_path / "r.csv").write_text("a,b\n01,x\n")
    assert read_csv(tmp_path / "r.csv").to_pylist() == [{"a": 1, "b": "x"}]
