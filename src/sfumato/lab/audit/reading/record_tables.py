"""Awkward JSON lines, sheets and Arrow files as sources of the reading audit.

A pool lists values of a column: of each its written form, and the text that it must be read as.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZipFile

from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.formats.excel_files import ExcelFiles
from sfumato.kernel.reading.formats.text_files import JsonLines
from sfumato.kernel.reading.table import Table, open_table
from sfumato.lab.audit.reading.reference import Row, unit_of
from sfumato.lab.audit.reading.tables import BLOCKS, PLAIN_NAMES, AwkwardTable, Case, awkward_schema
from sfumato.schema import Schema

Pools = Mapping[str, Sequence[tuple[Any, str | None]]]

_NUMBERS = [("1", "1"), ("-2", "-2"), ("2.50", "2.50"), ("1e400", "1e400"), ("null", None), ("true", "true"),
            ("[1]", None)]  # fmt: skip
# As tokens of JSON.
JSON_POOLS: Pools = {
    "c": [
        *(('"a"', "a"), ('"\\u00e4"', "ä"), ('"x\\ny"', "x\ny"), ("1", "1"), ("true", "true")),
        *(('"\\ud800"', None), ("{}", None)),
    ],
    "n": [*_NUMBERS, ('"1"', "1"), ("NaN", "NaN"), ("-0", "-0")],
    "x": [("0.25", "0.25"), ("0.5e0", "0.5e0"), ('"0,5"', "0,5"), ("null", None), ("-1", "-1")],
    "b": [("true", "true"), ("false", "false"), ("0", "0"), ('"maybe"', "maybe"), ("null", None)],
    "d": [('"2020-02-29"', "2020-02-29"), ('"2020-02-30"', "2020-02-30"), ("20200301", "20200301"), ("null", None)],
    "m": [*_NUMBERS, ("Infinity", "Infinity"), ("-7.5", "-7.5")],
    "who": [('"p"', "p"), ('"P"', "P"), ("7", "7"), ('"\\u00e9"', "é"), ("null", None), ("true", "true")],
}
JSON_JUNK = [b"{", b"[]", b'"', b"\xff", b'{"c": "a"', b"{}{}", b"null", b"\xef\xbb\xbf", b"\0", b"[" * 5000,
             b'{"who": "p"} x', b"  "]  # fmt: skip
_DAY, _TIME = dt.date(2020, 2, 29), dt.datetime(2020, 3, 1, 23, 59, 59)
# As cells of a sheet.
SHEET_POOLS: Pools = {
    "c": [
        *(("a", "a"), ("A", "A"), ("ä", "ä"), (1, "1"), (True, "true"), (None, None)),
        *(("=A1", None), ("#N/A", None), ("x\ny", "x\ny")),
    ],
    "n": [(1, "1"), (-2.0, "-2"), (2.5, "2.5"), ("x", "x"), (None, None), (True, "true"), ("=1+1", None)],
    "x": [(0.25, "0.25"), (0.5, "0.5"), ("0,5", "0,5"), (None, None), (-1, "-1")],
    "b": [(True, "true"), (False, "false"), (0, "0"), ("maybe", "maybe"), (None, None)],
    "d": [(_DAY, "2020-02-29"), (_TIME, "2020-03-01 23:59:59"), ("2020-02-30", "2020-02-30"), (7, "7"), (None, None)],
    "m": [(1, "1"), (-7.5, "-7.5"), (1e300, "1e300"), ("x", "x"), (None, None)],
    "who": [("p", "p"), ("P", "P"), (7, "7"), ("é", "é"), (None, None), ("=B2", None)],
}

# Cells as XML, {r} for where they stand; the shared texts are SHARED, and format 1 shows days. What is malformed is
# missing, and stops nobody.
SHARED = ("p", "P", "a", "1", "2020-02-29", "true")
_BAD = [
    (cell, None)
    for cell in (
        *('<c r="{r}" t="n"><v>abc</v></c>', '<c r="{r}" s="1"><v>1e300</v></c>', '<c r="{r}" t="s"><v>99</v></c>'),
        *('<c r="{r}" t="s"><v>-1</v></c>', '<c r="{r}" t="d"><v>31.2.2020</v></c>', '<c r="{r}" t="b"><v>yes</v></c>'),
        *('<c r="{r}" s="x"><v>1</v></c>', '<c r="{r}" t="odd"><v>a</v></c>', '<c r="{r}" t="e"><v>#N/A</v></c>'),
        *('<c r="{r}"><f>1+1</f><v>2</v></c>', '<c r="?"><v>1</v></c>', ""),
    )
]
_ONE = ('<c r="{r}"><v>1</v></c>', "1")
_PART = ('<c r="{r}"><v>0.25</v></c>', "0.25")
MARKUP_POOLS: Pools = {
    "c": [*_BAD, _ONE, ('<c r="{r}" t="s"><v>2</v></c>', "a"), ('<c r="{r}" t="b"><v>1</v></c>', "true")],
    "n": [*_BAD, _ONE, ('<c r="{r}" t="str"><v>-2</v></c>', "-2"), ('<c r="{r}"><v>2.50</v></c>', "2.5")],
    "x": [*_BAD, _ONE, _PART, ('<c r="{r}" t="inlineStr"><is><t>0.</t><r><t>5</t></r></is></c>', "0.5")],
    "b": [*_BAD, ('<c r="{r}" t="s"><v>5</v></c>', "true"), ('<c r="{r}" t="b"><v>0</v></c>', "false")],
    "d": [*_BAD, ('<c r="{r}" t="s"><v>4</v></c>', "2020-02-29"), ('<c r="{r}" s="1"><v>43890</v></c>', "2020-02-29")],
    "m": [*_BAD, _ONE, _PART, ('<c r="{r}"><v>-7.5E0</v></c>', "-7.5")],
    "who": [*_BAD[:3], *((f'<c r="{{r}}" t="s"><v>{place}</v></c>', SHARED[place]) for place in range(4))],
}


@dataclass(frozen=True)
class Part:
    """One record: its written form, and the row that it must be read as, if any."""

    written: Any
    row: Row | None


def awkward_records(random: Random, pools: Pools) -> tuple[Schema, list[str], list[list[tuple[Any, str | None]]]]:
    """A random schema, its columns, and some records, each a list of pairs: a value as written and as read."""
    schema, names = awkward_schema(random, PLAIN_NAMES)
    few = {part: random.sample(list(pools[part]), min(4, len(pools[part]))) for part in names}
    records = [[random.choice(few[part]) for part in names] for _ in range(random.randint(4, 14))]
    return schema, list(names), records


def _case(schema: Schema, parts: Sequence[Part], opening: Callable[[Sequence[Part]], Table]) -> Case:
    column = schema.privacy_unit.column

    def unit(part: Part) -> Hashable:
        return None if column is None or part.row is None else unit_of(part.row[column])

    def rows(some: Sequence[Part]) -> list[Row]:
        return [part.row for part in some if part.row is not None]

    return Case(schema, tuple(parts), unit, opening, rows, typed=False)


def json_source(random: Random, folder: Path, files: type[JsonLines] = JsonLines) -> Case:
    """Case of a file of JSON lines, junk lines between them, read in blocks of any size."""
    schema, names, records = awkward_records(random, JSON_POOLS)
    line, parts = random.choice([b"\n", b"\r\n"]), list[Part]()
    for record in records:
        there = [(name, *pair) for name, pair in zip(names, record, strict=True) if random.random() < 0.95]
        random.shuffle(there)
        tokens = ", ".join(f"{json.dumps(name)}: {token}" for name, token, _ in there)
        start = b"\xef\xbb\xbf" if random.random() < 0.1 else b""
        known = {name: value for name, _, value in there}
        parts.append(Part(start + b"{" + tokens.encode() + b"}" + line, {name: known.get(name) for name in names}))
        if random.random() < 0.25:
            parts.append(Part(random.choice(JSON_JUNK) + line, None))
    block, path = random.choice(BLOCKS), folder / "t.jsonl"

    def opening(some: Sequence[Part]) -> Table:
        path.write_bytes(b"".join(part.written for part in some))
        return Table(over_origin(files((path,), tuple(names), block=block)))

    return _case(schema, parts, opening)


def excel_source(random: Random, folder: Path) -> Case:
    """Case of a sheet written as an Excel workbook."""
    schema, names, records = awkward_records(random, SHEET_POOLS)
    parts = []
    for record in records:
        cells, texts = zip(*record, strict=True)
        nothing = all(value is None for value in cells)  # a row without any cell is none
        parts.append(Part(cells, None if nothing else dict(zip(names, texts, strict=True))))

    def opening(some: Sequence[Part]) -> Table:
        import openpyxl

        book = openpyxl.Workbook()
        book.active.append(names)
        for part in some:
            book.active.append(part.written)
        book.save(folder / "t.xlsx")
        return open_table(folder / "t.xlsx")

    return _case(schema, parts, opening)


def markup_source(random: Random, folder: Path, files: type[ExcelFiles] = ExcelFiles) -> Case:
    """Case of a sheet in hand-written XML, malformed cells included."""
    schema, names, records = awkward_records(random, MARKUP_POOLS)
    header, parts = ("unused", *names), []
    for record in records:
        number = random.choice(["", ' r="1"', ' r="2"', ' r="7"', ' r="1000000"', ' r="?"'])  # in no order
        cells = [token.format(r=f"{chr(66 + place)}7") for place, (token, _) in enumerate(record)]
        known = {name: text for name, (_, text) in zip(names, record, strict=True)}
        parts.append(Part(f'<row{number}><c r="A1"><v>0</v></c>{"".join(cells)}</row>', known))

    def opening(some: Sequence[Part]) -> Table:
        write_sheet(folder / "t.xlsx", header, [part.written for part in some])
        return Table(over_origin(files((folder / "t.xlsx",), header)))

    return _case(schema, parts, opening)


_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_FORMATS = "http://schemas.openxmlformats.org"
_MAIN = f'xmlns="{_FORMATS}/spreadsheetml/2006/main"'
_LINKS = f"{_FORMATS}/officeDocument/2006/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def write_sheet(path: Path, header: Sequence[str], rows: Sequence[str], shared: Sequence[str] = SHARED) -> None:
    """Write a workbook of one sheet from XML rows; its number format 1 shows dates."""
    kinds = {"workbook": "sheet.main", "worksheets/sheet1": "worksheet", "sharedStrings": "sharedStrings"}
    kinds["styles"] = "styles"
    parts = "".join(
        f'<Override PartName="/xl/{name}.xml" ContentType="{_KIND}.{kind}+xml"/>' for name, kind in kinds.items()
    )
    link = f'<Relationship Id="r1" Type="{_LINKS}/worksheet" Target="worksheets/sheet1.xml"/>'
    names = "".join(f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in header)
    texts = "".join(f"<si><t>{text}</t></si>" for text in shared)
    style = '<xf numFmtId="{}" fontId="0" fillId="0" borderId="0"/>'
    members = {
        "[Content_Types].xml": f'<Types xmlns="{_FORMATS}/package/2006/content-types">{parts}</Types>',
        "xl/workbook.xml": f'<workbook {_MAIN} xmlns:r="{_LINKS}"><sheets><sheet name="t" sheetId="1" r:id="r1"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{_FORMATS}/package/2006/relationships">{link}'
        "</Relationships>",
        "xl/styles.xml": f"<styleSheet {_MAIN}><cellXfs>{style.format(0)}{style.format(14)}</cellXfs></styleSheet>",
        "xl/sharedStrings.xml": f"<sst {_MAIN}>{texts}</sst>",
        "xl/worksheets/sheet1.xml": f"<worksheet {_MAIN}><sheetData><row>{names}</row>{''.join(rows)}</sheetData>"
        "</worksheet>",
    }
    with ZipFile(path, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, _XML + text)


def arrow_file(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    """Open an awkward table as an Arrow file of several batches."""
    import pyarrow as pa

    whole, path = table.arrow(rows), folder / "t.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as file:
        file.write_table(whole, max_chunksize=3)
    return open_table(path)
