"""Series file: a zip with `series.json` first and then a release file for each part, byte for byte (artifact.py).

Parts are chained: the chain of a part is the SHA-256 of what is said of it and of the chain before it. So the digest of
`series.json`, which a signature is about, covers every byte of every part, their order and their periods; and whoever
kept an earlier copy sees whether a later one goes on from it. What the head says of a part is checked when the file is
opened, the part's own bytes when a question touches it. A file of linked tables is made of the same (linked.py).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import cached_property
from io import BufferedReader, BytesIO, RawIOBase
from pathlib import Path
from threading import Lock
from typing import IO, Annotated, Any, Final, Literal, Protocol
from weakref import finalize

from pydantic import Field, JsonValue, ValidationError

from sfumato.errors import ReleaseFileError, SchemaError
from sfumato.frozen import dataclass
from sfumato.releases.file.artifact import (
    HEAD_FILE,
    MOST_FILE_BYTES,
    Artifact,
    Entry,
    Layout,
    directory_of,
    opened_for_reading,
    read_body,
    read_directory,
    read_members,
    whole_or_not_at_all,
)
from sfumato.releases.file.consistency import usual_bound
from sfumato.releases.file.manifest import Guarantee
from sfumato.releases.file.records import (
    Exact,
    PositiveExact,
    Sha256,
    Size,
    Text,
    adapter,
    canonical,
    one_line,
    record,
    refusal,
    strict_json,
)
from sfumato.schema import Schema
from sfumato.schema.series import MOST_PERIODS, Series
from sfumato.version import __version__

MOST_HEAD_BYTES = 2**23
SERIES = Layout(HEAD_FILE, MOST_HEAD_BYTES, re.compile(r"part_[0-9]{4}\.sfumato"), 2 * MOST_PERIODS)
FORMAT = "sfumato series"
SERIES_VERSION: Final = 1
SIGNED_VERSION: Final = 2  # with signatures of parts


@record
class Signed:
    """Signature of a part by itself, of its release's digest (releases/signature.py)."""

    digest: Sha256
    public_key: Text
    signature: Text


@record
class PartRecord:
    """Entry of a part. period: in a file of linked tables, the name of the table. corrects: number of the part whose
    place it takes. chain: of this entry and all before it.

    signed: its own signature, where it was signed before it was added; whoever shows it checks it.
    """

    number: Annotated[int, Field(ge=1, le=SERIES.most)]
    period: Text
    sha256: Sha256
    bytes: Size
    epsilon: PositiveExact
    mechanism: Text
    private: bool
    delta: Exact = Fraction(0)
    rho: PositiveExact | None = None
    corrects: Size | None = None
    chain: Text = "-"
    signed: Signed | None = None

    @property
    def file(self) -> str:
        return f"part_{self.number:04}.sfumato"

    def chained(self, before: str) -> PartRecord:
        """The entry with its chain. before: the chain of the part before it, empty of the first."""
        said: dict[str, Any] = adapter(PartRecord).dump_python(replace(self, chain="-"), mode="json")
        _without_none(said)
        return replace(self, chain=hashlib.sha256(canonical({**said, "chain": before})).hexdigest())


@record
class Head:
    """Head of a series file: dataset, the schema's `series`, and the parts in the order of publication."""

    dataset: Text
    series: dict[str, JsonValue]
    parts: Annotated[list[PartRecord], Field(min_length=1, max_length=SERIES.most)]
    format: Literal["sfumato series"] = "sfumato series"
    version: Literal[1, 2] = SERIES_VERSION
    written_by: Text = field(default=f"sfumato {__version__}")

    @property
    def newest(self) -> dict[str, PartRecord]:
        """The part that answers for each period: the last."""
        return {part.period: part for part in self.parts}


class Listing(Protocol):
    """Head of a file of parts, of whichever kind."""

    @property
    def parts(self) -> Sequence[PartRecord]: ...


def _without_none(part: dict[str, Any]) -> None:
    """Leave out the signature of a part that has none, as the first version did."""
    if part["signed"] is None:
        del part["signed"]


def head_bytes(head: Listing) -> tuple[bytes, str]:
    """Canonical bytes of a head with its digest, and the digest."""
    content = adapter(type(head)).dump_python(head, mode="json")
    for part in content["parts"]:
        _without_none(part)
    digest = hashlib.sha256(canonical(content)).hexdigest()
    raw = canonical({**content, "digest": digest})
    if len(raw) > MOST_HEAD_BYTES:
        raise ReleaseFileError(f"the file has more parts than {MOST_HEAD_BYTES:,} bytes describe; begin a new one")
    return raw, digest


