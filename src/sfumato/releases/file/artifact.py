"""Release file: a zip with `manifest.json` first and Parquet members, in one canonical byte layout.

Members are stored in a fixed order, with fixed dates and permissions, end to end. The same functions make the headers
for writing and for comparing, so a reader needs no lenient zip parser: a byte that differs from what Sfumato would have
written is refused. That excludes hidden, overlapping, linked, encrypted or compressed members, and anything before,
between or after them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import stat
import struct
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import IO, NoReturn

import numpy as np

from sfumato.arrays import Whole
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.releases.file.consistency import check_manifest, check_values, usual_bound
from sfumato.releases.file.manifest import MOST_MANIFEST_BYTES, Manifest, Member, manifest_bytes, parse_manifest
from sfumato.releases.file.members import check_parquet as check_columns
from sfumato.releases.file.members import read_columns, write_columns
from sfumato.releases.file.records import one_line, refusal
from sfumato.schema import Schema

MANIFEST_FILE = "manifest.json"
HEAD_FILE, TABLES_FILE = "series.json", "tables.json"  # of a file of several releases (series.py, linked.py)
MOST_FILE_BYTES = 2**32 - 2  # what a plain zip can address; zip64 is never needed and never accepted
MOST_MEMBERS = 64

MEMBER_FILE = re.compile(r"[a-z][a-z0-9_]{0,39}\.parquet")


@dataclass(frozen=True)
class Layout:
    """Members of a zip of Sfumato: name and largest size of the first, names and number of the others."""

    head: str
    most_bytes: int
    member: re.Pattern[str]
    most: int


RELEASE = Layout(MANIFEST_FILE, MOST_MANIFEST_BYTES, MEMBER_FILE, MOST_MEMBERS)

_LOCAL = struct.Struct("<4s5H3L2H")
_CENTRAL = struct.Struct("<4s6H3L5H2L")
_ENDING = struct.Struct("<4s4H2LH")
_MADE_BY, _NEEDS, _STORED = (3 << 8) | 20, 20, 0
_MIDNIGHT, _FIRST_DAY = 0, (1 << 5) | 1  # 1980-01-01 00:00, so that equal releases are equal files
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16


@dataclass(frozen=True)
class Entry:
    """Zip member: name, CRC-32, size and offset."""

    name: str
    crc: int
    size: int
    start: int

    @property
    def local(self) -> bytes:
        """Local header before the member's bytes."""
        name = self.name.encode("ascii")
        fields = (_NEEDS, 0, _STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(name), 0)
        return _LOCAL.pack(b"PK\3\4", *fields) + name

    @property
    def central(self) -> bytes:
        """Central directory record of the member."""
        name = self.name.encode("ascii")
        fields = (_MADE_BY, _NEEDS, 0, _STORED, _MIDNIGHT, _FIRST_DAY, self.crc, self.size, self.size, len(name))
        return _CENTRAL.pack(b"PK\1\2", *fields, 0, 0, 0, 0, _PLAIN_FILE, self.start) + name

    @property
    def end(self) -> int:
        """Offset behind the member's bytes."""
        return self.start + len(self.local) + self.size


def directory_of(entries: list[Entry]) -> bytes:
    """Central directory and end record behind the last member."""
    records = b"".join(entry.central for entry in entries)
    return records + _ENDING.pack(b"PK\5\6", 0, 0, len(entries), len(entries), len(records), entries[-1].end, 0)


def read_directory(file: IO[bytes], size: int, layout: Layout = RELEASE) -> list[Entry]:
    """Zip members of an untrusted file, checked to consist of headers, members, directory and ending alone."""
    if size > MOST_FILE_BYTES:
        raise refusal("it is larger than 4 GB", "ask the publisher for a smaller release")
    if size < _ENDING.size or _at(file, 0, 4) != b"PK\3\4":
        raise refusal("it is not a Sfumato release, or something was put before it")
    ending = _ENDING.unpack(_at(file, size - _ENDING.size, _ENDING.size))
    count, length, start = ending[3], ending[5], ending[6]
    if ending[0] != b"PK\5\6" or start + length + _ENDING.size != size:
        raise refusal("it was cut short, or something was added to it")
    if not 2 <= count <= 1 + layout.most or length > count * (_CENTRAL.size + 64):
        raise refusal("it does not have as many members as a release has")
    directory, entries, offset = _at(file, start, length + _ENDING.size), list[Entry](), 0
    for _ in range(count):
        if offset + _CENTRAL.size > length:
            _foreign()
        record = _CENTRAL.unpack_from(directory, offset)
        name = directory[offset + _CENTRAL.size : offset + _CENTRAL.size + record[10]]
        entries.append(Entry(_safe_name(name, layout), record[7], record[8], record[16]))
        offset += len(entries[-1].central)
        if entries[-1].size > size:
            _foreign()
    if len({entry.name for entry in entries}) < count:
        raise refusal("it has a member twice")
    if entries[0].name != layout.head:
        raise refusal("it does not start with its manifest")
    if [*(entry.start for entry in entries), start] != [0, *(entry.end for entry in entries)]:
        _foreign()
    if directory != directory_of(entries) or any(
        _at(file, entry.start, len(entry.local)) != entry.local for entry in entries
    ):
        _foreign()
    if entries[0].size > layout.most_bytes:
        raise refusal(f"its manifest is larger than {layout.most_bytes:,} bytes")
    return entries


