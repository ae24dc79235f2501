"""Text files as a source, all values text: CSV, with names from the header or the schema; and JSON lines.

CSV. A header line that looks like that of another dialect is refused with a hint. The header is public; no row is
looked at for it.

JSON lines. A line is a record, an object on it a row; values are text as they are written. A line feed cannot stand
inside a JSON text, so lines separate records whatever they hold, and each is read by itself: a line that is no object,
is not UTF-8 or is longer than LONGEST falls out alone. Names that lines use would be known from rows only, so columns
are those that the schema asks for; a name that a line lacks is a missing value there.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.formats.csv_records import BLOCK, CSV, LONGEST, Grammar, Tally, batches, first_record
from sfumato.kernel.reading.formats.files import TextFile, UntypedFiles, shown_files
from sfumato.kernel.reading.formats.origin import SOURCE
from sfumato.schema.dialect import PLAIN, Dialect

if TYPE_CHECKING:
    import pyarrow as pa

_DELIMITERS = {";": ("semicolon", "';'"), "\t": ("tab", "tab"), "|": ("bar", "'|'"), ",": ("comma", "','")}


def refuse_other_encoding(line: bytes, file: TextFile) -> None:
    """Refuse a first line that is not in the stated encoding, and suggest one that fits."""
    if file.encoding == "utf-8" and (line[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\0" in line):
        raise TableError(
            f"the header of {file.name} looks like UTF-16; add --encoding utf-16, or encoding to the schema"
        )
    try:
        line.decode()
    except UnicodeDecodeError:
        pass
    else:
        return
    raise TableError(
        f"the header of {file.name} is not {file.encoding.upper()} text; add --encoding cp1252 (Windows), latin-1 or "
        "what it was saved in, or encoding to the schema"
    )


def refuse_other_dialect(names: Sequence[str], file: TextFile, dialect: Dialect, separator: str) -> None:
    """Refuse a header that looks like another dialect: one name with other separators in it, or other quotes."""
    if dialect.delimiter is None and len(names) == 1:
        counts = {mark: names[0].count(mark) for mark in _DELIMITERS if mark != separator}
        mark = max(counts, key=lambda one: counts[one])
        if counts[mark]:
            word, spelled = _DELIMITERS[mark]
            many = f"{counts[mark]} {word}" + "s" * (counts[mark] > 1)
            none = _DELIMITERS.get(separator, (repr(separator), ""))[0]
            raise TableError(
                f"the header of {file.name} has no {none}s but {many}: add --delimiter {spelled}, or to the schema "
                f"file: {{delimiter: {spelled}}}"
            )
    if dialect.quote is None and all(len(name) > 2 and name[0] == name[-1] == "'" for name in names):
        raise TableError(
            f'the names in the header of {file.name} stand in single quotes: add --quote "\'", or to the schema '
            'file: {quote: "\'"}'
        )


LONGEST_HEADER = 2**20


@dataclass(frozen=True)
class CsvFiles(UntypedFiles):
    """CSV files with one header, or with none, read as one table."""

    grammar: Grammar = CSV
    block: int = BLOCK  # bytes that are looked at together; what is read does not depend on it
    files: tuple[TextFile, ...] = ()
    tally: Tally = field(default_factory=Tally, repr=False)

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the used columns with DuckDB."""
        import pyarrow as pa

        places = sorted(int(column.reference[1:]) for column in used)
        schema = pa.schema([pa.field(f"c{place}", pa.string()) for place in places])
        encoding = self.dialect.encoding or "utf-8"
        records = batches(
            self.files or [TextFile(path, encoding) for path in self.paths],
            self.grammar,
            len(self.header),
            places,
            header=self.dialect.columns is None,
            block=self.block,
            tally=self.tally,
        )
        connection.register(name, pa.RecordBatchReader.from_batches(schema, records))


def find_csv(paths: tuple[Path, ...], dialect: Dialect = PLAIN, separator: str = ",") -> CsvFiles:
    """Source of some CSV files as one table, with equal headers. separator: where the dialect states none."""
    quote = '"' if dialect.quote is None else dialect.quote
    grammar = Grammar(dialect.delimiter or separator, quote)
    files = tuple(TextFile(path, dialect.encoding or "utf-8") for path in paths)
    if dialect.columns is not None:
        return CsvFiles(paths, dialect.columns, dialect, grammar, files=files)
    header, *others = (_header(file, grammar, dialect) for file in files)
    if any(other != header for other in others):
        raise TableError(f"{shown_files(paths)} do not all have the same header line; make them equal")
    return CsvFiles(paths, header, dialect, grammar, files=files)


