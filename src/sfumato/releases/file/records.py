"""Records of a manifest (fractions, names, noises, measurements, fits) in strict JSON, and the registry of fits.

Records are read from untrusted files: unknown keys are refused, and so is all JSON with two readings. Written JSON has
one canonical spelling: keys sorted, two spaces of indent, UTF-8, a newline at the end. Keys inside `schema` are not
sorted: the order of the attributes is the order in which cells are numbered. A family of fits is imported when it is
looked up.
"""

from __future__ import annotations

import json
import math
import re
from collections import UserDict
from collections.abc import Iterable
from dataclasses import field
from fractions import Fraction
from functools import cache, partial
from importlib import import_module
from typing import Annotated, Any, Literal, NoReturn, TypeVar, dataclass_transform

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, PlainSerializer, PlainValidator, TypeAdapter

from sfumato.answers.fit import Fit
from sfumato.errors import ReleaseFileError
from sfumato.frozen import dataclass
from sfumato.measurement import LARGEST_SCALE, Gaussian, Laplace, Noise
from sfumato.plain_text import printable

MOST_DIGITS = 100  # of a whole number, or of either side of a fraction: all that follows fits a float
MOST_DEPTH = 20
LONG = 2**18  # values of a list, beyond which it stands on one line
FRESH_COPY = "ask the publisher for a fresh copy"


def one_line(text: str) -> str:
    r"""Untrusted text as a message may quote it: printable, without terminal control, and short.

    >>> one_line("census\n.sfumato")
    'census\\x0a.sfumato'
    """
    line = printable(text[:301])
    return line if len(line) <= 300 else line[:300] + "..."


def refusal(what: str, remedy: str = FRESH_COPY) -> ReleaseFileError:
    """Error for an untrusted file: the defect, and the remedy."""
    return ReleaseFileError(f"{one_line(what)}; {remedy}", kind="damaged" if remedy == FRESH_COPY else None)


def canonical(content: dict[str, Any], *, at_once: bool = True) -> bytes:
    """Canonical bytes of a manifest; at_once: very long lists on one line each, which early files have not."""
    ordered = {key: content[key] if key == "schema" else _sorted(content[key]) for key in sorted(content)}
    return (indented(ordered, most=LONG if at_once else math.inf) + "\n").encode("utf-8")


def indented(content: Any, margin: str = "\n", most: float = LONG) -> str:
    """JSON with an indent of 2, as `json.dumps(content, indent=2)` has it, but long lists at once.

    With an indent, Python's own encoder takes each value by itself: a fifth of a second for 200,000 of them. Lists of
    more than `most` values stand on one line, in half the room.

    >>> content = {"a": [1, "x", {"b": [], "c": [[2]]}], "d": {}}
    >>> indented(content) == json.dumps(content, indent=2)
    True
    """
    if not content or not isinstance(content, dict | list):
        return _dumps(content)
    inner = margin + "  "
    if isinstance(content, list) and {*map(type, content)} <= {str, int}:
        if len(content) > most:
            return json.dumps(content, ensure_ascii=False, separators=(",", ": "))
        flat = json.dumps(content, ensure_ascii=False, separators=("," + inner, ": "))
        return f"[{inner}{flat[1:-1]}{margin}]"
    if isinstance(content, list):
        return f"[{inner}{f',{inner}'.join(indented(item, inner, most) for item in content)}{margin}]"
    if not all(isinstance(key, str) for key in content):
        raise TypeError("an object of JSON has keys of text")
    if {*map(type, content.values())} <= {str, int, bool, type(None)}:
        flat = json.dumps(content, ensure_ascii=False, separators=("," + inner, ": "))
        return f"{{{inner}{flat[1:-1]}{margin}}}"
    items = (f"{_dumps(key)}: {indented(item, inner, most)}" for key, item in content.items())
    return f"{{{inner}{f',{inner}'.join(items)}{margin}}}"


def _dumps(content: Any) -> str:
    return json.dumps(content, ensure_ascii=False, allow_nan=False)