def _foreign() -> NoReturn:
    raise refusal("its zip is not laid out as Sfumato does it: compressed, encrypted, linked or overlapping members")


def _safe_name(raw: bytes, layout: Layout) -> str:
    name = raw.decode("latin-1")
    if name != layout.head and not layout.member.fullmatch(name):
        raise refusal(f"it has a member with an unknown or unsafe name, {name[:60]!r}")
    return name


def _at(file: IO[bytes], start: int, size: int) -> bytes:
    """Bytes at an offset, or a refusal of a truncated file."""
    file.seek(start)
    data = file.read(size)
    if len(data) != size:
        raise refusal("it was cut short")
    return data


def read_body(file: IO[bytes], entry: Entry) -> bytes:
    """Bytes of a member, checked against its CRC-32."""
    data = _at(file, entry.start + len(entry.local), entry.size)
    if zlib.crc32(data) != entry.crc:
        raise refusal(f"it is damaged: its member {entry.name} does not match its checksum")
    return data


@dataclass(frozen=True, eq=False)
class Artifact:
    """Opened and checked release file; the file itself is no longer needed.

    digest: names this release, for it covers the manifest and, through it, every member.
    """

    path: str
    manifest: Manifest
    digest: str
    schema: Schema
    _data: dict[str, bytes] = field(repr=False)

    def read(self, member: str) -> dict[str, Whole]:
        """Decode the columns of a member as read-only arrays."""
        if member not in self._data:
            raise ReleaseFileError(f"{self.path} has no member {member!r}; it has {', '.join(self._data)}")
        described = self.manifest.members[member]
        columns = read_columns(self._data[member], described.columns, described.rows)
        check_values(self.manifest, self.schema, columns)
        return columns


