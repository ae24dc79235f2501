"""The privacy unit, the budget and the measures of a schema, and the bounds of its columns as a reader writes them."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache, lru_cache
from typing import Literal, Self

from pydantic import model_validator

from sfumato.schema.attributes import Column, Declared
from sfumato.schema.values import ColumnName, Count, Exact, PositiveExact, check_order, exact

MOST_UNITS = 2**40  # the sum of a measure over eight million rows then fits a signed 64-bit integer


# A row in which a measure is missing: counted as such, left out, or taken as the middle of the bounds, as was done in
# files that do not say.
Missing = Literal["keep", "drop", "middle"]


class PrivacyUnit(Declared):
    """The protected unit: one row, or all rows of one value of `column`, of which `contributions` are kept."""

    column: ColumnName | None
    contributions: Count


class Budget(Declared):
    """The most that may ever be spent on the dataset; delta only counts for releases that need one."""

    epsilon: PositiveExact
    delta: PositiveExact | None = None

    @model_validator(mode="after")
    def _is_a_chance(self) -> Self:
        if self.delta is not None and self.delta >= 1:
            raise ValueError("has a delta of 1 or more, which promises nothing; give a small one such as 1e-6")
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
    weight: PositiveExact = Fraction(1)  # of its share of a budget, beside that of the count, 1, and of other measures
    missing: Missing = "keep"

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

    @property
    def centre(self) -> Fraction:
        """The middle of the bounds, to a whole number of steps."""
        return _in_steps(self.lower, self.upper, self.step)[0]

    @property
    def half_units(self) -> int:
        """The most steps that a row can lie away from the centre."""
        return _in_steps(self.lower, self.upper, self.step)[1]


@lru_cache(maxsize=256)  # asked for with every measurement, and fractions are slow
def _in_steps(lower: Fraction, upper: Fraction, step: Fraction) -> tuple[Fraction, int]:
    """The centre, and the steps from there to the bound that is farther off."""
    centre = round((lower + upper) / 2 / step) * step
    return centre, math.ceil(max(upper - centre, centre - lower) / step)


def missing_of(measure: str) -> str:
    """The name of the statistic that counts the rows in which a measure is missing."""
    return f"missing {measure}"


@cache
def keys_of(part: type[Declared]) -> tuple[str, ...]:
    """The keys of a part of the schema, in the order in which one writes them."""
    last = {"missing": 1, "column": 2}
    return tuple(sorted(part.model_fields, key=lambda key: (key != "type", last.get(key, 0))))


def _power_of_two_above(number: Fraction) -> int:
    """The smallest k with 2**k >= number, without a logarithm that rounds."""
    k = number.numerator.bit_length() - number.denominator.bit_length()
    while Fraction(2) ** k < number:
        k += 1
    while Fraction(2) ** (k - 1) >= number:
        k -= 1
    return k


def bounds_of(part: Column) -> tuple[str, str] | None:
    """Lower and upper bound of an attribute or measure; None where it has none, as a category.

    >>> from sfumato.schema.parts import Measure
    >>> bounds_of(Measure(lower=Fraction(0), upper=Fraction(5, 2)))
    ('0', '2.5')
    """
    lower, upper = (getattr(part, name, None) for name in ("lower", "upper"))
    return None if lower is None or upper is None else (_written(lower), _written(upper))


def _written(bound: object) -> str:
    return f"{float(bound):.15g}" if isinstance(bound, Fraction) else str(bound)
