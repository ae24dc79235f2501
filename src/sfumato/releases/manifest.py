"""The manifest: what a release says about itself, and the strict JSON it is kept in.

A manifest is read from files that strangers hand around. Its JSON has one spelling only (sorted keys, two spaces of
indent, UTF-8, a newline at the end) and every field is known, so that nothing can hide in it. Keys inside `schema` are
not sorted: the order of the attributes is the order in which cells are numbered.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from fractions import Fraction
from typing import Annotated, Any, Final, Literal, NoReturn

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    JsonValue,
    PlainSerializer,
    PlainValidator,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass

from sfumato.errors import ReleaseFileError
from sfumato.measurement import Laplace
from sfumato.version import __version__

FORMAT_VERSION: Final = 1
MOST_MANIFEST_BYTES = 2**20
MOST_DIGITS = 100  # of a whole number, or of either side of a fraction: all that follows fits a float
MOST_DEPTH = 20
FRESH_COPY = "ask the publisher for a fresh copy"

_FRACTION = re.compile(r"(-?[0-9]{1,100})(?:/([1-9][0-9]{0,99}))?")
_STRICT = ConfigDict(extra="forbid", strict=True)


def one_line(text: str) -> str:
    """Untrusted text as a message may quote it: printable, so that it cannot steer a terminal, and short.

    >>> one_line("census\\n.sfumato")
    'census?.sfumato'
    """
    line = "".join(letter if letter.isprintable() else "?" for letter in text[:301])
    return line if len(line) <= 300 else line[:300] + "..."


def refusal(what: str, remedy: str = FRESH_COPY) -> ReleaseFileError:
    """The error for an untrusted file: what is wrong with it, and what to do."""
    return ReleaseFileError(f"{one_line(what)}; {remedy}")


def fraction_text(value: Fraction) -> str:
    """An exact number as text.

    >>> fraction_text(Fraction(2, 4)), fraction_text(Fraction(3))
    ('1/2', '3')
    """
    if max(abs(value.numerator), value.denominator) >= 10**MOST_DIGITS:
        raise ReleaseFileError(f"a number in the manifest has more than {MOST_DIGITS} digits; use a rounder one")
    return str(value)


def parse_fraction(text: str) -> Fraction:
    """The exact number that `fraction_text` wrote; refuses any other spelling.

    >>> parse_fraction("1/2")
    Fraction(1, 2)
    """
    parts = _FRACTION.fullmatch(text)
    number = Fraction(int(parts[1]), int(parts[2] or 1)) if parts else None
    if number is None or str(number) != text:
        raise refusal("a number in the manifest is not a fraction in lowest terms such as '1/2'")
    return number


def _as_fraction(value: object) -> Fraction:
    if isinstance(value, Fraction):
        fraction_text(value)  # refuses what could not be written
        return value
    if not isinstance(value, str):
        raise ValueError("exact numbers are text such as '1/2'")
    try:
        return parse_fraction(value)
    except ReleaseFileError as error:
        raise ValueError(str(error)) from None


def _positive(value: Fraction) -> Fraction:
    if value <= 0:
        raise ValueError("must be above zero")
    return value


Exact = Annotated[Fraction, PlainValidator(_as_fraction), PlainSerializer(fraction_text, return_type=str)]
PositiveExact = Annotated[Exact, AfterValidator(_positive)]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+\z")]  # one line that cannot steer a terminal
MemberName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}\z")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Size = Annotated[int, Field(ge=0, lt=2**62)]


@dataclass(frozen=True, config=_STRICT)
class MechanismRecord:
    """Which mechanism made the release, and how it was set."""

    name: Text
    options: dict[str, str | int | bool] = dataclasses.field(default_factory=dict)


@dataclass(frozen=True, config=_STRICT)
class Guarantee:
    """What is promised, to whom, in symbols and in words."""

    epsilon: PositiveExact
    unit: Text
    neighbours: Text
    statement: Text
    definition: Literal["pure epsilon-differential privacy"] = "pure epsilon-differential privacy"
    delta: Literal["0"] = "0"


@dataclass(frozen=True, config=_STRICT)
class LaplaceRecord:
    """Discrete Laplace noise of a known scale."""

    scale: PositiveExact
    family: Literal["laplace"] = "laplace"

    @property
    def noise(self) -> Laplace:
        return Laplace(self.scale)


@dataclass(frozen=True, config=_STRICT)
class Statistic:
    """One published column: noisy whole numbers, each worth `step`, around `centre` per row.

    of: "count" or the name of a measure. member, column: where its values are kept.
    """

    of: Text
    member: MemberName
    column: Text
    noise: LaplaceRecord
    step: PositiveExact = Fraction(1)
    centre: Exact = Fraction(0)


@dataclass(frozen=True, config=_STRICT)
class Total:
    """A noisy total over all cells, in the steps of its statistic; a sparse cube does not publish every cell."""

    of: Text
    value: Int64
    noise: LaplaceRecord


@dataclass(frozen=True, config=_STRICT)
class Member:
    """A Parquet member, described closely enough to refuse it before reading it."""

    file: Text
    sha256: Sha256
    bytes: Size
    rows: Size
    columns: Annotated[list[Text], Field(min_length=1)]


@dataclass(frozen=True, config=_STRICT)
class Manifest:
    """Everything about a release but its values. `members` is filled in when the file is written."""

    kind: Literal["cube", "sparse-cube"]
    schema: dict[str, JsonValue]
    mechanism: MechanismRecord
    guarantee: Guarantee
    private: bool  # False: made with a testing generator and NOT PRIVATE
    statistics: Annotated[list[Statistic], Field(min_length=1)]
    receipt: dict[str, JsonValue] | None = None
    threshold: Int64 | None = None  # sparse: the least noisy count that was published
    totals: list[Total] = dataclasses.field(default_factory=list)
    members: dict[MemberName, Member] = dataclasses.field(default_factory=dict)
    format: Literal["sfumato"] = "sfumato"
    version: Literal[1] = FORMAT_VERSION
    written_by: Text = f"sfumato {__version__}"
    limits: Literal["docs/known-limits.md"] = "docs/known-limits.md"


_MANIFEST = TypeAdapter(Manifest)


def manifest_bytes(manifest: Manifest) -> tuple[bytes, str]:
    """The manifest as the bytes of its file, and its digest, which stands in the file as well."""
    try:
        content = _MANIFEST.dump_python(manifest, mode="json")
        digest = hashlib.sha256(_canonical(content)).hexdigest()
        raw = _canonical({**content, "digest": digest})
    except (ValueError, TypeError, RecursionError):
        raise ReleaseFileError("the manifest holds something that strict JSON cannot; use text and numbers") from None
    if len(raw) > MOST_MANIFEST_BYTES:
        raise ReleaseFileError("the manifest would be larger than 1 MB; shorten the schema's lists of values")
    parse_manifest(raw)  # what could not be opened again is not written
    return raw, digest


def parse_manifest(raw: bytes) -> tuple[Manifest, str]:
    """Read an untrusted manifest; everything that `manifest_bytes` would not write is refused."""
    if len(raw) > MOST_MANIFEST_BYTES:
        raise refusal("its manifest is larger than 1 MB")
    content = _strict_json(raw)
    if not isinstance(content, dict) or content.get("format") != "sfumato":
        raise refusal("its manifest does not say that it is a Sfumato release")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise refusal("its manifest does not name the version of its format")
    if version > FORMAT_VERSION:
        raise refusal(f"it was made by a newer Sfumato (format {version})", "upgrade to open it")
    digest = content.pop("digest", None)
    try:
        canonical = _canonical(content)
        spelled_otherwise = _canonical({**content, "digest": digest}) != raw
    except ValueError:  # half of a surrogate pair, which UTF-8 cannot hold
        raise refusal("its manifest holds broken text") from None
    if digest != hashlib.sha256(canonical).hexdigest() or spelled_otherwise:
        raise refusal("it was changed after publication: its manifest does not match its digest")
    try:
        return _MANIFEST.validate_json(canonical), digest
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"])
        raise refusal(f"its manifest is not well formed at {where!r}: {first['msg']}") from None


def _canonical(content: dict[str, Any]) -> bytes:
    ordered = {key: content[key] if key == "schema" else _sorted(content[key]) for key in sorted(content)}
    return (json.dumps(ordered, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode("utf-8")


def _sorted(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _sorted(content[key]) for key in sorted(content)}
    return [_sorted(item) for item in content] if isinstance(content, list) else content


def _strict_json(raw: bytes) -> Any:
    try:
        content = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_without_duplicates,
            parse_constant=_no_such_number,
            parse_int=_whole,
            parse_float=_finite,
        )
        _check_depth(content)
    except UnicodeDecodeError:
        raise refusal("its manifest is not UTF-8 text") from None
    except RecursionError:
        raise refusal("its manifest is nested too deeply") from None
    except json.JSONDecodeError:
        raise refusal("its manifest is not JSON") from None
    return content


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise refusal("its manifest has a key twice")
    return content


def _no_such_number(text: str) -> NoReturn:
    raise refusal(f"its manifest holds {text}, which is not a number")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise refusal(f"its manifest holds a number of more than {MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_such_number("a number too large")


def _check_depth(content: Any) -> None:
    level, depth = [content], 0
    while level:
        if depth > MOST_DEPTH:
            raise RecursionError
        level = [
            inner
            for item in level
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        depth += 1
