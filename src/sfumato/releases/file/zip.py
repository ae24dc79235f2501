"""The zip that a release file is, in one spelling only.

Members are stored in a fixed order, with fixed dates and permissions, end to end. The same functions make the headers
for writing and for comparing, so a reader needs no lenient zip parser: a byte that differs from what Sfumato would have
written is a refusal. That leaves no room for hidden, overlapping, linked, encrypted or compressed members, nor for
anything before, between or after them.
"""

from __future__ import annotations

import re
import stat
import struct
import zlib
from typing import IO, NoReturn

from sfumato.frozen import dataclass
from sfumato.releases.file.manifest import MOST_MANIFEST_BYTES
from sfumato.releases.file.strict_json import refusal

MANIFEST_FILE = "manifest.json"
MOST_FILE_BYTES = 2**32 - 2  # what a plain zip can address; zip64 is never needed and never accepted
MOST_MEMBERS = 64

MEMBER_FILE = re.compile(r"[a-z][a-z0-9_]{0,39}\.parquet")
_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_ENDING = struct.Struct("<4s4H2LH")
_MADE_BY, _NEEDS, _STORED = (3 << 8) | 20, 20, 0
_MIDNIGHT, _FIRST_DAY = 0, (1 << 5) | 1  # 1980-01-01 00:00, so that equal releases are equal files
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16


@dataclass(frozen=True)
class Entry:
    """A zip member: its name, what its bytes add up to and where it starts."""

    name: str
    crc: int
    size: int
    start: int

    @property
    def local(self) -> bytes:
        """The header before the member's bytes."""
        name = self.name.encode("ascii")
        fields = (_NEEDS, 0, _STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\3\4", *fields) + name

    @property
    def central(self) -> bytes:
        """The member's record in the directory at the end."""
        name = self.name.encode("ascii")
        fields = (_MADE_BY, _NEEDS, 0, _STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(name))
        return _CENTRAL.pack(b"PK\1\2", *fields, 0, 0, 0, 0, _PLAIN_FILE, self.start) + name

    @property
    def end(self) -> int:
        return self.start + len(self.local) + self.size


def directory_of(entries: list[Entry]) -> bytes:
    """What stands behind the last member."""
    records = b"".join(entry.central for entry in entries)
    return records + _ENDING.pack(b"PK\5\6", 0, 0, len(entries), len(entries), len(records), entries[-1].end, 0)


def read_directory(file: IO[bytes], size: int) -> list[Entry]:
    """The zip's members, after checking that the file is exactly headers, members, directory and ending."""
    if size > MOST_FILE_BYTES:
        raise refusal("it is larger than 4 GB", "ask the publisher for a smaller release")
    if size < _ENDING.size or _at(file, 0, 4) != b"PK\3\4":
        raise refusal("it is not a Sfumato release, or something was put before it")
    ending = _ENDING.unpack(_at(file, size - _ENDING.size, _ENDING.size))
    count, length, start = ending[3], ending[5], ending[6]
    if ending[0] != b"PK\5\6" or start + length + _ENDING.size != size:
        raise refusal("it was cut short, or something was added to it")
    if not 2 <= count <= 1 + MOST_MEMBERS or length > count * (_CENTRAL.size + 64):
        raise refusal("it does not have as many members as a release has")
    directory, entries, place = _at(file, start, length + _ENDING.size), list[Entry](), 0
    for _ in range(count):
        if place + _CENTRAL.size > length:
            _foreign()
        record = _CENTRAL.unpack_from(directory, place)
        name = directory[place + _CENTRAL.size : place + _CENTRAL.size + record[10]]
        entries.append(Entry(_safe_name(name), record[7], record[8], record[16]))
        place += len(entries[-1].central)
        if entries[-1].size > size:
            _foreign()
    if len({entry.name for entry in entries}) < count:
        raise refusal("it has a member twice")
    if entries[0].name != MANIFEST_FILE:
        raise refusal("it does not start with its manifest")
    if [*(entry.start for entry in entries), start] != [0, *(entry.end for entry in entries)]:
        _foreign()
    if directory != directory_of(entries) or any(
        _at(file, entry.start, len(entry.local)) != entry.local for entry in entries
    ):
        _foreign()
    if entries[0].size > MOST_MANIFEST_BYTES:
        raise refusal("its manifest is larger than 1 MB")
    return entries


def _foreign() -> NoReturn:
    raise refusal("its zip is not laid out as Sfumato does it: compressed, encrypted, linked or overlapping members")


def _safe_name(raw: bytes) -> str:
    name = raw.decode("latin-1")
    if name != MANIFEST_FILE and not MEMBER_FILE.fullmatch(name):
        raise refusal(f"it has a member with an unknown or unsafe name, {name[:60]!r}")
    return name


def _at(file: IO[bytes], start: int, size: int) -> bytes:
    file.seek(start)
    data = file.read(size)
    if len(data) != size:
        raise refusal("it was cut short")
    return data


def read_body(file: IO[bytes], entry: Entry) -> bytes:
    """A member's bytes."""
    data = _at(file, entry.start + len(entry.local), entry.size)
    if zlib.crc32(data) != entry.crc:
        raise refusal(f"it is damaged: its member {entry.name} does not match its checksum")
    return data
