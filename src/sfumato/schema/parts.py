"""Parts of a schema: values as they are written, base classes, the privacy unit, the budget and the measures.

The parsers raise a ValueError that continues a sentence begun with the key, "attributes.age.lower" + " " + text; the
schema turns it into a SchemaError.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from numbers import Rational, Real
from typing import Annotated, Literal, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainValidator, model_validator

from sfumato.arrays import Floats
from sfumato.errors import SchemaError

EXACT_IN_A_FLOAT = 2**53
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]{1,3})?|[+-]?[0-9]+/[0-9]*[1-9][0-9]*")
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_T = TypeVar("_T")


def exact(value: object) -> Fraction:
    """The fraction that a number's decimal text says; a ValueError says in plain words why there is none.

    >>> exact(0.1) + exact("1e-3") == Fraction(101, 1000)
    True
    >>> exact("1/3")
    Fraction(1, 3)
    """
    if isinstance(value, bool) or not isinstance(value, str | Decimal | Real):
        raise ValueError(f"is {shown(value)}, which is not a number")
    if isinstance(value, Rational):
        number = Fraction(int(value.numerator), int(value.denominator))
    else:
        text = str(value).strip()
        if text.lower().lstrip("+-.") in ("nan", "inf", "infinity"):
            raise ValueError(f"is {text}; it must be a finite number")
        if len(text) > 1500 or not _NUMBER.fullmatch(text):
            raise ValueError(f"is {shown(text)}, which is not a number; write it in digits, such as 1500 or 0.25")
        number = Fraction(text)
    # Beyond this no float can follow; unlimited digits in a file from a stranger would also stall the reader.
    if abs(number) > 10**300 or number.denominator.bit_length() > 1100:
        raise ValueError("has too many digits; numbers up to 1e300 with up to 300 decimals can be used")
    return number


def positive(value: object) -> Fraction:
    """An exact number above zero."""
    number = exact(value)
    if number <= 0:
        raise ValueError(f"is {shown(value)}; it must be more than 0")
    return number


def whole(value: object) -> int:
    """A whole number that engines and floats both hold exactly."""
    number = exact(value)
    if number.denominator != 1:
        raise ValueError(f"is {shown(value)}; it must be a whole number")
    if abs(number) >= EXACT_IN_A_FLOAT:
        raise ValueError("is too large; whole numbers must stay below 2 to the power of 53")
    return int(number)


def at_least_one(value: object) -> int:
    """A whole number from 1."""
    number = whole(value)
    if number < 1:
        raise ValueError(f"is {number}; it must be 1 or more")
    return number


def day(value: object) -> date:
    """A calendar day, from a date or its ISO text."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str) and _DAY.fullmatch(value.strip()):
        try:
            return date.fromisoformat(value.strip())
        except ValueError:
            raise ValueError(f"is {value.strip()!r}, a day that is not in the calendar") from None
    raise ValueError(f"is {shown(value)}; write the day like 2024-12-31, without a time")


def as_day(text: str) -> date | None:
    """Parse a text as a day; None if it is none."""
    try:
        return day(text)
    except ValueError:
        return None


def column_name(value: object) -> str:
    """The name of a column, which must fit in a message of one line."""
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be the name of a column, in quotes if YAML reads it otherwise")
    if not value.strip() or any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError(f"is {shown(value)}; a name must not be empty or hold line breaks; rename the column")
    return value


def flag(value: object) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"is {shown(value)}; it must be true or false")
    return value


def _each(read: Callable[[object], _T], example: str) -> Callable[[object], tuple[_T, ...]]:
    """Parser of a non-empty list, each item of which `read` parses. example: for messages."""

    def items(value: object) -> tuple[_T, ...]:
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(f"must be a list with something in it, such as {example}")
        try:
            return tuple(map(read, value))
        except ValueError as problem:
            raise ValueError(f"holds an entry that {problem}") from None

    return items