def _sorted(content: Any) -> Any:
    if isinstance(content, dict):
        return {key: _sorted(content[key]) for key in sorted(content)}
    return [_sorted(item) for item in content] if isinstance(content, list) else content


def strict_json(raw: bytes) -> Any:
    """Parse untrusted JSON; refuse duplicate keys, non-finite or huge numbers, and deep nesting."""
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
    """Object of key-value pairs, or a refusal of duplicate keys."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise refusal("its manifest has a key twice")
    return content


def _no_such_number(text: str) -> NoReturn:
    """Refuse NaN and infinities."""
    raise refusal(f"its manifest holds {text}, which is not a number")


def _whole(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise refusal(f"its manifest holds a number of more than {MOST_DIGITS} digits")
    return int(text)


def _finite(text: str) -> float:
    number = float(text)
    return number if math.isfinite(number) else _no_such_number("a number too large")


def _check_depth(content: Any) -> None:
    """Raise RecursionError beyond the maximal depth, without recursion."""
    level: list[Any] = [[content]]
    depth = -1
    while level:
        if depth >= MOST_DEPTH:
            raise RecursionError
        inside = [item.values() if isinstance(item, dict) else item for item in level]
        nested = (each for each in inside if not {dict, list}.isdisjoint(map(type, each)))  # a long list is passed over
        level = [inner for each in nested for inner in each if isinstance(inner, dict | list) and inner]
        depth += 1


WITHOUT_ESTIMATE = frozenset({"running", "solved"})  # families of which a file keeps measurements alone


class _Families(UserDict[str, type[Fit] | str]):
    """Registry of fit classes by family name, imported on first lookup."""

    def __getitem__(self, family: str) -> type[Fit]:
        entry = self.data[family]
        if isinstance(entry, str):
            module, _, name = entry.rpartition(".")
            entry = self.data[family] = getattr(import_module(module), name)
        assert not isinstance(entry, str)  # noqa: S101 (for the type checker)
        return entry


FAMILIES = _Families(
    {
        "averages": "sfumato.models.sums.fit.AveragesFit",
        "linear": "sfumato.models.linear.fit.LinearFit",
        "regional": "sfumato.models.partition.fit.PartitionFit",
        "nested": "sfumato.models.partition.shrinkage.ShrinkageFit",
        "running": "sfumato.answers.along_time.RunningCells",
        "solved": "sfumato.models.linear.fit.SolvedFit",
        "summed": "sfumato.models.linear.fit.SummedFit",
        "shaped": "sfumato.models.weights.fit.ScaledShape",
        "measured-nested": "sfumato.models.calibration.fit.MeasuredShrinkage",
        "measured-regional": "sfumato.models.calibration.fit.MeasuredPartition",
        "measured-shape": "sfumato.models.calibration.fit.MeasuredShape",
        "measured-tree": "sfumato.models.calibration.fit.MeasuredTree",
        "tree": "sfumato.models.tree.fit.TreeFit",
    }
)


T = TypeVar("T")

_FRACTION = re.compile(r"(-?[0-9]{1,100})(?:/([1-9][0-9]{0,99}))?")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[T]) -> type[T]:
    """Class decorator: frozen dataclass that is validated strictly and refuses unknown keys."""
    cls.__pydantic_config__ = ConfigDict(extra="forbid", strict=True)  # type: ignore[attr-defined]
    return dataclass(frozen=True)(cls)


def adapter(form: Any) -> TypeAdapter[Any]:
    """Validator and serialiser of a type, cached because it is costly to make."""
    return _adapter(form)


@cache
def _adapter(form: Any) -> TypeAdapter[Any]:
    return TypeAdapter(form)


def fraction_text(value: Fraction) -> str:
    """Exact fraction as text.

    >>> fraction_text(Fraction(2, 4)), fraction_text(Fraction(3))
    ('1/2', '3')
    """
    if max(abs(value.numerator), value.denominator) >= 10**MOST_DIGITS:
        raise ReleaseFileError(f"a number in the manifest has more than {MOST_DIGITS} digits; use a rounder one")
    return str(value)


def parse_fraction(text: str) -> Fraction:
    """Parse the text of `fraction_text`; refuse any other spelling.

    >>> parse_fraction("1/2")
    Fraction(1, 2)
    """
    parts = _FRACTION.fullmatch(text)
    number = Fraction(int(parts[1]), int(parts[2] or 1)) if parts else None
    if number is None or str(number) != text:
        raise refusal("a number in the manifest is not a fraction in lowest terms such as '1/2'")
    return number


def _as_fraction(value: object) -> Fraction:
    """Validate an exact fraction or its text."""
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


def _drawable(parameter: Fraction, power: int = 1) -> Fraction:
    """Validate that a noise scale, or its square, is within what the sampler draws."""
    if parameter > LARGEST_SCALE**power:
        raise ValueError("is more noise than Sfumato ever draws")
    return parameter


Exact = Annotated[Fraction, PlainValidator(_as_fraction), PlainSerializer(fraction_text, return_type=str)]
PositiveExact = Annotated[Exact, AfterValidator(_positive)]
Variance = Annotated[PositiveExact, AfterValidator(partial(_drawable, power=2))]
Scale = Annotated[PositiveExact, AfterValidator(_drawable)]
Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]+\z")]  # one line that cannot steer a terminal
MemberName = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,39}\z")]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
Int64 = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Place = Annotated[int, Field(ge=0, lt=2**31)]  # in one of the manifest's own lists
Size = Annotated[int, Field(ge=0, lt=2**62)]


@record
class LaplaceRecord:
    """Discrete Laplace noise of a known scale."""

    scale: Scale
    family: Literal["laplace"] = "laplace"

    @property
    def noise(self) -> Laplace:
        return Laplace(self.scale)


@record
class GaussianRecord:
    """Discrete Gaussian noise of a known variance parameter."""

    sigma_squared: Variance
    family: Literal["gaussian"] = "gaussian"

    @property
    def noise(self) -> Gaussian:
        return Gaussian(self.sigma_squared)


NoiseRecord = Annotated[LaplaceRecord | GaussianRecord, Field(discriminator="family")]


def noise_record(noise: Noise) -> LaplaceRecord | GaussianRecord:
    """Record of a noise."""
    return LaplaceRecord(noise.scale) if isinstance(noise, Laplace) else GaussianRecord(noise.sigma_squared)


def noise_as_json(noise: Noise) -> dict[str, JsonValue]:
    """JSON form of a noise's record."""
    found: dict[str, JsonValue] = adapter(NoiseRecord).dump_python(noise_record(noise), mode="json")
    return found


