"""Decompress a text file and convert it to UTF-8: compression by its name, encoding as stated.

For privacy a character must mean the same whatever stands beside it. So only encodings are read in which each byte, or
each pair of bytes, stands for itself: turning a file into UTF-8 then commutes with taking records out of it. What has
no meaning in an encoding becomes bytes that are not UTF-8: the value that holds it is missing, and nothing stops.
"""

from __future__ import annotations

import bz2
import gzip
import sys
from dataclasses import field
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass

STANDARD_INPUT = Path("-")


_PAIRS = ("utf-16", "utf-16-le", "utf-16-be")


@dataclass(frozen=True)
class TextFile:
    """A file of text, or the standard input, which can be read once."""

    path: Path
    encoding: str = "utf-8"
    _seen: list[bytes] = field(default_factory=list, repr=False)

    @property
    def name(self) -> str:
        """Name for messages."""
        return "standard input" if self.path == STANDARD_INPUT else self.path.name

    def start(self, size: int) -> bytes:
        """Up to `size` bytes of its beginning, in UTF-8; the standard input keeps them for the reading."""
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
    """Bytes that were read already, and then the rest of a stream."""

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
        """The standard input is not ours to close."""


def _turned(file: Any, encoding: str) -> Any:
    return file if encoding == "utf-8" else _Turned(file, encoding)


class _Turned:
    """A stream in UTF-8 of a stream in another encoding."""

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._encoding, self._half, self._ended = file, encoding, b"", False

    def read(self, size: int) -> bytes:
        """Some bytes, more than `size` where characters take more of them; none at the end only."""
        read = bytes(self._file.read(max(size, 2)))
        if self._encoding not in _PAIRS:
            # What a byte page leaves undefined stays the byte that it is, which by itself is not UTF-8.
            return read.decode(self._encoding, "surrogateescape").encode("utf-8", "surrogateescape")
        return self._pairs(read)

    def _pairs(self, read: bytes) -> bytes:
        """UTF-16, of which a half pair or half character waits; alone, it is not UTF-8 and belongs to its record."""
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
