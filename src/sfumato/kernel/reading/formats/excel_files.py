"""Excel workbooks as a source: names from the first row of a sheet, cells as text, each by itself.

The result of a formula may depend on other rows, and was worked out by a program that is not here: such cells are
missing, as are errors. So is a cell that cannot be read: a number in letters, a day out of range, an index beyond the
list of shared texts. Cells beyond the header are no part of the table, and a row without any cell is none.

openpyxl finds the sheet and its date formats, from parts of the file that hold no rows. The rows and the shared texts
are read here, element by element, because openpyxl stops at the first cell that it cannot read, drops rows whose
numbers are out of order, and takes a negative index as one from the list's end. The position of a row is not looked at.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from typing import IO, Any
from xml.parsers import expat

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, Spelling
from sfumato.kernel.reading.formats.csv_records import LONGEST
from sfumato.kernel.reading.formats.files import UntypedFiles, shown_files
from sfumato.kernel.reading.formats.origin import SOURCE, text_of
from sfumato.schema.dialect import Dialect
from sfumato.version import install_command

PLAINLY = Spelling()
_TOGETHER = 10_000  # rows that are handed on at a time
_BLOCK = 2**16  # bytes of a sheet that are looked at together; what is read does not depend on it
_SPACES = (
    "http://schemas.openxmlformats.org/spreadsheetml/2006/main ",
    "http://purl.oclc.org/ooxml/spreadsheetml/main ",
)
_PLACE = re.compile(r"([A-Z]{1,3})[0-9]{1,7}")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


class ExcelFiles(UntypedFiles):
    """Sheets with one header, or with none, read as one table."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the used columns with DuckDB."""
        import pyarrow as pa

        schema = pa.schema([pa.field(column.reference, pa.string()) for column in used])
        wanted = [(int(column.reference[1:]), column.spelling) for column in used]

        def batches() -> Iterator[Any]:
            for path in self.paths:
                with open_sheet(path, self.dialect.sheet) as sheet:
                    rows = islice(sheet.rows(len(self.header)), 0 if self.dialect.columns else 1, None)
                    whole = (row for row in rows if row.is_any)
                    while some := list(islice(whole, _TOGETHER)):
                        texts = [[sheet.text(row.cells.get(at), form) for row in some] for at, form in wanted]
                        yield pa.record_batch([pa.array(text, pa.string()) for text in texts], schema=schema)

        connection.register(name, pa.RecordBatchReader.from_batches(schema, batches()))


def find_excel(paths: tuple[Path, ...], dialect: Dialect) -> ExcelFiles:
    """Source of some sheets as one table, with equal headers."""
    if dialect.columns is not None:
        return ExcelFiles(paths, dialect.columns, dialect)
    header, *others = (_header(path, dialect.sheet) for path in paths)
    if any(other != header for other in others):
        raise TableError(f"{shown_files(paths)} do not all have the same first row; make them equal")
    return ExcelFiles(paths, header, dialect)


def _header(path: Path, sheet: str | None) -> tuple[str, ...]:
    with open_sheet(path, sheet) as found:
        first = next(found.rows(), Row("1"))
        texts = {place: found.text(cell) or "" for place, cell in first.cells.items() if first.number in ("1", None)}
    names = [texts.get(place, "") for place in range(max(texts, default=-1) + 1)]
    while names and not names[-1]:
        names.pop()
    if not names:
        raise TableError(f"{path.name} has no header; the first row must name the columns, or --columns does")
    return tuple(names)


@dataclass(repr=False)  # for privacy, here and below: it would show values
class Cell:
    """Cell as written in the file: type, number format, value, and whether it is a formula."""

    kind: str
    form: str
    value: str | None = ""  # None: longer than any record may be
    is_formula: bool = False


@dataclass(repr=False)
class Row:
    """Cells of a row by column index, and whether any is non-empty. number: stated row number."""

    number: str | None
    cells: dict[int, Cell] = field(default_factory=dict)
    is_any: bool = False


