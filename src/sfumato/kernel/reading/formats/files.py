"""Files of a table: paths and patterns, formats by name, and text files decoded to UTF-8.

Compression is told by a file's name, the encoding is as stated. For privacy a character must mean the same whatever
stands beside it. So only encodings are read in which each byte, or each pair of bytes, stands for itself: turning a
file into UTF-8 then commutes with taking records out of it. What has no meaning in an encoding becomes bytes that are
not UTF-8: the value that holds it is missing, and nothing stops.
"""

from __future__ import annotations

import bz2
import gzip
import re
import sys
from collections.abc import Sequence
from dataclasses import field
from glob import glob
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, Spelling
from sfumato.schema.dialect import PLAIN, Dialect

STANDARD_INPUT = Path("-")
COMPRESSIONS = ("", ".gz", ".bz2", ".zst")
# Which format a file's name says it has.
_TEXTS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
ENDINGS = {end + packed: kind for end, kind in _TEXTS.items() for packed in COMPRESSIONS}
ENDINGS |= {".parquet": "parquet", ".feather": "arrow", ".arrow": "arrow", ".ipc": "arrow", ".xlsx": "xlsx"}
_PATTERN = re.compile(r"[*?\[]")
_PAIRS = ("utf-16", "utf-16-le", "utf-16-be")


def paths_of(table: str | Path) -> tuple[Path, ...]:
    """The files that a path or a pattern names; the standard input for -."""
    if str(table) == str(STANDARD_INPUT):
        return (STANDARD_INPUT,)
    if any(ord(character) < 32 for character in str(table)):
        raise TableError(f"{str(table)!r} is not a path; check it")
    try:
        path = Path(table).expanduser()
        found = [path]
        if _PATTERN.search(str(path)) and not path.exists():
            found = sorted(name for name in map(Path, glob(str(path), recursive=True)) if not name.is_dir())  # noqa: PTH207
            if not found:
                raise TableError(f"no file matches {table}; check the pattern")
        missing = next((name for name in found if not name.exists()), None)
    except (OSError, ValueError, RuntimeError):
        raise TableError(f"{str(table)[:200]!r} is not a path; check it") from None
    if missing is not None:
        raise TableError(f"there is no file {missing}; check the path")
    if any(name.is_dir() for name in found):
        raise TableError(f"{table} is a folder; name the files in it, such as {path / '*.parquet'}")
    return tuple(name.absolute() for name in found)


def format_of(path: str | Path, dialect: Dialect = PLAIN) -> str | None:
    """Format of a file: the stated one, or the one that its name implies.

    >>> format_of("visits.CSV.gz"), format_of("-"), format_of("visits")
    ('csv', 'csv', None)
    """
    name = "-.csv" if str(path) == str(STANDARD_INPUT) else Path(path).name.lower()
    endings = sorted(ENDINGS, key=len, reverse=True)
    return dialect.format or next((ENDINGS[end] for end in endings if name.endswith(end)), None)


def shown_files(paths: Sequence[Path]) -> str:
    """Name of some files for messages."""
    names = ["the standard input" if str(path) == "-" else path.name for path in paths[:3]]
    return ", ".join(names) + (", ..." if len(paths) > 3 else "")