def category_value(value: object) -> str | int | float:
    """A listed value: text, or a number."""
    if value is None:
        raise ValueError("is blank; delete it, or quote it ('null') if that is how the value is written")
    if isinstance(value, bool):
        meant = ("yes", "on") if value else ("no", "off")
        raise ValueError(
            f"is {shown(value)}, which is how YAML reads an unquoted {meant[0]} or {meant[1]}: quote it "
            f"('{meant[0]}'), or use type: boolean if the column holds booleans"
        )
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, Real | Decimal):
        raise ValueError(f"is {shown(value)}, neither text nor a number; put it in quotes")
    number = exact(value)
    return int(number) if number.denominator == 1 else float(number)


Exact = Annotated[Fraction, PlainValidator(exact)]
PositiveExact = Annotated[Fraction, PlainValidator(positive)]
Whole = Annotated[int, PlainValidator(whole)]
Count = Annotated[int, PlainValidator(at_least_one)]
ColumnName = Annotated[str, PlainValidator(column_name)]
Day = Annotated[date, PlainValidator(day)]
Flag = Annotated[bool, PlainValidator(flag)]
WholeCuts = Annotated[tuple[int, ...], PlainValidator(_each(whole, "[18, 65]"))]
ExactCuts = Annotated[tuple[Fraction, ...], PlainValidator(_each(exact, "[0.5, 2]"))]


def _category_values(value: object) -> tuple[str | int | float, ...]:
    """Listed values; many texts at once."""
    if isinstance(value, list | tuple) and {*map(type, value)} == {str}:
        return tuple(value)
    return _each(category_value, "[F, M]")(value)


Values = Annotated[tuple[str | int | float, ...], PlainValidator(_category_values)]