@dataclass(frozen=True, repr=False)
class Sheet:
    """Sheet of an open workbook: archive and part name, shared texts, and number formats that show dates."""

    archive: Any
    part: str
    strings: Sequence[str | None]
    epoch: Any
    days: frozenset[int]
    durations: frozenset[int]

    def rows(self, most: int | None = None) -> Iterator[Row]:
        """Rows in the order of the file. most: number of columns kept."""
        with self.archive.open(self.part) as source:
            yield from _elements(source, _Rows(most))

    def text(self, cell: Cell | None, spelling: Spelling = PLAINLY) -> str | None:
        """A cell as text; None where it is missing or cannot be read.

        spelling: of numbers and dates in its column, so that those of Excel are spelled so too.
        """
        if cell is None:
            return None
        try:
            value = self._value(cell)
            if isinstance(value, date) and spelling.dates is not None:
                moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
                return moment.strftime(spelling.dates)
            text = None if value is None else text_of(value) or None
            return text.replace(".", spelling.decimal) if text and isinstance(value, float) else text
        except Exception:  # for privacy: one cell must not stop a reading, whatever it holds
            return None

    def _value(self, cell: Cell) -> object:
        from openpyxl.utils.datetime import from_excel, from_ISO8601

        text = cell.value
        if not text or cell.is_formula:
            return None
        if cell.kind == "n":
            number: float = int(text) if _INTEGER.fullmatch(text) else float(_matching(_NUMBER, text))
            form = int(_matching(_INTEGER, cell.form))
            return from_excel(number, self.epoch, timedelta=form in self.durations) if form in self.days else number
        if cell.kind == "s":
            place = int(_matching(_INTEGER, text))
            # For privacy: a place before the list must not be counted from its end, which other rows decide.
            return self.strings[place] if place >= 0 else None
        if cell.kind == "b":
            return bool(int(_matching(_INTEGER, text)))
        if cell.kind == "d":
            found: object = from_ISO8601(text)
            return found
        return text if cell.kind in ("str", "inlineStr") else None  # an error, or a type that Excel does not know


class _Texts:
    """Handler of expat for the list of shared texts: each <si>, without its hints for pronunciation."""

    def __init__(self) -> None:
        self.done: list[Any] = []
        self._text: list[str] | None = None  # pieces of the text that is being read
        self._length = 0
        self._aside = 0  # inside how many hints

    def start(self, name: str, attributes: dict[str, str]) -> None:
        if name == "si":
            self._begin()
        self._aside += name == "rPh"

    def end(self, name: str) -> None:
        self._aside -= name == "rPh"
        if name == "si":
            text = self._ended()
            self.done.append(None if text is None else text.replace("x005F_", ""))  # by which Excel writes _x....

    def data(self, text: str, element: str) -> None:
        if self._text is None or self._aside or element != "t":
            return
        self._keep(text)

    def _begin(self) -> None:
        self._text, self._length = [], 0

    def _keep(self, text: str) -> None:
        self._length += len(text)
        if self._text is not None and self._length <= LONGEST:  # so that no cell can fill the memory
            self._text.append(text)

    def _ended(self) -> str | None:
        text, self._text = self._text or [], None
        return "".join(text) if self._length <= LONGEST else None


class _Rows(_Texts):
    """Handler of expat for a sheet: each <row>. Nothing is carried from one row to the next."""

    def __init__(self, most: int | None) -> None:
        super().__init__()
        self._most = most
        self._row: Row | None = None
        self._cell: Cell | None = None
        self._place = -1

    def start(self, name: str, attributes: dict[str, str]) -> None:
        super().start(name, attributes)
        if name == "row":
            self._row, self._place = Row(attributes.get("r")), -1
        elif name == "c" and self._row is not None:
            self._place = _place_of(attributes["r"]) if "r" in attributes else self._place + 1
            self._cell = Cell(attributes.get("t", "n"), attributes.get("s", "0"))
            self._begin()
        elif self._cell is not None:
            self._cell.is_formula = self._cell.is_formula or name == "f"

    def end(self, name: str) -> None:
        self._aside -= name == "rPh"
        if name == "row" and self._row is not None:
            self.done.append(self._row)
            self._row = None
        elif name == "c" and self._row is not None and self._cell is not None:
            cell, self._cell = self._cell, None
            cell.value = self._ended()
            self._row.is_any |= cell.value != "" or cell.is_formula or cell.kind == "inlineStr"
            if self._place >= 0 and (self._most is None or self._place < self._most):
                self._row.cells[self._place] = cell

    def data(self, text: str, element: str) -> None:
        inline = self._cell is not None and self._cell.kind == "inlineStr"
        if self._cell is not None and not self._aside and element == ("t" if inline else "v"):
            self._keep(text)


