"""The arithmetic of a select list: ratios where two of them have a common denominator, formulas where they have not."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.plan import Column, Formula, Kind
from sfumato.sql.ratios import LINEAR, Ratio, as_column, check_sizes
from sfumato.sql.scope import bare, number, unsupported
from sfumato.sql.statistics.rules import Quantile, Spread

if TYPE_CHECKING:
    from sqlglot import exp

MOST_COLUMNS = 12  # in one formula: every one of them is worked out together with the others


@dataclass(frozen=True)
class Single:
    """A statistic, times a constant."""

    rule: Quantile | Spread
    scale: float = 1.0


@dataclass(frozen=True)
class Mixed:
    """Two values with an operator between them."""

    operator: Literal["+", "*", "/"]
    left: Value
    right: Value


Value = Ratio | Single | Mixed | float


def plus(left: Value, right: Value) -> Value:
    """The sum of two values."""
    if isinstance(left, float):
        left, right = right, left
    if isinstance(left, float) and isinstance(right, float):
        return left + right
    if isinstance(left, Ratio) and isinstance(right, float):
        return left.plus_constant(right)
    if isinstance(left, Ratio) and isinstance(right, Ratio) and left.alike(right):
        return left.plus(right)
    return Mixed("+", left, right)


def times(left: Value, right: Value) -> Value:
    """The product of two values."""
    if isinstance(left, float):
        left, right = right, left
    if isinstance(right, float):
        if isinstance(left, float):
            return left * right
        if isinstance(left, Ratio):
            return left.times(right)
        if isinstance(left, Single):
            return replace(left, scale=left.scale * right)
    return Mixed("*", left, right)


def over(left: Value, right: Value) -> Value:
    """The quotient of two values, of which the right one is not the constant 0."""
    if isinstance(right, float):
        return times(left, 1.0 / right)
    if isinstance(left, Ratio) and isinstance(right, Ratio) and left.alike(right):
        return left.over(right)
    return Mixed("/", left, right)


def regrouped(value: Value, grouped: bool) -> Value:
    """The same with every part split, or not split, by GROUP BY."""
    if isinstance(value, Mixed):
        return replace(value, left=regrouped(value.left, grouped), right=regrouped(value.right, grouped))
    if isinstance(value, Single):
        return replace(value, rule=replace(value.rule, grouped=grouped))
    return value if isinstance(value, float) else value.with_groups(grouped)


def column_of(value: Value, schema: Schema) -> Column:
    """A column, yet without a name."""
    if isinstance(value, float):
        raise unsupported("a column that is a constant", LINEAR)
    if isinstance(value, Ratio):
        return as_column(value, schema)
    if isinstance(value, Single):
        check_sizes(value.scale)
        rule = value.rule
        kind: Kind = "quantile" if isinstance(rule, Quantile) else "stddev" if rule.root else "variance"
        return Column("", (), scale=value.scale, kind=kind, rule=rule)
    if len(_parts(value)) > MOST_COLUMNS:
        raise QueryError(f"a column is made of more than {MOST_COLUMNS} averages or counts; ask for them in several")
    _refuse_dates(value, schema)
    formula = _formula(value, schema)
    if not isinstance(formula, Formula) or len(formula.columns) > MOST_COLUMNS:
        raise QueryError(f"a column is made of more than {MOST_COLUMNS} averages or counts; ask for them in several")
    return Column("", (), kind="difference" if value.operator == "+" else "ratio", rule=formula)


def _parts(value: Value) -> set[Ratio | Single]:
    """The ratios and statistics that a value is made of, as far as they are more than a column may have."""
    found, waiting = set[Ratio | Single](), [value]
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
    """Of dates, only how far two are apart is a number."""
    sides = [_dates(side, schema) for side in (value.left, value.right)]
    if any(sides) and not (value.operator == "+" and sorted(map(sorted, sides)) == [[-1.0], [1.0]]):
        raise QueryError("a date can be subtracted from a date, as in MAX(day) - MIN(day), and nothing else")
    for side in (value.left, value.right):
        if isinstance(side, Mixed) and not any(sides):
            _refuse_dates(side, schema)


def _dates(value: Value, schema: Schema) -> list[float]:
    """The signs of the dates in a value, those that are subtracted from each other left out."""
    if isinstance(value, Single):
        return [value.scale] if schema.domain[value.rule.of].kind == "date" else []
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
