"""CSV files as a source: names from the first record or from the schema, no types, all values text.

A header line that looks like that of another dialect is refused with a hint. The header is public; no row is looked at
for it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.formats.csv_records import BLOCK, CSV, Grammar, Tally, batches, first_record
from sfumato.kernel.reading.formats.files import TextFile, UntypedFiles, shown_files
from sfumato.kernel.reading.formats.origin import SOURCE
from sfumato.schema.dialect import PLAIN, Dialect

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