def decimal(number: Fraction) -> int | str:
    """A fraction as JSON can hold it exactly: a whole number, decimal text or, if that would not end, p/q text.

    >>> decimal(Fraction(3)), decimal(Fraction(-1, 40)), decimal(Fraction(1, 3))
    (3, '-0.025', '1/3')
    """
    rest, twos, fives = number.denominator, 0, 0
    while rest % 2 == 0:
        rest, twos = rest // 2, twos + 1
    while rest % 5 == 0:
        rest, fives = rest // 5, fives + 1
    if rest != 1:
        return f"{number.numerator}/{number.denominator}"
    places = max(twos, fives)
    if places == 0:
        return number.numerator
    digits = str(abs(number.numerator) * 10**places // number.denominator).zfill(places + 1)
    return f"{'-' if number < 0 else ''}{digits[:-places]}.{digits[-places:]}"


def shown(value: object) -> str:
    """A value as a message quotes it: short and on one line."""
    if value is None:
        return "blank"
    if isinstance(value, list | tuple | dict | set):
        return f"a {type(value).__name__}"
    if isinstance(value, Fraction):
        return str(decimal(value))
    text = repr(value) if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def refuse_lone_surrogates(data: object) -> None:
    """Refuse half a character, which Python and YAML's "\\ud800" allow in a text and no file can hold."""
    if isinstance(data, Mapping):
        for key, part in data.items():
            refuse_lone_surrogates(key)
            refuse_lone_surrogates(part)
    elif isinstance(data, list | tuple):
        for part in data:
            refuse_lone_surrogates(part)
    elif isinstance(data, str) and not data.isascii() and any("\ud800" <= letter <= "\udfff" for letter in data):
        raise SchemaError(f"the text {shown(data)} holds half a character, which no file can; write the character out")


def blanks(data: Mapping[object, object], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Keys that a draft left without a value, which YAML reads as None; keys that are not text are refused."""
    for key, part in data.items():
        if not isinstance(key, str):
            raise SchemaError(
                f"{'.'.join(path) or 'the schema'} has the key {str(key).lower()}, which YAML does not read as text; "
                "put the name in quotes (yes, no, on, off, true, false, dates and numbers need them)"
            )
        if part is None:
            yield (*path, key)
        elif isinstance(part, Mapping) and len(path) < 2:
            yield from blanks(part, (*path, key))


def check_order(lower: int | Fraction | date, upper: int | Fraction | date) -> None:
    """Refuse bounds that leave nothing between them."""
    if lower >= upper:  # type: ignore[operator]
        raise ValueError(f"has lower {shown(lower)} and upper {shown(upper)}; lower must be less than upper")


MOST_CELLS_OF_AN_AXIS = 10_000_000


class Declared(BaseModel):
    """Base class of the schema's parts: frozen, and unknown keys are refused."""

    # Arbitrary types: Fraction. Deferred: parts are compiled with the whole, not each by itself before it.
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


def _words(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"is {shown(value)}; write a few words, in quotes if YAML reads them otherwise")
    return value.strip()


Words = Annotated[str, PlainValidator(_words)]


class Column(Declared):
    """A part of the schema that reads one column: the one of its own name, unless `column` names another.

    label, unit and description: shown to readers; queries do not use them.
    """

    column: ColumnName = ""  # the schema fills in the name
    label: Words | None = None
    unit: Words | None = None
    description: Words | None = None


class Attributed(Column):
    """A column that becomes an axis. With `missing: keep` it has one more cell, the last, for rows without a value."""

    missing: Literal["keep"] | None = None

    @property
    def keeps_missing(self) -> bool:
        """Whether rows without a value have a cell of their own; without one they are left out."""
        return self.missing is not None

    @property
    @abstractmethod
    def places(self) -> int:
        """The number of cells for values."""

    @property
    def size(self) -> int:
        """The number of cells."""
        return self.places + self.keeps_missing


def floats(numbers: Sequence[int | Fraction | float]) -> Floats:
    return np.array([float(number) for number in numbers], dtype=np.float64)


def check_size(size: int, remedy: str) -> None:
    """Refuse an axis that is too long to lay out."""
    if size > MOST_CELLS_OF_AN_AXIS:
        raise ValueError(f"has more than {MOST_CELLS_OF_AN_AXIS:,} cells; {remedy}")


MOST_UNITS = 2**40  # the sum of a measure over eight million rows then fits a signed 64-bit integer


# A row in which a measure is missing: counted as such, left out, or taken as the middle of the bounds, as was done in
# files that do not say.
Missing = Literal["keep", "drop", "middle"]


ROWS = "unweighted rows"  # the statistic that counts rows as they are, beside counts that are weighted
STEPS_OF_A_WEIGHT = 1000  # at least, up to the largest, where no step is stated
MOST_OF_A_WEIGHT, LARGEST_WEIGHT = 2**20, 10**12
SMALLEST_OF_A_WEIGHT = Fraction(1, 10**100)  # for privacy: no product or quotient of a row's weight may underflow

OLD_SHARE = "weight"  # of a measure, in files of earlier versions: its `budget_share`


class PrivacyUnit(Declared):
    """The protected unit: one row, or all rows of one value of `column`, of which `contributions` are kept."""

    column: ColumnName | None
    contributions: Count


class Budget(Declared):
    """The most that may ever be spent on the dataset: an epsilon, or a rho of zero-concentrated privacy.

    Delta only counts for releases that need one; with a rho, it is the delta at which an epsilon is stated. per: in a
    series that protects each period by itself, the span whose periods together spend no more than the budget.
    """

    epsilon: PositiveExact | None = None
    delta: PositiveExact | None = None
    rho: PositiveExact | None = None
    per: Literal["year"] | None = None

    @model_validator(mode="after")
    def _is_a_chance(self) -> Self:
        if self.delta is not None and self.delta >= 1:
            raise ValueError("has a delta of 1 or more, which promises nothing; give a small one such as 1e-6")
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("must say either epsilon, such as {epsilon: 3}, or rho, such as {rho: 0.5}")
        return self


class Measure(Column):
    """A column that is summed, clipped to its bounds, in whole steps around a centre.

    missing: whether a row without a value is counted as such, falls out, or counts as the middle of the bounds.
    A row adds round((value - centre) / step), a whole number between -half_units and half_units, so that sums are exact
    and the noise on them can be.

    >>> charge = Measure(lower=Fraction(0), upper=Fraction(50000), step=Fraction(1))
    >>> charge.centre, charge.half_units
    (Fraction(25000, 1), 25000)
    """

    lower: Exact
    upper: Exact
    step: PositiveExact = Fraction(0)  # filled in below: fine enough to be lost in the noise, and exact in binary
    budget_share: PositiveExact = Fraction(1)  # beside that of the count, 1, and of other measures
    missing: Missing = "keep"

    @model_validator(mode="before")
    @classmethod
    def _renamed(cls, given: object) -> object:
        """Read `weight`, as earlier versions called it, for `budget_share`."""
        if not isinstance(given, Mapping) or OLD_SHARE not in given:
            return given
        if "budget_share" in given:
            raise ValueError(f"has budget_share and {OLD_SHARE}, its old name; keep budget_share")
        return {"budget_share" if key == OLD_SHARE else key: part for key, part in given.items()}

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_order(self.lower, self.upper)
        if self.step == 0:
            step = Fraction(2) ** (_power_of_two_above((self.upper - self.lower) / 2) - 30)
            object.__setattr__(self, "step", exact(step))
        if self.step > self.upper - self.lower:
            raise ValueError("has a step larger than upper - lower; make it smaller or leave it out")
        if self.half_units > MOST_UNITS:
            least = float((self.upper - self.lower) / (MOST_UNITS / 2))
            raise ValueError(f"has a step too small for its bounds; use {least:.1g} or more, or leave it out")
        return self

    def coarser(self, most: int) -> Self:
        """Copy with the step doubled until `most` times a row's largest amount still leaves room for 64-bit sums."""
        made = self.model_copy()
        while made.half_units * most > MOST_UNITS:
            object.__setattr__(made, "step", made.step * 2)
        return made

    @property
    def centre(self) -> Fraction:
        """The middle of the bounds, to a whole number of steps."""
        return _centre_and_reach(self.lower, self.upper, self.step)[0]

    @property
    def half_units(self) -> int:
        """The most steps that a row can lie away from the centre."""
        return _centre_and_reach(self.lower, self.upper, self.step)[1]


class Weight(Declared):
    """The column by which rows are weighed, as a survey's: a row counts as often as its weight says.

    Clipped to the bounds, then moved toward a public mean: mean + (1 - shrink) (weight - mean) (Seeman, Si, Reiter
    2024). A row counts for a whole number of steps, `most` at most; one that rounds to none falls out.
    unweighted_share: budget of unweighted counts, relative to that of the weighted ones.

    >>> survey = Weight(column="w", upper=Fraction(400), step=Fraction(1), shrink=Fraction(1, 2), mean=Fraction(100))
    >>> survey.shrunk(survey.upper), survey.most
    (Fraction(250, 1), 250)
    """

    column: ColumnName
    lower: Exact = Fraction(0)
    upper: Exact
    step: PositiveExact = Fraction(0)  # filled in below
    shrink: Exact = Fraction(0)
    mean: Exact | None = None
    unweighted_share: Exact = Fraction(1, 10)

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_order(self.lower, self.upper)
        if self.lower < 0:
            raise ValueError(f"has lower {shown(self.lower)}; no row counts less than 0 times, so write 0 or more")
        if self.upper > LARGEST_WEIGHT:
            raise ValueError(f"has upper {shown(self.upper)}; weights go up to 1e12, so divide them")
        if not 0 <= self.shrink < 1:
            raise ValueError(f"has shrink {shown(self.shrink)}; write 0 to leave weights as they are, or less than 1")
        if (self.mean is None) != (self.shrink == 0):
            raise ValueError("needs shrink and mean together: {shrink: 0.5, mean: 100}, or neither")
        if self.mean is not None and not self.lower <= self.mean <= self.upper:
            raise ValueError(f"has mean {shown(self.mean)}, which is not between lower and upper")
        if self.unweighted_share < 0:
            raise ValueError("has an unweighted_share below 0; write 0 to count no rows without their weights")
        if self.step == 0:
            power = max(0, _power_of_two_above(STEPS_OF_A_WEIGHT / self.shrunk(self.upper)))
            object.__setattr__(self, "step", exact(Fraction(1, 2**power)))
        if any(0 < part < SMALLEST_OF_A_WEIGHT for part in (self.lower, self.upper, self.step, 1 - self.shrink)):
            raise ValueError("has a bound, a step or 1 - shrink nearer to 0 than 1e-100; multiply weights, or round it")
        if not 1 <= self.most <= MOST_OF_A_WEIGHT:
            least = float(self.shrunk(self.upper) / MOST_OF_A_WEIGHT)
            raise ValueError(
                f"has a step that does not go with upper; use from {least:.1g} up to upper, or leave it out"
            )
        return self

    def shrunk(self, weight: Fraction) -> Fraction:
        """A weight within the bounds, moved toward the mean."""
        return weight if self.mean is None else self.mean + (1 - self.shrink) * (weight - self.mean)

    @property
    def most(self) -> int:
        """The most steps that a row can count for."""
        return math.floor(self.shrunk(self.upper) / self.step + Fraction(1, 2))

    @property
    def top(self) -> str:
        """The largest weight that a row can have, as it is written."""
        return _written(self.most * self.step)

    @cached_property
    def rows(self) -> Measure:
        """Unweighted row count as a measure, in steps of 1 / `most`: each row adds `most`, whatever it weighs."""
        one = Fraction(1, self.most)
        share = self.unweighted_share or Fraction(1)
        return Measure(column=self.column, lower=Fraction(0), upper=one, step=one, budget_share=share, missing="drop")


class WeightInRows(Weight):
    """A weight for plans, where counts are in rows: of step 1, though its largest need not be whole."""

    reaches: Exact

    @property
    def most(self) -> int:
        """Largest weight, in rows: a fraction, as plans count nothing."""
        return self.reaches  # type: ignore[return-value]


@lru_cache(maxsize=256)  # asked for with every measurement, and fractions are slow
def _centre_and_reach(lower: Fraction, upper: Fraction, step: Fraction) -> tuple[Fraction, int]:
    """The centre, and the steps from there to the bound that is farther off."""
    centre = round((lower + upper) / 2 / step) * step
    return centre, math.ceil(max(upper - centre, centre - lower) / step)


@cache
def keys_of(part: type[Declared]) -> tuple[str, ...]:
    """The keys of a part of the schema, in the order in which one writes them."""
    last = {"missing": 1, "column": 2, "label": 3, "unit": 4, "description": 5}
    names = (name.rstrip("_") for name in part.model_fields)  # with_, as `with` is a word of Python
    return tuple(sorted(names, key=lambda key: (key != "type", last.get(key, 0))))


def field_of(part: type[Declared], key: str) -> str:
    """The name of the field of a key: with_ for `with`, else the key itself."""
    return key if key in part.model_fields else f"{key}_"


def _power_of_two_above(number: Fraction) -> int:
    """The smallest k with 2**k >= number, without a logarithm that rounds."""
    k = number.numerator.bit_length() - number.denominator.bit_length()
    while Fraction(2) ** k < number:
        k += 1
    while Fraction(2) ** (k - 1) >= number:
        k -= 1
    return k


def bounds_of(part: Declared) -> tuple[str, str] | None:
    """Lower and upper bound of an attribute or measure; None where it has none, as a category.

    >>> bounds_of(Measure(lower=Fraction(0), upper=Fraction(5, 2)))
    ('0', '2.5')
    """
    lower, upper = (getattr(part, name, None) for name in ("lower", "upper"))
    return None if lower is None or upper is None else (_written(lower), _written(upper))


def _written(bound: object) -> str:
    return f"{float(bound):.15g}" if isinstance(bound, Fraction) else str(bound)
