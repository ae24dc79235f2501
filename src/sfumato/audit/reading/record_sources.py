"""JSON lines, sheets and Arrow files as sources of the reading audit."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from random import Random

from sfumato.audit.reading.record_tables import Part, json_parts, sheet_parts
from sfumato.audit.reading.reference import Row, unit_of
from sfumato.audit.reading.source import BLOCKS, Case, Make
from sfumato.audit.reading.tables import AwkwardTable
from sfumato.kernel.source.engines.duckdb import over_origin
from sfumato.kernel.source.origins.json_lines import JsonLines
from sfumato.kernel.source.table import Table, open_table
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


def arrow_file(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    """An Arrow file of several batches."""
    import pyarrow as pa

    whole, path = table.arrow(rows), folder / "t.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, whole.schema) as file:
        file.write_table(whole, max_chunksize=3)
    return open_table(path)