@dataclass(frozen=True)
class UntypedFiles:
    """Files read as one table of text columns without types, since detecting types would read values.

    header: the names of all columns, as the first record or the schema has them.
    """

    paths: tuple[Path, ...]
    header: tuple[str, ...]
    dialect: Dialect = PLAIN

    @property
    def shown(self) -> str:
        """Names of the files for messages."""
        return shown_files(self.paths)

    @property
    def only_once(self) -> bool:
        """Whether the files can be read only once (the standard input)."""
        return STANDARD_INPUT in self.paths

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the files, with the format of numbers and dates in them."""
        numbers, dates = (self.dialect.decimal or ".", self.dialect.thousands or ""), self.dialect.date_format
        return [
            Column(name, None, f"c{place}", spelling=Spelling(*numbers, dates(name)))
            for place, name in enumerate(self.header)
        ]


@dataclass(frozen=True)
class TextFile:
    """Text file, or the standard input, which can be read only once."""

    path: Path
    encoding: str = "utf-8"
    _seen: list[bytes] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """Name of the file for messages."""
        return "standard input" if self.path == STANDARD_INPUT else self.path.name

    def start(self, size: int) -> bytes:
        """First `size` bytes in UTF-8; of the standard input they are kept for the reading."""
        if self.path != STANDARD_INPUT:
            with self.opened() as file:
                return _filled(file, size)
        if not self._seen:
            self._seen.append(_filled(sys.stdin.buffer, size))
        return _filled(_turned(_Again(self._seen[0], None), self.encoding), size)

    def opened(self) -> Any:
        """Open the file as a binary stream at its beginning, decompressed and converted to UTF-8."""
        if self.path == STANDARD_INPUT:
            if len(self._seen) > 1:
                raise TableError("the standard input was read already and is used up; write it to a file")
            kept = self._seen[0] if self._seen else b""
            self._seen[:] = [b"", b""]
            return _turned(_Again(kept, sys.stdin.buffer), self.encoding)
        return _turned(_unpacked(self.path), self.encoding)


def _unpacked(path: Path) -> Any:
    match path.suffix.lower():
        case ".gz":
            return gzip.open(path, "rb")
        case ".bz2":
            return bz2.open(path, "rb")
        case ".zst":
            import pyarrow as pa

            return pa.input_stream(str(path), compression="zstd")
    return path.open("rb")


def _filled(file: Any, size: int) -> bytes:
    """Read `size` bytes, or all that are left; a pipe gives fewer at a time."""
    parts, found = list[bytes](), 0
    while found < size and (read := bytes(file.read(size - found))):
        parts.append(read)
        found += len(read)
    return b"".join(parts)[:size]


class _Again:
    """Stream of bytes already read, followed by the rest of another stream."""

    def __init__(self, kept: bytes, rest: Any) -> None:
        self._kept, self._rest = kept, rest

    def read(self, size: int) -> bytes:
        if self._kept:
            found, self._kept = self._kept[:size], self._kept[size:]
            return found
        return b"" if self._rest is None else bytes(self._rest.read(size))

    def __enter__(self) -> _Again:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the standard input open."""


def _turned(file: Any, encoding: str) -> Any:
    return file if encoding == "utf-8" else _Turned(file, encoding)


class _Turned:
    """Stream that converts another encoding to UTF-8."""

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._encoding, self._half, self._ended = file, encoding, b"", False

    def read(self, size: int) -> bytes:
        """Read some bytes, perhaps more than `size`; empty only at the end."""
        read = bytes(self._file.read(max(size, 2)))
        if self._encoding not in _PAIRS:
            # What a byte page leaves undefined stays the byte that it is, which by itself is not UTF-8.
            return read.decode(self._encoding, "surrogateescape").encode("utf-8", "surrogateescape")
        return self._pairs(read)

    def _pairs(self, read: bytes) -> bytes:
        """Convert UTF-16; an incomplete character waits, and at the end becomes an invalid byte of its record."""
        while True:
            data = self._half + read
            if self._encoding == "utf-16" and len(data) >= 2:  # the mark is the header's own first character
                self._encoding = "utf-16-be" if data[:2] == b"\xfe\xff" else "utf-16-le"
            if not read:
                odd, self._half = len(data) % 2, b""
                whole = data[: len(data) - odd]
                return whole.decode(self._encoding, "surrogatepass").encode("utf-8", "surrogatepass") + b"\xff" * odd
            keep = len(data) % 2
            last = data[len(data) - keep - 2 : len(data) - keep]
            high = len(last) == 2 and 0xD8 <= last[self._encoding == "utf-16-le"] <= 0xDB
            keep += 2 * high
            self._half = data[len(data) - keep :]
            if whole := data[: len(data) - keep]:
                return whole.decode(self._encoding, "surrogatepass").encode("utf-8", "surrogatepass")
            read = bytes(self._file.read(2))

    def __enter__(self) -> _Turned:
        self._file.__enter__()
        return self

    def __exit__(self, *what: object) -> None:
        self._file.__exit__(*what)
