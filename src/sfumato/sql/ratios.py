"""The arithmetic of columns: sums of amounts, and ratios of two such sums."""

from __future__ import annotations

from dataclasses import replace

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.bounds import Bounds, ratio_bounds
from sfumato.sql.plan import Amount, Column, Kind
from sfumato.sql.scope import unsupported

Amounts = tuple[Amount, ...]

LINEAR = "a column is made of COUNT, SUM, AVG, MEDIAN, QUANTILE, MIN, MAX, VARIANCE and STDDEV by + - * and /"
LARGEST = 1e20  # that an aggregate is multiplied with, or that is added to it


@dataclass(frozen=True)
class Ratio:
    """top / bottom, or top alone where bottom is None."""

    top: Amounts
    bottom: Amounts | None = None

    def times(self, factor: float) -> Ratio:
        """The product with a constant."""
        return Ratio(_scaled(self.top, factor), self.bottom)

    def plus_constant(self, constant: float) -> Ratio:
        """The sum with a constant: a / b + 1 is (a + b) / b."""
        if self.bottom is None:  # the constant would have no rows to stand for
            raise unsupported("a constant added to a COUNT or SUM", "add it to the answer")
        return Ratio(self.top + _scaled(self.bottom, constant), self.bottom)

    def alike(self, other: Ratio) -> bool:
        """Whether two have the same denominator, so that their sum and their quotient are ratios again."""
        return _same(self.bottom, other.bottom)

    def plus(self, other: Ratio) -> Ratio:
        """The sum of two with the same denominator."""
        return Ratio(self.top + other.top, self.bottom)

    def over(self, other: Ratio) -> Ratio:
        """The quotient of two with the same denominator; (a / n) / (b / n) is a / b, as in AVG(a) / AVG(b)."""
        return Ratio(self.top, other.top)

    def with_groups(self, grouped: bool) -> Ratio:
        """The same with every amount split, or not split, by GROUP BY."""
        return Ratio(_regrouped(self.top, grouped), None if self.bottom is None else _regrouped(self.bottom, grouped))


def check_sizes(*factors: float) -> None:
    """Refuse to multiply with what would carry the squares of errors beyond all numbers."""
    if not all(abs(factor) <= LARGEST for factor in factors):
        raise QueryError(f"the query multiplies or adds a number that is too large; {LARGEST:g} is the largest")


def as_column(ratio: Ratio, schema: Schema) -> Column:
    """A column, yet without a name: like terms gathered, a common factor as scale, bounds and kind worked out."""
    top, bottom = _gathered(ratio.top), None if ratio.bottom is None else _gathered(ratio.bottom)
    if bottom == ():
        raise QueryError("the query divides by something that is always zero")
    if not top:
        raise QueryError("a column of the query is always zero; leave it out")
    scale = 1.0
    if len(top) == 1:
        scale, top = top[0].factor, (replace(top[0], factor=1.0),)
    if bottom is not None and len(bottom) == 1:
        scale, bottom = scale / bottom[0].factor, (replace(bottom[0], factor=1.0),)
    check_sizes(scale, *(amount.factor for amount in (*top, *(bottom or ()))))
    bounds = None if bottom is None else ratio_bounds(top, bottom, schema)
    return Column("", top, bottom, scale, bounds, _kind(top, bottom, scale, bounds))


def _kind(top: Amounts, bottom: Amounts | None, scale: float, bounds: Bounds | None) -> Kind:
    counts = all(amount.of is None for amount in top)
    if bottom is None:
        whole = all((scale * amount.factor).is_integer() for amount in top)
        return "count" if counts and whole else "sum"
    if bounds is None:
        return "ratio"
    return "share" if counts else "average"


def _scaled(amounts: Amounts, factor: float) -> Amounts:
    return tuple(replace(amount, factor=amount.factor * factor) for amount in amounts)


def _regrouped(amounts: Amounts, grouped: bool) -> Amounts:
    return tuple(replace(amount, grouped=grouped) for amount in amounts)


def _gathered(amounts: Amounts) -> Amounts:
    """Amounts of the same thing added up, and those that cancel left out."""
    factors: dict[Amount, float] = {}
    for amount in amounts:
        thing = replace(amount, factor=1.0)
        factors[thing] = factors.get(thing, 0.0) + amount.factor
    return tuple(replace(thing, factor=factor) for thing, factor in factors.items() if factor != 0)


def _same(first: Amounts | None, second: Amounts | None) -> bool:
    if first is None or second is None:
        return first is second
    return set(_gathered(first)) == set(_gathered(second))