@record
class MeasurementRecord:
    """Record of noisy answers to queries; queries and arrays are indices into the manifest's lists.

    columns: what the queries span, cells or regions or groups of rows.
    """

    of: Text
    columns: Size
    queries: Place
    answers: Place
    noises: Annotated[list[NoiseRecord], Field(min_length=1)]
    which: Place | list[Place] | None = None  # by axis, a list of them


def _known(family: str) -> str:
    if family not in FAMILIES:
        raise ValueError("is a kind of fit that Sfumato does not know")
    return family


@record
class FitRecord:
    """Record of the fit of one statistic; the estimate itself is a column of the member of cells.

    family: the kind of fit; arrays: what it keeps besides its measurements, by name. The leaves of a "tree" are the
    schema's cells along the tree of domain/binary_tree.py, which is not kept; another tree would be another family.
    """

    of: Text
    family: Annotated[str, AfterValidator(_known)]
    measurements: Annotated[list[MeasurementRecord], Field(min_length=1)]
    arrays: dict[MemberName, Place] = field(default_factory=dict)


def leaves_out_estimates(fits: Iterable[FitRecord]) -> bool:
    """Whether some fits are kept without estimates, which are solved for on reading."""
    return any(fit.family in WITHOUT_ESTIMATE for fit in fits)


QueriesRecord = dict[str, JsonValue]  # read by query_records