def checked_head(raw: bytes, form: type[Any], newest: int) -> tuple[Any, str]:
    """Head of an untrusted file and its digest; refused where `head_bytes` would not write it. newest: known version.

    form: record of the head, whose `format` has its name as default.
    """
    content, name = strict_json(raw), form.format
    if not isinstance(content, dict) or content.get("format") != name:
        raise refusal(f"its head does not say that it is a file of {name.removeprefix('sfumato ')} of Sfumato")
    if type(content.get("version")) is int and content["version"] > newest:
        raise refusal(
            f"it was made by a newer Sfumato ({name.removeprefix('sfumato ')} {content['version']})",
            "upgrade to open it",
        )
    digest = content.pop("digest", None)
    try:
        spelled = canonical(content)
        same = canonical({**content, "digest": digest}) == raw
    except ValueError:  # half of a surrogate pair, which UTF-8 cannot hold
        raise refusal("its head holds broken text") from None
    if digest != hashlib.sha256(spelled).hexdigest() or not same:
        raise refusal("it was changed after publication: its head does not match its digest")
    try:
        return adapter(form).validate_json(spelled), digest
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"])
        raise refusal(f"its head is not well formed at {where!r}: {first['msg']}") from None


def parse_head(raw: bytes) -> tuple[Head, str]:
    """Parse an untrusted head; refuse everything that `head_bytes` would not write, and a broken chain."""
    head, digest = checked_head(raw, Head, SIGNED_VERSION)
    try:
        series = Series(**head.series)
        labels = [series.label(part.period) == part.period for part in head.parts]
    except (SchemaError, ValueError, TypeError) as error:
        raise refusal(f"its series is not valid: {error}") from None
    if not all(labels):
        raise refusal("it names a period otherwise than Sfumato writes it")
    if head.version != _version(head.parts):
        raise refusal("its version is not that of what it holds")
    check_parts(head.parts)
    return head, digest


def _version(parts: Sequence[PartRecord]) -> Literal[1, 2]:
    return SIGNED_VERSION if any(part.signed is not None for part in parts) else SERIES_VERSION


def check_parts(parts: Sequence[PartRecord]) -> None:
    """Refuse parts that are dropped, swapped, replaced or there twice, as far as their entries tell."""
    before, newest, seen = "", dict[str, int](), set[str]()
    for number, part in enumerate(parts, start=1):
        if part.number != number:
            raise refusal("a part of it was dropped or moved: its parts are not numbered one by one")
        if part.chained(before) != part:
            raise refusal(f"a part of it was swapped, dropped or replaced: the chain breaks at part {number}")
        if part.corrects != newest.get(part.period):
            raise refusal(f"it has two parts of {part.period}, and the second does not say that it corrects the first")
        if part.sha256 in seen:
            raise refusal(f"its part {number} is there twice")
        if (part.delta > 0) != (part.rho is not None) or not 0 <= part.delta < 1:
            raise refusal(f"the cost of its part {number} is none")
        before = part.chain
        newest[part.period] = number
        seen.add(part.sha256)


@dataclass(frozen=True, eq=False)
class PartsFile:
    """Opened file of parts, whose head was checked. It stays open: parts are read when they are asked for."""

    path: str
    head: Any
    digest: str
    entries: tuple[Entry, ...]
    file: KeptOpen = field(repr=False)
    most_cells: int | None = None

    def body(self, part: PartRecord) -> bytes:
        """Bytes of a part, which are those of a release file; refused where they are not those that were chained."""
        with self.file.reader() as file:
            raw = read_body(file, self.entries[part.number])
        if hashlib.sha256(raw).hexdigest() != part.sha256:
            raise ReleaseFileError(
                f"cannot open {self.path}: its part of {one_line(part.period)} was replaced after publication; ask the "
                "publisher for a fresh copy",
                kind="damaged",
            )
        return raw

    def artifact(self, part: PartRecord) -> Artifact:
        """A part as an opened release file, checked against what the head says of it."""
        raw, shown = self.body(part), f"{self.path} ({one_line(part.period)})"
        bound = usual_bound(len(raw)) if self.most_cells is None else self.most_cells
        try:
            found = read_members(BytesIO(raw), len(raw), shown, bound)
            self.check(found, part)
        except ReleaseFileError as error:
            raise ReleaseFileError(f"cannot open {shown}: {error}", kind=error.kind) from None
        return found

    def check(self, artifact: Artifact, part: PartRecord) -> None:
        """Refuse a part whose bytes or guarantee differ from its entry."""
        check_entry(artifact, part)


@dataclass(frozen=True, eq=False)
class SeriesFile(PartsFile):
    """Opened series file."""

    head: Head

    @cached_property
    def series(self) -> Series:
        return Series(**self.head.series)  # type: ignore[arg-type]

    def check(self, artifact: Artifact, part: PartRecord) -> None:
        check_member(artifact, part, self.head)


