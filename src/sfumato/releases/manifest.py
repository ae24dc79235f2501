"""The manifest: what a release says about itself.

A manifest is read from files that strangers hand around: every field is known, so that nothing can hide in it.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Annotated, Final, Literal, TypeVar, dataclass_transform

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

from sfumato.errors import ReleaseFileError
from sfumato.measurement import LARGEST_SCALE, Laplace
from sfumato.releases.strict_json import MOST_DIGITS, canonical, refusal, strict_json
from sfumato.version import __version__

FORMAT_VERSION: Final = 1
MOST_MANIFEST_BYTES = 2**20

T = TypeVar("T")

_FRACTION = re.compile(r"(-?[0-9]{1,100})(?:/([1-9][0-9]{0,99}))?")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def _record(cls: type[T]) -> type[T]:
    """A frozen value; read from a file, it is checked strictly, and keys that it does not know are refused."""
    cls.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]
    return dataclass(frozen=True)(cls)


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


def _drawable(scale: Fraction) -> Fraction:
    if scale > LARGEST_SCALE:
        raise ValueError("is more noise than Sfumato ever draws")
    return scale


Exact = Annotated[Fraction, PlainValidator(_as_fraction), PlainSerializer(fraction_text, return_type=str)]
PositiveExact = Annotated[Exact, AfterValidator(_positive)]
Scale = Annotated[PositiveExact, AfterValidator(_drawable)]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+\z")]  # one line that cannot steer a terminal
MemberName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}\z")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Size = Annotated[int, Field(ge=0, lt=2**62)]


@_record
class MechanismRecord:
    """Which mechanism made the release, and how it was set."""

    name: Text
    options: dict[str, str | int | bool] = field(default_factory=dict)


@_record
class Guarantee:
    """What is promised, to whom, in symbols and in words."""

    epsilon: PositiveExact
    unit: Text
    neighbours: Text
    statement: Text
    definition: Literal["pure epsilon-differential privacy"] = "pure epsilon-differential privacy"
    delta: Literal["0"] = "0"


@_record
class LaplaceRecord:
    """Discrete Laplace noise of a known scale."""

    scale: Scale
    family: Literal["laplace"] = "laplace"

    @property
    def noise(self) -> Laplace:
        return Laplace(self.scale)


@_record
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


@_record
class Total:
    """A noisy total over all cells, in the steps of its statistic; a sparse cube does not publish every cell."""

    of: Text
    value: Int64
    noise: LaplaceRecord


@_record
class Member:
    """A Parquet member, described closely enough to refuse it before reading it."""

    file: Text
    sha256: Sha256
    bytes: Size
    rows: Size
    columns: Annotated[list[Text], Field(min_length=1)]


@_record
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
    totals: list[Total] = field(default_factory=list)
    members: dict[MemberName, Member] = field(default_factory=dict)
    format: Literal["sfumato"] = "sfumato"
    version: Literal[1] = FORMAT_VERSION
    written_by: Text = f"sfumato {__version__}"
    limits: Literal["docs/known-limits.md"] = "docs/known-limits.md"


@cache
def _checker() -> TypeAdapter[Manifest]:
    """Made when first needed, because making it takes longer than using it."""
    return TypeAdapter(Manifest)


def manifest_bytes(manifest: Manifest) -> tuple[bytes, str]:
    """The manifest as the bytes of its file, and its digest, which stands in the file as well."""
    try:
        content = _checker().dump_python(manifest, mode="json")
        digest = hashlib.sha256(canonical(content)).hexdigest()
        raw = canonical({**content, "digest": digest})
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
    content = strict_json(raw)
    if not isinstance(content, dict) or content.get("format") != "sfumato":
        raise refusal("its manifest does not say that it is a Sfumato release")
    version = content.get("version")
    if type(version) is not int or version < 1:
        raise refusal("its manifest does not name the version of its format")
    if version > FORMAT_VERSION:
        raise refusal(f"it was made by a newer Sfumato (format {version})", "upgrade to open it")
    digest = content.pop("digest", None)
    try:
        spelled = canonical(content)
        spelled_otherwise = canonical({**content, "digest": digest}) != raw
    except ValueError:  # half of a surrogate pair, which UTF-8 cannot hold
        raise refusal("its manifest holds broken text") from None
    if digest != hashlib.sha256(spelled).hexdigest() or spelled_otherwise:
        raise refusal("it was changed after publication: its manifest does not match its digest")
    try:
        return _checker().validate_json(spelled), digest
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part)[:60] for part in first["loc"])
        raise refusal(f"its manifest is not well formed at {where!r}: {first['msg']}") from None
