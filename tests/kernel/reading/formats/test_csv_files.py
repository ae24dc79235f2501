"""CSV as it comes: dialects that mean the same table, and hints from the header line."""

import pytest

from sfumato.errors import TableError
from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

PUBLIC = {
    "dataset": "t",
    "privacy_unit": "row",
    "attributes": {
        "name": {"type": "category", "values": ["Ä;b", "c,d", "e'f"]},
        "day": {"type": "date", "lower": "2024-01-01", "upper": "2024-12-31"},
    },
    "measures": {"pay": {"lower": 0, "upper": 10000, "step": "0.5"}},
}
PLAIN = 'name,day,pay\n"Ä;b",2024-02-01,1234.5\n"c,d",2024-03-31,7\ne\'f,2024-12-31,0.5\nx,2024-01-01,1\n'
WRITTEN = {
    "semicolons": (
        'name;day;pay\n"Ä;b";01.02.2024;1.234,5\nc,d;31.3.2024;7\ne\'f;31.12.2024;,5\nx;1.1.2024;1\n',
        {"delimiter": ";", "decimal": ",", "thousands": ".", "dates": "%d.%m.%Y"},
        "utf-8",
    ),
    "code page": (
        "name|day|pay\nÄ;b|02/01/24|1'234.5\nc,d|03/31/24|7\n'e''f'|12/31/24|0.5\nx|01/01/24|1\n",
        {"delimiter": "|", "quote": "'", "thousands": "'", "dates": {"day": "%m/%d/%y"}, "encoding": "cp1252"},
        "cp1252",
    ),
    "utf-16": (
        "name\tday\tpay\r\nÄ;b\t1 Feb 2024\t1 234,5\r\nc,d\t31 Mar 2024\t7\r\n"
        "e'f\t31 Dec 2024\t0,5\r\nx\t1 Jan 2024\t1\r\n",
        {"delimiter": "tab", "thousands": "space", "decimal": ",", "dates": "%d %b %Y", "encoding": "utf-16"},
        "utf-16",
    ),
    "no header": (PLAIN.split("\n", 1)[1], {"columns": ["name", "day", "pay"]}, "utf-8"),
    "no quotes": (
        "name|day|pay\nÄ;b|2024-02-01|1234.5\nc,d|2024-03-31|7\ne'f|2024-12-31|0.5\n\"|2024-01-01|1\n",
        {"delimiter": "|", "quote": "none"},
        "utf-8",
    ),
}


def gathered(path, file=None):
    schema = Schema.from_dict(PUBLIC | ({"file": file} if file else {}))
    found = open_table(path, schema=schema).aggregate(schema, key=1)
    return found.cells.tolist(), found.counts.tolist(), found.sums["pay"].tolist()


@pytest.mark.parametrize("dialect", WRITTEN)
def test_every_dialect_is_the_same_table(tmp_path, dialect):
    text, file, encoding = WRITTEN[dialect]
    plain, other = tmp_path / "plain.csv", tmp_path / "other.csv"
    plain.write_text(PLAIN, encoding="utf-8", newline="")
    other.write_bytes(text.encode(encoding))
    assert gathered(other, file) == gathered(plain)
    assert sum(gathered(plain)[1]) == 3


def test_a_number_that_is_spelled_otherwise_is_missing_and_not_another_number(tmp_path):
    """With points between thousands 1.5 is not 15; without, 1.234 with a decimal comma is no number at all."""
    schema = Schema.from_dict(
        {**PUBLIC, "attributes": {"n": {"type": "integer", "lower": 0, "upper": 2000}}, "measures": {}}
    )

    def read(values, **file):
        path = tmp_path / "t.csv"
        path.write_text("n;x\n" + "".join(f"{value};\n" for value in values))
        public = schema.model_copy(
            update={"file": Schema.from_dict({**PUBLIC, "file": {"delimiter": ";", **file}}).file}
        )
        found = open_table(path, schema=public).aggregate(public, key=1)
        return [cell for cell, n in zip(found.cells.tolist(), found.counts.tolist(), strict=True) for _ in range(n)]

    german = {"decimal": ",", "thousands": "."}
    assert read(["1.234", "1234", "12,7", "1.234,9"], **german) == [12, 1234, 1234, 1234]
    assert read(["1.5", "1.2345", "1,2,3", "1.234.5", "x", "", "12.34"], **german) == []
    assert read(["1.234", "1,5"], decimal=",") == [1]
    assert read(["1,234.5", "12,34", "1 234"], thousands=",") == [1234]
    assert read(["1 234", "1\u00a0234", "1\u202f234"], thousands="space") == [1234] * 3


def test_dates_that_are_written_otherwise_are_missing(tmp_path):
    path = tmp_path / "t.csv"
    rows = ["1.2.20", "2024-02-01", "31.02.2024", "01.02.2024 10:00", "02.01.2024"]
    path.write_text("name,day,pay\n" + "".join(f'"c,d",{day},1\n' for day in rows))
    assert gathered(path, {"dates": "%d.%m.%Y"})[1] == [1]


def test_a_mark_before_a_row_is_no_part_of_it_wherever_it_stands(tmp_path):
    """Without a header the first row is somebody's: what the second means must not depend on there being a first."""
    path = tmp_path / "t.csv"
    for rows in (["\ufeffe'f", "c,d"], ["c,d", "\ufeffe'f"]):
        path.write_text("".join(f'"{row}",2024-01-01,1\n' for row in rows), encoding="utf-8")
        assert sum(gathered(path, {"columns": ["name", "day", "pay"]})[1]) == 2


@pytest.mark.parametrize(
    ("data", "hint"),
    [
        (b"age;sex;pay\n1;F;2\n", "the header of t.csv has no commas but 2 semicolons: add --delimiter ';'"),
        (b"age\tsex\n1\tF\n", "has no commas but 1 tab: add --delimiter tab"),
        (b"age|sex\n", r"has no commas but 1 bar: add --delimiter '\|'"),
        ("größe,sex\n".encode("cp1252"), "is not UTF-8 text; add --encoding cp1252"),
        ("age,sex\n1,F\n".encode("utf-16"), "looks like UTF-16; add --encoding utf-16"),
        (b"'age','sex'\n", "stand in single quotes: add --quote"),
        (b"\n", "has no header; the first line must name the columns, or --columns does"),
    ],
)
def test_a_header_of_another_dialect_is_told(tmp_path, data, hint):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(TableError, match=hint):
        open_table(tmp_path / "t.csv")


def test_a_delimiter_that_was_stated_is_believed(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a;b\n1\n")
    schema = Schema.from_dict({**PUBLIC, "file": {"delimiter": ","}})
    assert [name for name, _ in open_table(path, schema=schema).columns] == ["a;b"]


def test_times_of_day_in_a_stated_form(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("at\n12/31/2024 11:59 PM\n12/31/2024 12:00 AM\n2024-12-31 05:00\n")
    schema = Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": "row",
            "attributes": {"at": {"type": "date", "by": "hour_of_day"}},
            "file": {"dates": "%m/%d/%Y %I:%M %p"},
        }
    )
    assert open_table(path, schema=schema).aggregate(schema, key=1).cells.tolist() == [0, 23]