def check_member(artifact: Artifact, part: PartRecord, head: Head) -> None:
    """Refuse a part that is of another dataset or series, or cost other than its entry says."""
    schema = artifact.schema
    if schema.dataset != head.dataset or series_of(schema) != head.series:
        raise refusal("it is the release of another dataset or series")
    check_entry(artifact, part)


def check_entry(artifact: Artifact, part: PartRecord) -> None:
    """Refuse a part whose guarantee, mechanism or signature differs from its entry."""
    promised = artifact.manifest.guarantee
    facts = (
        promised.epsilon,
        promised.delta,
        promised.rho,
        artifact.manifest.mechanism.name,
        artifact.manifest.private,
    )
    if facts != (part.epsilon, part.delta, part.rho, part.mechanism, part.private):
        raise refusal("its guarantee or mechanism is not what the head says of it")
    if part.signed is not None and part.signed.digest != artifact.digest:
        raise refusal("the signature that the head has of it is that of another release")


def series_of(schema: Schema) -> dict[str, JsonValue] | None:
    """The schema's `series`, as JSON."""
    found: dict[str, JsonValue] | None = schema.to_dict().get("series")
    return found


class KeptOpen:
    """A file that stays open for reading until nobody needs it; every reader has a position of its own."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor, self._lock = descriptor, Lock()
        self._closing = finalize(self, os.close, descriptor)

    def close(self) -> None:
        self._closing()

    def reader(self) -> IO[bytes]:
        """The file from its beginning."""
        return BufferedReader(_At(self), 2**20)

    def at(self, place: int, size: int) -> bytes:
        """Bytes at an offset; fewer at the end of the file."""
        with self._lock:  # a position is of the file, and other threads read too
            os.lseek(self.descriptor, place, os.SEEK_SET)
            return os.read(self.descriptor, size)


class _At(RawIOBase):
    """Reader of an open file."""

    def __init__(self, kept: KeptOpen) -> None:
        self._kept, self._place = kept, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, place: int, whence: int = os.SEEK_SET) -> int:
        self._place = place if whence == os.SEEK_SET else self._place + place
        return self._place

    def readinto(self, buffer: Any) -> int:
        data = self._kept.at(self._place, len(buffer))
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def open_series(path: str | os.PathLike[str], most_cells: int | None = None) -> SeriesFile:
    """Open an untrusted series file; refuse whatever `append_part` would not have written."""
    with opened_for_reading(path) as (opened, size, shown):
        entries = read_directory(opened, size, SERIES)
        head, digest = parse_head(read_body(opened, entries[0]))
        check_listed(entries, head.parts)
        file = KeptOpen(os.dup(opened.fileno()))  # the same file, even if another takes its name
    return SeriesFile(shown, head, digest, tuple(entries), file, most_cells)


def check_listed(entries: Sequence[Entry], parts: Sequence[PartRecord]) -> None:
    """Refuse a zip whose members are not the parts that its head names."""
    if [(entry.name, entry.size) for entry in entries[1:]] != [(part.file, part.bytes) for part in parts]:
        raise refusal("its parts are not those its head names")


def part_record(
    artifact: Artifact,
    raw: bytes,
    period: str,
    earlier: Sequence[PartRecord],
    *,
    correct: bool,
    signed: Signed | None = None,
) -> PartRecord:
    """Entry of a new part behind earlier ones; refused where its period is there and no correction is meant."""
    promised: Guarantee = artifact.manifest.guarantee
    before = next((part for part in reversed(earlier) if part.period == period), None)
    check_period(period, before, correct=correct)
    made = PartRecord(
        len(earlier) + 1,
        period,
        hashlib.sha256(raw).hexdigest(),
        len(raw),
        promised.epsilon,
        artifact.manifest.mechanism.name,
        artifact.manifest.private,
        promised.delta,
        promised.rho,
        None if before is None else before.number,
        signed=signed,
    )
    return made.chained(earlier[-1].chain if earlier else "")


def check_period(period: str, before: PartRecord | None, *, correct: bool) -> None:
    """Refuse a second part of a period unless it corrects the first, and a correction of none."""
    if before is not None and not correct:
        raise ReleaseFileError(
            f"the series has a part of {period} already; say --correct to publish another, which is charged too, and "
            "answers in its place",
            kind="input",
        )
    if before is None and correct:
        raise ReleaseFileError(f"the series has no part of {period} to correct; leave out --correct", kind="input")


def append_part(
    path: str | os.PathLike[str],
    part: str | os.PathLike[str],
    period: str,
    *,
    correct: bool = False,
    signed: Signed | None = None,
) -> str:
    """Write a series file anew with one more part, a release file; return its new digest. The file is made if missing.

    signed: the part's own signature, which the caller has checked; it is kept with it.
    The file appears whole or not at all, and one process appends at a time. A part that the series has of this period,
    byte for byte, is not added again: whoever was interrupted need not know when.
    """
    place = Path(path)
    with opened_for_reading(part) as (file, size, shown):
        raw = file.read()
        artifact = read_members(BytesIO(raw), size, shown, usual_bound(size))
    with _alone_in(place.absolute().parent):
        old = open_series(place) if place.exists() else None
        schema = artifact.schema
        if schema.series is None:
            raise ReleaseFileError(f"{shown} is not of a series: its schema says nothing of periods", kind="input")
        label = schema.series.label(period)
        earlier = [] if old is None else list(old.head.parts)
        if old is not None and (label, hashlib.sha256(raw).hexdigest()) in {
            (one.period, one.sha256) for one in earlier
        }:
            old.file.close()
            return old.digest
        new = part_record(artifact, raw, label, earlier, correct=correct, signed=signed)
        check_member(artifact, new, Head(schema.dataset, series_of(schema) or {}, [new]))
        head = Head(schema.dataset, series_of(schema) or {}, [*earlier, new], version=_version([*earlier, new]))
        if old is not None:
            if (head.dataset, head.series) != (old.head.dataset, old.head.series):
                raise ReleaseFileError(
                    f"{shown} is of another dataset or series than {old.path}; begin a new file for it", kind="input"
                )
            newest = old.artifact(earlier[-1])
            check_growth(newest.schema, schema)
        check_parts(head.parts)
        bodies = (raw if old is None or each.number > len(earlier) else old.body(each) for each in head.parts)
        digest = write_parts(place, HEAD_FILE, head, bodies)
        if old is not None:
            old.file.close()
    return digest


def write_parts(path: Path, name: str, head: Listing, bodies: Iterable[bytes]) -> str:
    """Write a file of parts whole or not at all; return its digest. name: of its first member, the head."""
    shown, (written, digest) = one_line(str(path)), head_bytes(head)
    if sum(each.bytes for each in head.parts) + len(written) + 200 * len(head.parts) > MOST_FILE_BYTES:
        raise ReleaseFileError("a file of parts holds at most 4 GB; begin a new one", kind="input")
    try:
        with whole_or_not_at_all(path) as file:
            entries = [Entry(name, zlib.crc32(written), len(written), 0)]
            file.write(entries[0].local + written)
            for part, body in zip(head.parts, bodies, strict=True):
                entries.append(Entry(part.file, zlib.crc32(body), len(body), entries[-1].end))
                file.write(entries[-1].local)
                file.write(body)
            file.write(directory_of(entries))
    except OSError as error:
        reason = error.strerror or "it cannot be written"
        raise ReleaseFileError(f"cannot write {shown}: {reason}; name a folder that exists and has room") from None
    return digest


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Context in which no other process appends to a series in this folder, where the system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    held = KeptOpen(os.open(folder, os.O_RDONLY))  # given back even if an interrupt comes before the last line
    try:
        with contextlib.suppress(OSError):  # some network file systems have none
            fcntl.flock(held.descriptor, fcntl.LOCK_EX)
        yield
    finally:
        held.close()


def copy_parts(source: PartsFile, path: Path) -> str:
    """Write the bytes of an open file of parts to another place."""
    with whole_or_not_at_all(path) as file, source.file.reader() as opened:
        shutil.copyfileobj(opened, file, 2**20)
    return source.digest


def check_growth(old: Schema, new: Schema) -> None:
    """Refuse a schema from which earlier parts could not be read: what was there must stay as it was.

    New attributes, measures and values of categories may come.
    """
    if old.privacy_unit != new.privacy_unit:
        raise SchemaError("the privacy unit differs from that of earlier parts; begin a new series for another promise")
    for name, was in old.attributes.items():
        now = new.attributes.get(name)
        if now is None:
            raise SchemaError(f"{name} was a column of earlier parts and is missing here; keep it in the schema")
        if was.axis(name) == now.axis(name):
            continue
        gone = [label for label in was.axis(name).labels() if label not in {*now.axis(name).labels()}]
        if was.type != "category" or now.type != "category" or gone:
            lost = f" (it lost {gone[0]!r})" if gone else ""
            raise SchemaError(
                f"{name} has other cells than in earlier parts{lost}; a series may get new columns and new values of "
                "categories, and everything else stays; give the new form another name"
            )
    for name, measure in old.measures.items():
        if new.measures.get(name) is None or _bounds(new.measures[name]) != _bounds(measure):
            raise SchemaError(f"measure {name} differs from that of earlier parts; keep its bounds, or rename it")


def _bounds(measure: Any) -> tuple[object, ...]:
    return measure.lower, measure.upper, measure.missing