def is_series(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as a series does, and a release does not; whatever cannot be read is none."""
    return _begins_with(path, HEAD_FILE)


def is_linked(path: str | os.PathLike[str]) -> bool:
    """Whether a file begins as one of linked tables does; whatever cannot be read is none."""
    return _begins_with(path, TABLES_FILE)


def _begins_with(path: str | os.PathLike[str], member: str) -> bool:
    with contextlib.suppress(OSError, ValueError):
        if Path(path).is_file():
            with Path(path).open("rb") as file:
                return file.read(64)[30 : 30 + len(member)] == member.encode()
    return False


def write_artifact(path: str | os.PathLike[str], manifest: Manifest, members: Mapping[str, Mapping[str, Whole]]) -> str:
    """Write a release file atomically and return the digest of its manifest.

    members: for each member, such as "cells", its columns of whole numbers. The same release gives the same bytes.
    """
    path, shown = Path(path), one_line(str(path))
    try:
        if path.exists() and not path.is_file():
            raise ReleaseFileError(f"cannot write {shown}: it exists and is not a file; choose another name")
        with contextlib.ExitStack() as spools:
            spooled = {}  # on disk, for the manifest comes first in the file and holds the hashes of what follows
            for name in sorted(members):
                _check_member(name, members[name])
                body = spools.enter_context(tempfile.TemporaryFile(dir=path.parent))
                write_columns(body, members[name])
                spooled[name] = (*_describe(name, body, members[name]), body)
            manifest = replace(manifest, members={name: member for name, (member, _, _) in spooled.items()})
            schema = check_manifest(manifest)
            for columns in members.values():
                check_values(manifest, schema, columns)
            raw, digest = manifest_bytes(manifest)
            with whole_or_not_at_all(path) as file:
                entries = [Entry(MANIFEST_FILE, zlib.crc32(raw), len(raw), 0)]
                file.write(entries[0].local + raw)
                for member, crc, body in spooled.values():
                    entries.append(Entry(member.file, crc, member.bytes, entries[-1].end))
                    file.write(entries[-1].local)
                    shutil.copyfileobj(body, file, 2**20)
                file.write(directory_of(entries))
    except (OSError, ValueError, MemoryError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or "it cannot be written"
        raise ReleaseFileError(f"cannot write {shown}: {reason}; name a folder that exists and has room") from None
    return digest


@contextlib.contextmanager
def whole_or_not_at_all(path: Path) -> Iterator[IO[bytes]]:
    """Context of a new file that replaces `path` once it is all on disk, and is removed otherwise."""
    partial = path.parent / f".{secrets.token_hex(8)}.partial"
    try:
        with partial.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    _sync_folder(path.parent)


def read_artifact(path: str | os.PathLike[str], most_cells: int | None = None) -> Artifact:
    """Open an untrusted release file; refuse whatever `write_artifact` would not have written.

    most_cells: how many numbers it may lay out in memory, if not the usual bound.

    Every byte is checked here against the manifest's digests, and the shape of every member against its footer. Values
    are decoded later, by `Artifact.read`, from the bytes that were checked.
    """
    with opened_for_reading(path) as (file, size, shown):
        return read_members(file, size, shown, usual_bound(size) if most_cells is None else most_cells)


@contextlib.contextmanager
def opened_for_reading(path: str | os.PathLike[str]) -> Iterator[tuple[IO[bytes], int, str]]:
    """Context of an untrusted file: the file, its size, and its name for messages; refusals say its name."""
    path, shown = Path(path), one_line(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # before opening: a pipe would wait for ever
            raise ReleaseFileError("it is not a file; name a .sfumato file")
        with path.open("rb") as file:
            yield file, os.fstat(file.fileno()).st_size, shown
    except ReleaseFileError as error:
        raise ReleaseFileError(f"cannot open {shown}: {error}", kind=error.kind) from None
    except MemoryError:
        raise ReleaseFileError(f"cannot open {shown}: it does not fit in memory; use a larger machine") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or "it cannot be read"
        raise ReleaseFileError(f"cannot open {shown}: {reason}; check the name and your access to it") from None


def read_members(file: IO[bytes], size: int, shown: str, most_cells: int) -> Artifact:
    """Read and check all members of an open release file."""
    entries = read_directory(file, size)
    manifest, digest = parse_manifest(read_body(file, entries[0]))
    described = {member.file: (name, member) for name, member in manifest.members.items()}
    if [entry.name for entry in entries[1:]] != list(described):
        raise refusal("its members are not those its manifest names")
    schema = check_manifest(manifest, most_cells)
    data = {}
    for entry in entries[1:]:
        name, member = described[entry.name]
        if entry.size != member.bytes:
            raise refusal(f"its member {entry.name} does not have the size its manifest names")
        body = read_body(file, entry)
        if hashlib.sha256(body).hexdigest() != member.sha256:
            raise refusal(f"it was changed after publication: its member {entry.name} does not match its sha256")
        check_columns(body, member.columns, member.rows)
        data[name] = body
    return Artifact(shown, manifest, digest, schema, data)


def _check_member(name: str, columns: Mapping[str, Whole]) -> None:
    if not MEMBER_FILE.fullmatch(f"{name}.parquet"):
        raise ReleaseFileError(f"{name!r} cannot name a member; use small letters, digits and underscores")
    if not columns or any(values.dtype != np.int64 or values.ndim != 1 for values in columns.values()):
        raise ReleaseFileError(f"the columns of member {name!r} must be one-dimensional arrays of int64")
    if len({len(values) for values in columns.values()}) > 1:
        raise ReleaseFileError(f"the columns of member {name!r} are not equally long")


def _describe(name: str, body: IO[bytes], columns: Mapping[str, Whole]) -> tuple[Member, int]:
    """Manifest entry of a member, and its CRC-32; leaves `body` at its start."""
    sha256, crc, size = hashlib.sha256(), 0, 0
    body.seek(0)
    while block := body.read(2**20):
        sha256.update(block)
        crc, size = zlib.crc32(block, crc), size + len(block)
    body.seek(0)
    rows = len(next(iter(columns.values())))
    return Member(f"{name}.parquet", sha256.hexdigest(), size, rows, list(columns)), crc


def _sync_folder(folder: Path) -> None:
    """Sync a folder so that a new file name survives a power cut, where the system can."""
    if os.name == "posix":
        with contextlib.suppress(OSError):  # some network file systems cannot; the file is whole all the same
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def keep_earlier(path: Path) -> Path | None:
    """Rename an existing file out of the way; return its new path."""
    if not path.exists():
        return None
    number = 1
    while (kept := path.with_name(f"{path.name}.~{number}~")).exists():
        number += 1
    path.rename(kept)
    return kept


@contextlib.contextmanager
def replaced_when_written(path: Path) -> Iterator[Path]:
    """Context of a new file beside `path`, which takes its place once it is written, and is removed otherwise."""
    beside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        yield beside
        beside.replace(path)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else "no access"  # a library's own text may name other files
        raise ReleaseFileError(f"{path} cannot be written ({reason}); choose another place with -o") from None
    finally:
        beside.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> Path | None:
    """Write text atomically; return the path to which an earlier file was renamed."""
    if path.is_dir():
        raise ReleaseFileError(f"{path} is a folder; name a file with -o")
    if path.exists() and not path.is_file():  # a pipe or a device, such as /dev/stdout
        path.write_text(text, encoding="utf-8")
        return None
    with replaced_when_written(path) as beside:
        beside.write_text(text, encoding="utf-8")
        return keep_earlier(path)