def _header(file: TextFile, grammar: Grammar, dialect: Dialect) -> tuple[str, ...]:
    """Column names in a file's first record; nothing behind it is read."""
    try:
        start = file.start(LONGEST_HEADER)
    except (OSError, EOFError, ValueError, zlib.error):
        start = None
    if start is None:
        raise TableError(f"{file.name} cannot be opened; check that it may be read and is complete")
    refuse_other_encoding(start.split(b"\n", 1)[0], file)
    fields = first_record(start if len(start) >= LONGEST_HEADER else start + b"\n", grammar)
    if fields is None or not any(field.strip() for field in fields):
        raise TableError(f"{file.name} has no header; the first line must name the columns, or --columns does")
    if any(b"\r" in field for field in fields):
        raise TableError(f"the lines of {file.name} end with bare carriage returns; save it with line feeds")
    refuse_other_encoding(b"".join(fields), file)
    names = tuple(field.decode() for field in fields)
    refuse_other_dialect(names, file, dialect, grammar.separator)
    return names


_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class JsonLines(UntypedFiles):
    """Files of JSON lines, read as one table of the columns that were asked for."""

    block: int = BLOCK  # bytes that are looked at together; what is read does not depend on it
    tally: Tally = field(default_factory=Tally, repr=False)

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the used columns with DuckDB."""
        import pyarrow as pa

        schema = pa.schema([pa.field(column.reference, pa.string()) for column in used])
        wanted = [column.name for column in used]
        files = [TextFile(path, self.dialect.encoding or "utf-8") for path in self.paths]
        rows = _batches(files, wanted, schema, self.block, self.tally, reader_of(self.dialect.decimal))
        connection.register(name, pa.RecordBatchReader.from_batches(schema, rows))


def find_json(paths: tuple[Path, ...], dialect: Dialect, wanted: Sequence[str]) -> JsonLines:
    """Source of some files of JSON lines, as one table of the wanted columns."""
    names = dialect.columns or tuple(wanted)
    if not names:
        raise TableError(
            f"{shown_files(paths)} names its columns row by row, and rows are not read for that; list them, with "
            "commas between, in --columns"
        )
    if dialect.encoding == "utf-16":
        # For privacy: the order of bytes would be told by the first character, which is one row's own.
        raise TableError(
            "JSON lines have no header to tell the order of bytes; write --encoding utf-16-le or utf-16-be"
        )
    return JsonLines(paths, names, dialect)


def reader_of(decimal: str | None) -> json.JSONDecoder:
    """JSON decoder of a line that returns numbers as text, with the decimal sign of the column.

    >>> reader_of(",").decode('[1.5, "1,5", 2]')
    ['1,5', '1,5', '2']
    """
    spelled = (lambda text: text.replace(".", ",")) if decimal == "," else str
    return json.JSONDecoder(parse_int=str, parse_float=spelled, parse_constant=str)


def _batches(
    files: Iterable[TextFile],
    wanted: Sequence[str],
    schema: pa.Schema,
    block: int,
    tally: Tally,
    reader: json.JSONDecoder,
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for each in files:
        with each.opened() as file:
            for lines in _lines(file, block, tally):
                rows = [row for line in lines if (row := _row(line, reader)) is not None]
                tally.fitting += len(rows)
                columns = [pa.array([_text(row.get(name)) for row in rows], pa.string()) for name in wanted]
                yield pa.record_batch(columns, schema=schema)


def _lines(file: IO[bytes], block: int, tally: Tally) -> Iterator[list[bytes]]:
    """The lines of a file that are not empty nor too long, a block at a time."""
    rest, long = b"", False  # long: what waits is the end of a line that is too long already
    while True:
        read = bytes(file.read(block))
        *whole, rest = (rest + read).split(b"\n")
        if not read:
            whole, rest = [*whole, rest], b""
        if whole and long:
            whole[0], long = b"x" * (LONGEST + 1), False
        there = [line for line in whole if line.strip()]
        tally.records += len(there)
        yield [line for line in there if len(line) <= LONGEST]
        if not read:
            return
        if long or len(rest) > LONGEST:  # of which only that is kept, so that no line can fill the memory
            rest, long = b"", True


def _row(line: bytes, reader: json.JSONDecoder) -> dict[str, object] | None:
    """Parse the object on a line, numbers as text; None if it holds none.

    For privacy nothing that a line holds may stop a reading, and no other line has a part in what it means.
    """
    try:
        # A byte order mark before a line, any line, is no part of it.
        found = reader.decode(line.removeprefix(_BOM).decode())
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _text(value: object) -> str | None:
    """JSON value as text; None for lists, objects and lone surrogates."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return None
    try:
        value.encode()
    except UnicodeEncodeError:
        return None
    return value
