"""JSON lines: each line by itself, and no line can stop a reading."""

import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.formats import text_files
from sfumato.kernel.reading.formats.text_files import JsonLines
from sfumato.kernel.reading.table import Table, open_table
from sfumato.schema import Schema

PUBLIC = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "age": {"type": "integer", "lower": 0, "upper": 9},
            "sex": {"type": "category", "values": ["F", "M"]},
        },
    }
)
LINES = [
    b'{"age": 1, "sex": "F"}',
    b'{"sex": "M", "age": "2", "more": {"age": 5}}\r',
    b'{"age": 3.0, "sex": "\\u0046"}',
    b"",
    b'{"age": 4}',  # no sex: left out
    b'{"age": 5, "sex": "F"',  # malformed
    b"[1, 2]",
    b'{"age": 6, "sex": "\xff"}',
    b"[" * 100_000,
    b'\xef\xbb\xbf{"age": 7, "sex": "M"}',
    b'{"age": [8], "sex": "F"}',
    b'{"age": 1' + b"0" * 5000 + b', "sex": "F"}',  # too large for a whole number of Python; clipped to 9
    b'{"age": 9, "sex": "M"}',
]


def counts(table: Table) -> list[int]:
    found = table.aggregate(PUBLIC, key=1)
    return [cell // 2 for cell, n in zip(found.cells.tolist(), found.counts.tolist(), strict=True) for _ in range(n)]


@pytest.mark.full
@pytest.mark.parametrize("block", [3, 17, 2**23])
def test_lines_that_can_be_read_are_rows_wherever_the_file_is_cut(tmp_path, block):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(LINES))
    lines = JsonLines((path,), ("age", "sex"), block=block)
    assert counts(Table(over_origin(lines))) == [1, 2, 3, 7, 9, 9]
    assert (lines.tally.records, lines.tally.fitting) == (12, 8)


def test_lines_too_long_fall_out_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LONGEST", 100)
    path = tmp_path / "t.ndjson"
    for size in (60, 400):
        long = b'{"age": 5, "sex": "F", "x": "' + b"x" * size + b'"}'
        path.write_bytes(b"\n".join([LINES[0], long, LINES[-1]]))
        for block in (7, 64, 1000):
            found = counts(Table(over_origin(JsonLines((path,), ("age", "sex"), block=block))))
            assert found == ([1, 5, 9] if size == 60 else [1, 9])


def test_columns_come_from_the_schema_and_never_from_rows(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(LINES))
    assert [name for name, _ in open_table(path, schema=PUBLIC).columns] == ["age", "sex"]
    with pytest.raises(TableError, match="list them, with commas between, in --columns"):
        open_table(path)


def test_the_order_of_bytes_is_stated_where_no_header_can_tell_it(tmp_path):
    from sfumato.schema.dialect import Dialect

    path = tmp_path / "t.jsonl"
    path.write_bytes('{"age": 1, "sex": "F"}\n'.encode("utf-16-be"))
    for encoding, works in (("utf-16", False), ("utf-16-be", True)):
        schema = PUBLIC.model_copy(update={"file": Dialect(encoding=encoding)})
        if works:
            assert counts(open_table(path, schema=schema)) == [1]
        else:
            with pytest.raises(TableError, match="utf-16-le or utf-16-be"):
                open_table(path, schema=schema)
