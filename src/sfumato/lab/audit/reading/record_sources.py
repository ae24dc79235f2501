"""JSON lines, sheets and Arrow files as sources of the reading audit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from random import Random
from zipfile import ZipFile

from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.formats.excel_files import ExcelFiles
from sfumato.kernel.reading.formats.json_lines import JsonLines
from sfumato.kernel.reading.table import Table, open_table
from sfumato.lab.audit.reading.record_tables import SHARED, Part, json_parts, markup_parts, sheet_parts
from sfumato.lab.audit.reading.reference import Row, unit_of
from sfumato.lab.audit.reading.source import BLOCKS, Case, Make
from sfumato.lab.audit.reading.tables import AwkwardTable
from sfumato.schema import Schema


def _case(schema: Schema, parts: tuple[Part, ...], opening: Callable[[Sequence[Part]], Table]) -> Case:
    column = schema.privacy_unit.column

    def unit(part: Part) -> Hashable:
        return None if column is None or part.row is None else unit_of(part.row[column])

    def rows(some: Sequence[Part]) -> list[Row]:
        return [part.row for part in some if part.row is not None]

    return Case(schema, parts, unit, opening, rows, typed=False)


def json_source(files: type[JsonLines] = JsonLines) -> Make:
    """JSON lines, cut into blocks of any size."""

    def make(random: Random, folder: Path) -> Case:
        (schema, parts), block, path = json_parts(random), random.choice(BLOCKS), folder / "t.jsonl"
        names = tuple(dict.fromkeys(name for part in parts if part.row is not None for name in part.row))

        def opening(some: Sequence[Part]) -> Table:
            path.write_bytes(b"".join(part.written for part in some))
            return Table(over_origin(files((path,), names, block=block)))

        return _case(schema, parts, opening)

    return make


def excel_source(random: Random, folder: Path) -> Case:
    """A sheet of an Excel workbook."""
    schema, names, parts = sheet_parts(random)

    def opening(some: Sequence[Part]) -> Table:
        import openpyxl

        book = openpyxl.Workbook()
        book.active.append(names)
        for part in some:
            book.active.append(part.written)
        book.save(folder / "t.xlsx")
        return open_table(folder / "t.xlsx")

    return _case(schema, parts, opening)


def markup_source(files: type[ExcelFiles] = ExcelFiles) -> Make:
    """A sheet whose cells are written by hand, malformed ones among them."""

    def make(random: Random, folder: Path) -> Case:
        schema, names, parts = markup_parts(random)
        header = ("unused", *names)

        def opening(some: Sequence[Part]) -> Table:
            write_sheet(folder / "t.xlsx", header, [part.written for part in some])
            return Table(over_origin(files((folder / "t.xlsx",), header)))

        return _case(schema, parts, opening)

    return make


_XML = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>'
_FORMATS = "http://schemas.openxmlformats.org"
_MAIN = f'xmlns="{_FORMATS}/spreadsheetml/2006/main"'
_LINKS = f"{_FORMATS}/officeDocument/2006/relationships"
_KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def write_sheet(path: Path, header: Sequence[str], rows: Sequence[str], shared: Sequence[str] = SHARED) -> None:
    """A workbook of one sheet, its rows as XML; in its format 1 a number is a day."""
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
    """An Arrow file of several batches."""
    import pyarrow as pa

    whole, path = table.arrow(rows), folder / "t.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as file:
        file.write_table(whole, max_chunksize=3)
    return open_table(path)