def _elements(source: IO[bytes], found: _Texts) -> Iterator[Any]:
    """Parse XML block by block and yield each complete element of the handler `found`."""
    parser, inside = expat.ParserCreate(namespace_separator=" "), list[str]()

    def start(name: str, attributes: dict[str, str]) -> None:
        space = next((space for space in _SPACES if name.startswith(space)), None)
        inside.append("" if space is None else name[len(space) :])
        found.start(inside[-1], attributes)

    def end(name: str) -> None:
        found.end(inside.pop())

    def refuse(*_: object) -> None:
        raise ValueError("a document type, whose entities could be anything of any length")

    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = lambda text: found.data(text, inside[-1])
    parser.StartDoctypeDeclHandler = refuse
    while block := source.read(_BLOCK):
        parser.Parse(block)
        yield from found.done
        found.done.clear()
    parser.Parse(b"", True)


def _place_of(name: str) -> int:
    """Column index, from 0, of a cell reference such as B7; -1 if it names no column."""
    letters = _PLACE.fullmatch(name)
    if letters is None:
        return -1
    place = 0
    for letter in letters[1]:
        place = place * 26 + ord(letter) - ord("A") + 1
    return place - 1


def _matching(pattern: re.Pattern[str], text: str) -> str:
    """The text, if it matches a pattern; else a ValueError."""
    if pattern.fullmatch(text) is None:
        raise ValueError("no number")
    return text


@contextmanager
def open_sheet(path: Path, name: str | None) -> Iterator[Sheet]:
    """A sheet of a workbook by its name, the first one if there is none; the file is closed at the end."""
    try:
        import openpyxl
    except ImportError:
        openpyxl = None
    if openpyxl is None:
        raise TableError(f"Excel files need openpyxl; {install_command('excel')}, or save the sheet as CSV")
    book, sheets, strings = None, dict[str, str](), list[str | None]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # for privacy: one of them names the cell of a value
        try:
            book, sheets, strings = _opened(path)
        except Exception:  # a damaged archive has many names
            book = None
    if book is None:
        raise TableError(f"{path.name} cannot be opened; check that it is a complete Excel file (.xlsx)")
    with book.archive:
        if name is not None and name not in sheets:
            raise TableError(f"{path.name} has no sheet {name!r}; it has {', '.join(sheets)}")
        part, about = next(iter(sheets.values())) if name is None else sheets[name], book.wb
        forms = frozenset(about._date_formats), frozenset(about._timedelta_formats)
        yield Sheet(book.archive, part, strings, about.epoch, *forms)


def _opened(path: Path) -> tuple[Any, dict[str, str], list[str | None]]:
    """Open a workbook without reading rows: the workbook, the part of each sheet, and the shared texts."""
    from openpyxl.reader.excel import ExcelReader, apply_stylesheet
    from openpyxl.xml.constants import SHARED_STRINGS

    book = ExcelReader(path, read_only=True, keep_links=False)
    try:
        book.read_manifest()
        book.read_workbook()
        apply_stylesheet(book.archive, book.wb)
        found = [(sheet.name, link) for sheet, link in book.parser.find_sheets() if link.target in book.valid_files]
        sheets = {name: link.target for name, link in found if "chartsheet" not in link.Type}
        if not sheets:
            raise ValueError("no sheet")
        shared, strings = book.package.find(SHARED_STRINGS), list[str | None]()
        if shared is not None:
            with book.archive.open(shared.PartName[1:]) as source:
                strings = list(_elements(source, _Texts()))
    except BaseException:
        book.archive.close()
        raise
    return book, sheets, strings
