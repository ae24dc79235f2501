"""Parse the values of a schema (exact numbers, days, names, lists), write them back; base classes of its parts.

The parsers raise a ValueError that continues a sentence begun with the key, "attributes.age.lower" + " " + text; the
schema turns it into a SchemaError.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import Decimal
from fractions import Fraction
from numbers import Rational, Real
from typing import Annotated, Literal, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainValidator

from sfumato.arrays import Floats

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


def column_name(value: object) -> str:
    """The name of a column, which must fit in a message of one line."""
    if not isinstance(value, str):
        raise ValueError(f"is {shown(value)}; it must be the name of a column, in quotes if YAML reads it otherwise")
    if not value.strip() or any(ord(character) < 32 or ord(character) == 127 for character in value):
        raise ValueError(f"is {shown(value)}; a name must not be empty or hold line breaks; rename the column")
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"is {shown(value)}; it must be true or false")
    return value


def _each(read: Callable[[object], _T], example: str) -> Callable[[object], tuple[_T, ...]]:
    """Read a list that is not empty, item by item."""

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
Flag = Annotated[bool, PlainValidator(_flag)]
WholeCuts = Annotated[tuple[int, ...], PlainValidator(_each(whole, "[18, 65]"))]
ExactCuts = Annotated[tuple[Fraction, ...], PlainValidator(_each(exact, "[0.5, 2]"))]
Values = Annotated[tuple[str | int | float, ...], PlainValidator(_each(category_value, "[F, M]"))]


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


def check_order(lower: int | Fraction | date, upper: int | Fraction | date) -> None:
    """Refuse bounds that leave nothing between them."""
    if lower >= upper:  # type: ignore[operator]
        raise ValueError(f"has lower {shown(lower)} and upper {shown(upper)}; lower must be less than upper")


MOST_CELLS_OF_AN_AXIS = 10_000_000


class Declared(BaseModel):
    """A part of the schema: frozen, and without keys that nobody asked for."""

    # Arbitrary types: Fraction. Deferred: parts are compiled with the whole, not each by itself before it.
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True, defer_build=True)


class Column(Declared):
    """A part of the schema that reads one column: the one of its own name, unless `column` names another."""

    column: ColumnName = ""  # the schema fills in the name


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
