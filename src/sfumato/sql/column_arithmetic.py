"""Arithmetic of aggregates in a select list: ratios of sums over a common denominator, formulas for all else."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.schema.parts import ROWS
from sfumato.sql.plan import (
    Amount,
    Bivariate,
    Bounds,
    Column,
    Distinct,
    Extreme,
    Formula,
    Kind,
    Quantile,
    Spread,
    ratio_bounds,
)
from sfumato.sql.scope import bare, number, unsupported

if TYPE_CHECKING:
    from sqlglot import exp

Amounts = tuple[Amount, ...]

LINEAR = (
    "a column is made of COUNT, SUM, AVG, MEDIAN, QUANTILE, MIN, MAX, VARIANCE, STDDEV, CORR, COVAR_ and REGR_ "
    "functions by + - * and /"
)
LARGEST = 1e20  # that an aggregate is multiplied with, or that is added to it


@dataclass(frozen=True)
class Ratio:
    """top / bottom, or top alone where bottom is None."""

    top: Amounts
    bottom: Amounts | None = None


def check_sizes(*factors: float) -> None:
    """Refuse factors so large that squares of errors would overflow."""
    if not all(abs(factor) <= LARGEST for factor in factors):
        raise QueryError(f"the query multiplies or adds a number that is too large; {LARGEST:g} is the largest")


def as_column(ratio: Ratio, schema: Schema) -> Column:
    """Convert a ratio to an unnamed column: like terms added, a lone term's factor as scale, bounds and kind set."""
    ratio = _in_rows(ratio, schema)
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
    return Column("", top, bottom, scale, bounds, _kind(top, bottom, scale, bounds, schema.count_step))


def _in_rows(ratio: Ratio, schema: Schema) -> Ratio:
    """Convert counts in steps of a weight to rows; in a ratio of weighted amounts alone the step cancels."""
    every = (*ratio.top, *(ratio.bottom or ()))
    if schema.count_step == 1.0 or (ratio.bottom is not None and all(amount.of != ROWS for amount in every)):
        return ratio

    def scaled(amounts: Amounts) -> Amounts:
        return tuple(one if one.of == ROWS else replace(one, factor=one.factor * schema.count_step) for one in amounts)

    return Ratio(scaled(ratio.top), None if ratio.bottom is None else scaled(ratio.bottom))


def _kind(top: Amounts, bottom: Amounts | None, scale: float, bounds: Bounds | None, step: float) -> Kind:
    counts = all(amount.of in (None, ROWS) for amount in top)
    if bottom is None:
        whole = all((scale * one.factor / (1.0 if one.of == ROWS else step)).is_integer() for one in top)
        return "count" if counts and whole else "sum"
    if bounds is None:
        return "ratio"
    return "share" if counts else "average"


def _scaled(amounts: Amounts, factor: float) -> Amounts:
    return tuple(replace(amount, factor=amount.factor * factor) for amount in amounts)


def _regrouped(amounts: Amounts, grouped: bool) -> Amounts:
    return tuple(amount if amount.grouped is grouped else replace(amount, grouped=grouped) for amount in amounts)


def _gathered(amounts: Amounts) -> Amounts:
    """Add the factors of equal amounts; amounts that cancel are dropped."""
    factors: dict[Amount, float] = {}
    for amount in amounts:
        thing = replace(amount, factor=1.0)
        factors[thing] = factors.get(thing, 0.0) + amount.factor
    return tuple(replace(thing, factor=factor) for thing, factor in factors.items() if factor != 0)


def _same(first: Amounts | None, second: Amounts | None) -> bool:
    if first is None or second is None:
        return first is second
    return set(_gathered(first)) == set(_gathered(second))


MOST_COLUMNS = 12  # in one formula: every one of them is worked out together with the others
TOO_MANY = f"a column is made of more than {MOST_COLUMNS} averages or counts; ask for them in several"


@dataclass(frozen=True)
class Single:
    """A statistic, times a constant."""

    rule: Quantile | Spread | Bivariate | Distinct
    scale: float = 1.0


@dataclass(frozen=True)
class Mixed:
    """Binary arithmetic on the values of two columns or constants."""

    operator: Literal["+", "*", "/"]
    left: Value
    right: Value

    @cached_property
    def size(self) -> int:
        """The number of sums over rows that it is made of, each as often as it occurs."""
        return sums_in(self.left) + sums_in(self.right)


@dataclass(frozen=True)
class Largest:
    """The greatest of several values, or the least, times a constant."""

    values: tuple[Value, ...]
    greatest: bool
    scale: float = 1.0

    @cached_property
    def size(self) -> int:
        """The number of sums over rows that it is made of, each as often as it occurs."""
        return sum(map(sums_in, self.values))


Value = Ratio | Single | Mixed | Largest | float


def sums_in(value: Value) -> int:
    """The number of sums over rows that a value is made of."""
    if isinstance(value, Mixed | Largest):
        return value.size
    return len(value.top) + len(value.bottom or ()) if isinstance(value, Ratio) else int(isinstance(value, Single))


def plus(left: Value, right: Value) -> Value:
    """The sum of two values."""
    if isinstance(left, float):
        left, right = right, left
    if isinstance(left, float) and isinstance(right, float):
        return left + right
    if isinstance(left, Ratio) and isinstance(right, float):
        if left.bottom is None:  # the constant would have no rows to stand for
            raise unsupported("a constant added to a COUNT or SUM", "add it to the answer")
        return Ratio(left.top + _scaled(left.bottom, right), left.bottom)  # a / b + 1 is (a + b) / b
    if isinstance(left, Ratio) and isinstance(right, Ratio) and _same(left.bottom, right.bottom):
        return Ratio(left.top + right.top, left.bottom)
    return Mixed("+", left, right)


