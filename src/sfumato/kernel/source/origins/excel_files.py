"""Excel workbooks as a source: names from the first row of a sheet, cells as text, each by itself.

What a formula gives may hang on other rows, and was worked out by a program that is not here: such cells are missing,
as are errors. Cells beyond the header are no part of the table, and a row without any cell is no row.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.source.engines import Column, Spelling
from sfumato.kernel.source.origins.arrow_values import text_of
from sfumato.kernel.source.origins.csv_files import spelling_of
from sfumato.kernel.source.origins.origin import SOURCE, shown_files
from sfumato.schema.dialect import PLAIN, Dialect
from sfumato.version import install_command

PLAINLY = Spelling()
_TOGETHER = 10_000  # rows that are handed on at a time


@dataclass(frozen=True)
class ExcelFiles:
    """Sheets with one header, or with none, read as one table."""

    paths: tuple[Path, ...]
    header: tuple[str, ...]
    dialect: Dialect = PLAIN

    @property
    def shown(self) -> str:
        """What a message calls them."""
        return shown_files(self.paths)

    def describe(self, connection: Any) -> list[Column]:
        """Their columns, which have no types: each cell has its own."""
        return [
            Column(name, None, f"c{place}", spelling=spelling_of(self.dialect, name))
            for place, name in enumerate(self.header)
        ]

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the used columns readable."""
        import pyarrow as pa

        places = [int(column.reference[1:]) for column in used]
        schema = pa.schema([pa.field(column.reference, pa.string()) for column in used])
        written = [column.spelling for column in used]

        def batches() -> Iterator[Any]:
            for path in self.paths:
                with _sheet(path, self.dialect.sheet) as sheet:
                    rows = sheet.iter_rows(min_row=1 if self.dialect.columns else 2)
                    whole = (row for row in rows if any(cell.value is not None for cell in row))
                    while some := list(islice(whole, _TOGETHER)):
                        texts = [
                            [_text(row[place], form) if place < len(row) else None for row in some]
                            for place, form in zip(places, written, strict=True)
                        ]
                        yield pa.record_batch([pa.array(text, pa.string()) for text in texts], schema=schema)

        connection.register(SOURCE, pa.RecordBatchReader.from_batches(schema, batches()))


def find_excel(paths: tuple[Path, ...], dialect: Dialect) -> ExcelFiles:
    """The sheets as one table; their headers must be equal."""
    if dialect.columns is not None:
        return ExcelFiles(paths, dialect.columns, dialect)
    header, *others = (_header(path, dialect.sheet) for path in paths)
    if any(other != header for other in others):
        raise TableError(f"{shown_files(paths)} do not all have the same first row; make them equal")
    return ExcelFiles(paths, header, dialect)


def _header(path: Path, sheet: str | None) -> tuple[str, ...]:
    with _sheet(path, sheet) as found:
        names = [_text(cell) or "" for row in found.iter_rows(max_row=1) for cell in row]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise TableError(f"{path.name} has no header; the first row must name the columns, or --columns does")
    return tuple(names)


@contextmanager
def _sheet(path: Path, name: str | None) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError:
        openpyxl = None
    if openpyxl is None:
        raise TableError(f"Excel files need openpyxl; {install_command('excel')}, or save the sheet as CSV")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for privacy: one of them names the cell of a value
        try:
            book = openpyxl.load_workbook(path, read_only=True, data_only=False)
        except Exception:  # a damaged archive has many names
            book = None
        if book is None:
            raise TableError(f"{path.name} cannot be opened; check that it is a complete Excel file (.xlsx)")
        try:
            names = book.sheetnames
            if name is not None and name not in names:
                raise TableError(f"{path.name} has no sheet {name!r}; it has {', '.join(names)}")
            sheet = book[names[0] if name is None else name]
            sheet.reset_dimensions()  # what a file says of its size may be wrong, and would cut rows off
            yield sheet
        finally:
            book.close()


def _text(cell: Any, spelling: Spelling = PLAINLY) -> str | None:
    """A cell as text. spelling: of numbers and dates in its column, so that those of Excel are spelled so too."""
    value = cell.value
    if value is None or cell.data_type in ("f", "e"):
        return None
    if isinstance(value, date) and spelling.dates is not None:
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
        return moment.strftime(spelling.dates)
    text = text_of(value) or None
    return text.replace(".", spelling.decimal) if text and isinstance(value, float) else text
