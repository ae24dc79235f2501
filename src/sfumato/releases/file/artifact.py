"""The release file: a zip with `manifest.json` first and Parquet members, written whole and read with suspicion."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import IO

import numpy as np

from sfumato.arrays import Whole
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.releases.file.consistency import check_manifest, check_values
from sfumato.releases.file.manifest import Manifest, Member, manifest_bytes, parse_manifest
from sfumato.releases.file.parquet import check_columns, read_columns, write_columns
from sfumato.releases.file.room import usual_bound
from sfumato.releases.file.strict_json import one_line, refusal
from sfumato.releases.file.zip import MANIFEST_FILE, MEMBER_FILE, Entry, directory_of, read_body, read_directory
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class Artifact:
    """A release file that was opened and checked; the file itself is not needed any more.

    digest: names this release, for it covers the manifest and, through it, every member.
    """

    path: str
    manifest: Manifest
    digest: str
    schema: Schema
    _data: dict[str, bytes] = field(repr=False)

    def read(self, member: str) -> dict[str, Whole]:
        """The columns of a member, decoded now, as read-only arrays."""
        if member not in self._data:
            raise ReleaseFileError(f"{self.path} has no member {member!r}; it has {', '.join(self._data)}")
        described = self.manifest.members[member]
        columns = read_columns(self._data[member], described.columns, described.rows)
        check_values(self.manifest, self.schema, columns)
        return columns


def write_artifact(path: str | os.PathLike[str], manifest: Manifest, members: Mapping[str, Mapping[str, Whole]]) -> str:
    """Write a release file, whole or not at all, and return the digest of its manifest.

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
            with _whole_or_not_at_all(path) as file:
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
def _whole_or_not_at_all(path: Path) -> Iterator[IO[bytes]]:
    """A new file that takes the place of `path` when all of it is on disk, and vanishes otherwise."""
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
    """Open an untrusted release file; refuses whatever `write_artifact` would not have written.

    most_cells: how many numbers it may lay out in memory, if not the usual bound.

    Every byte is checked here against the manifest's digests, and the shape of every member against its footer. Values
    are decoded later, by `Artifact.read`, from the bytes that were checked.
    """
    path, shown = Path(path), one_line(str(path))
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # before opening: a pipe would wait for ever
            raise ReleaseFileError("it is not a file; name a .sfumato file")
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            return _read(file, size, shown, usual_bound(size) if most_cells is None else most_cells)
    except ReleaseFileError as error:
        raise ReleaseFileError(f"cannot open {shown}: {error}", kind=error.kind) from None
    except MemoryError:
        raise ReleaseFileError(f"cannot open {shown}: it does not fit in memory; use a larger machine") from None
    except (OSError, ValueError) as error:  # ValueError: a path with a null character
        reason = getattr(error, "strerror", None) or "it cannot be read"
        raise ReleaseFileError(f"cannot open {shown}: {reason}; check the name and your access to it") from None


def _read(file: IO[bytes], size: int, shown: str, most_cells: int) -> Artifact:
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
    """What the manifest says of a member, and the zip's own checksum; leaves `body` at its start."""
    sha256, crc, size = hashlib.sha256(), 0, 0
    body.seek(0)
    while block := body.read(2**20):
        sha256.update(block)
        crc, size = zlib.crc32(block, crc), size + len(block)
    body.seek(0)
    rows = len(next(iter(columns.values())))
    return Member(f"{name}.parquet", sha256.hexdigest(), size, rows, list(columns)), crc


def _sync_folder(folder: Path) -> None:
    """Make the new name itself last through a power cut, where the system can."""
    if os.name == "posix":
        with contextlib.suppress(OSError):  # some network file systems cannot; the file is whole all the same
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