def times(left: Value, right: Value) -> Value:
    """The product of two values."""
    if isinstance(left, float):
        left, right = right, left
    if isinstance(right, float):
        if isinstance(left, float):
            return left * right
        if isinstance(left, Ratio):
            return Ratio(_scaled(left.top, right), left.bottom)
        if isinstance(left, Single | Largest):
            return replace(left, scale=left.scale * right)
    return Mixed("*", left, right)


def over(left: Value, right: Value) -> Value:
    """The quotient of two values, of which the right one is not the constant 0."""
    if isinstance(right, float):
        return times(left, 1.0 / right)
    if isinstance(left, Ratio) and isinstance(right, Ratio) and _same(left.bottom, right.bottom):
        return Ratio(left.top, right.top)  # (a / n) / (b / n) is a / b, as in AVG(a) / AVG(b)
    return Mixed("/", left, right)


def regrouped(value: Value, grouped: bool) -> Value:
    """The value with every part split, or not split, by GROUP BY."""
    if isinstance(value, Mixed):
        return replace(value, left=regrouped(value.left, grouped), right=regrouped(value.right, grouped))
    if isinstance(value, Single):
        return replace(value, rule=replace(value.rule, grouped=grouped))
    if isinstance(value, Largest):
        return replace(value, values=tuple(regrouped(one, grouped) for one in value.values))
    if isinstance(value, float):
        return value
    bottom = None if value.bottom is None else _regrouped(value.bottom, grouped)
    return Ratio(_regrouped(value.top, grouped), bottom)


def column_of(value: Value, schema: Schema) -> Column:
    """Convert a value to an unnamed column; a constant is refused."""
    if isinstance(value, float):
        raise unsupported("a column that is a constant", LINEAR)
    if isinstance(value, Ratio):
        return as_column(value, schema)
    if isinstance(value, Single):
        check_sizes(value.scale)
        rule = value.rule
        kinds: dict[type, Kind] = {Quantile: "quantile", Distinct: "distinct", Bivariate: "ratio"}
        spread: Kind = "stddev" if isinstance(rule, Spread) and rule.root else "variance"
        return Column("", (), scale=value.scale, kind=kinds.get(type(rule), spread), rule=rule)
    if isinstance(value, Largest):
        check_sizes(value.scale)
        columns = tuple(dict.fromkeys(column_of(one, schema) for one in value.values))
        return Column("", (), scale=value.scale, kind="extreme", rule=Extreme(columns, value.greatest))
    if len(_parts(value)) > MOST_COLUMNS:
        raise QueryError(TOO_MANY)
    _refuse_dates(value, schema)
    formula = _formula(value, schema)
    if not isinstance(formula, Formula) or len(formula.columns) > MOST_COLUMNS:
        raise QueryError(TOO_MANY)
    return Column("", (), kind="difference" if value.operator == "+" else "ratio", rule=formula)


def _parts(value: Value) -> set[Ratio | Single | Largest]:
    """The ratios and statistics that a value is made of; once there are more than MOST_COLUMNS, no further ones."""
    found, waiting = set[Ratio | Single | Largest](), [value]
    while waiting and len(found) <= MOST_COLUMNS:
        part = waiting.pop()
        if isinstance(part, Mixed):
            waiting += (part.left, part.right)
        elif not isinstance(part, float):
            found.add(part)
    return found


def _formula(value: Value, schema: Schema) -> Formula | Column | float:
    if isinstance(value, Mixed):
        return Formula(value.operator, _formula(value.left, schema), _formula(value.right, schema))
    if isinstance(value, float):
        check_sizes(value)
        return value
    return column_of(value, schema)


def _refuse_dates(value: Mixed, schema: Schema) -> None:
    """Refuse arithmetic of dates, except the difference of two."""
    sides = [_dates(side, schema) for side in (value.left, value.right)]
    if any(sides) and not (value.operator == "+" and sorted(map(sorted, sides)) == [[-1.0], [1.0]]):
        raise QueryError("a date can be subtracted from a date, as in MAX(day) - MIN(day), and nothing else")
    for side in (value.left, value.right):
        if isinstance(side, Mixed) and not any(sides):
            _refuse_dates(side, schema)


def _dates(value: Value, schema: Schema) -> list[float]:
    """Scales of the dates that a value adds up; a date minus another leaves none."""
    if isinstance(value, Single):
        if isinstance(value.rule, Distinct | Bivariate):
            return []
        return [value.scale] if schema.domain[value.rule.of].kind == "date" else []
    if isinstance(value, Largest):
        return [value.scale] if _dates(value.values[0], schema) else []
    if not isinstance(value, Mixed):
        return []
    found = sorted(sign for side in (value.left, value.right) for sign in _dates(side, schema))
    return [] if value.operator == "+" and found == [-1.0, 1.0] else found


def is_difference(node: exp.Expression) -> bool:
    """Whether an item of the select list subtracts: also 100 * (a - b), and (a - b) / c, which is 0 where a is b."""
    node = bare(node)
    if node.key == "sub":
        return True
    if node.key == "mul":
        pairs = ((node.this, node.args["expression"]), (node.args["expression"], node.this))
        return any(number(bare(one)) is not None and is_difference(other) for one, other in pairs)
    return node.key in ("div", "neg", "cast") and is_difference(node.this)
