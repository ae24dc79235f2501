"""SQL expressions and row operations on estimates: arithmetic with constants, rounding, filter, rank, sort, limit.

A monotone function maps the ends of an interval to the ends of its image. Conditions are decided on the published
value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from sfumato.answers.results import Estimate
from sfumato.domain import EPOCH
from sfumato.effort import spend
from sfumato.errors import QueryError
from sfumato.sql.table.plan import Keep, Once, Rank, Rule, Sort, Step, Take, trees_of
from sfumato.sql.values import functions
from sfumato.sql.values.dates import as_date, as_moment
from sfumato.sql.values.tree import Ref, Tree, evaluate, size

Number = int | float


def work_out(tree: Tree, row: Any) -> Any:
    """Evaluate an expression on a row of keys and estimates."""
    return evaluate(tree, row, _call)


def shown(value: Any) -> Any:
    """Convert a cell for output: dates become text."""
    return value.isoformat() if isinstance(value, date) else value


def known_for_sure(value: Any, confidence: float) -> Estimate:
    """Estimate without error of a constant, or an unknown one of NULL, in a column of estimates."""
    if value is None:
        return Estimate(math.nan, math.nan, -math.inf, math.inf, confidence, math.nan)
    if isinstance(value, str) or not isinstance(value, int | float):
        raise QueryError("a column has numbers in some rows and text in others; select them as columns of their own")
    return Estimate(float(value), 0.0, float(value), float(value), confidence, 0.0)


def _call(name: str, args: list[Any]) -> Any:
    """Apply an SQL function; estimates keep their intervals where it is monotone."""
    if not any(isinstance(arg, Estimate) for arg in args):
        return functions.call(name, args)
    if name == "case":
        conditions = [arg if place % 2 else _plain(arg) for place, arg in enumerate(args[:-1])]
        return functions.call(name, [*conditions, args[-1]])
    if name in _NUMBERS:
        if name not in _OF_DATES and any(isinstance(arg, Estimate) and arg.dates for arg in args):
            raise QueryError("a date can be compared, and subtracted from a date, as in MAX(day) - MIN(day), no more")
        try:
            value = _NUMBERS[name](*args)
        except (TypeError, ValueError, OverflowError):
            raise functions.not_together([_plain(arg) for arg in args]) from None
        if isinstance(value, Estimate) and (math.isinf(value.value) or math.isinf(value.stderr)):
            raise QueryError("the query works out a number that is too large; use smaller constants")
        return value
    return functions.call(name, [_plain(arg) for arg in args])


def _plain(value: Any) -> Any:
    """Published value of an estimate, NULL where it is unknown; other values unchanged."""
    if not isinstance(value, Estimate):
        return value
    if math.isnan(value.value):
        return None
    if value.timed:
        return datetime(EPOCH.year, EPOCH.month, EPOCH.day) + timedelta(
            minutes=math.floor(value.value * 24 * 60 + 1e-6)
        )
    return EPOCH + timedelta(days=math.floor(value.value)) if value.dates else value.value


def _number(value: Any) -> Number:
    """Numeric operand, or a QueryError."""
    if not isinstance(value, int | float):
        raise QueryError(f"{value!r} is not a number, which arithmetic with an aggregate needs")
    return value


def _days(value: Any, *, timed: bool) -> float:
    """Days since 1970-01-01 of a date, also of its text."""
    if timed:
        return (as_moment(value) - datetime(EPOCH.year, EPOCH.month, EPOCH.day)) / timedelta(days=1)
    return float((as_date(value) - EPOCH).days)


def _mapped(estimate: Estimate, change: Callable[[float], float]) -> Estimate:
    """Apply a monotone function to value and interval ends."""

    def safely(number: float) -> float:
        return float(change(number)) if math.isfinite(number) else number

    ends = sorted(map(safely, (estimate.low, estimate.high)))
    return replace(estimate, value=safely(estimate.value), low=ends[0], high=ends[1])


def _shifted(estimate: Estimate, by: Number) -> Estimate:
    """Add a constant to an estimate."""
    return replace(_mapped(estimate, lambda number: number + by), real=None)


def _with_number(change: Callable[[Estimate, Number], Any]) -> Callable[[Any, Any], Any]:
    """Lift a function of an estimate and a constant to either order of arguments; NULL gives NULL."""

    def both(left: Any, right: Any) -> Any:
        estimate, other = (left, right) if isinstance(left, Estimate) else (right, left)
        return None if other is None else change(estimate, _number(other))

    return both


def _less(left: Any, right: Any) -> Any:
    """Subtract: estimate minus constant or constant minus estimate."""
    if left is None or right is None:
        return None
    if isinstance(left, Estimate):
        return _shifted(left, -_number(right))
    return _shifted(right.times(-1.0), _number(left))


def _absolute(estimate: Estimate) -> Estimate:
    """Absolute value of an estimate."""
    low, high = sorted((abs(estimate.low), abs(estimate.high)))
    return replace(estimate, value=abs(estimate.value), low=0.0 if estimate.low < 0 < estimate.high else low, high=high)


def _or_else(*args: Any) -> Any:
    """COALESCE: replace an unknown estimate by the alternative, with an interval that holds both."""
    first, *others = [arg for arg in args if arg is not None]
    if not isinstance(first, Estimate) or not math.isnan(first.value) or not others:
        return first
    read = partial(_days, timed=first.timed) if first.dates else _number
    return _instead(first, float(read(others[0])))


def _unless(first: Any, other: Any) -> Any:
    """NULLIF: an estimate is unknown where its published value is a constant; NULL equals nothing."""
    if not isinstance(first, Estimate):
        return first
    value = _plain(first)
    alike = value is not None and other is not None and functions.compared(value, other) == 0
    return replace(first, value=math.nan, stderr=math.nan, noise=math.nan) if alike else first


def _instead(unknown: Estimate, other: float) -> Estimate:
    """Replace an unknown value by another; the error spans the possible range."""
    low, high = min(unknown.low, other), max(unknown.high, other)
    error = (high - low) / 4.0 if math.isfinite(high - low) else math.nan
    return replace(unknown, value=other, stderr=error, low=low, high=high, noise=error)


def _limit(choose: Callable[..., Any]) -> Callable[..., Any]:
    """GREATEST or LEAST of an estimate and constants."""

    def limited(*args: Any) -> Any:
        (estimate,) = [arg for arg in args if isinstance(arg, Estimate)]
        read = partial(_days, timed=estimate.timed) if estimate.dates else _number
        others = [read(arg) for arg in args if arg is not None and not isinstance(arg, Estimate)]
        if not others:
            return estimate
        found = replace(_mapped(estimate, lambda number: choose(number, *others)), real=None)
        return _instead(found, float(choose(others))) if math.isnan(estimate.value) else found  # NULL is passed over

    return limited


_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": _with_number(_shifted),
    "sub": _less,
    "mul": _with_number(Estimate.times),
    "div": lambda estimate, by: None if not by else estimate.times(1.0 / _number(by)),
    "neg": lambda estimate: estimate.times(-1.0),
    "abs": _absolute,
    "round": lambda estimate, decimals=0: _mapped(estimate, lambda x: functions.round_half_up(x, decimals)),
    "floor": lambda estimate: _mapped(estimate, math.floor),
    "ceil": lambda estimate: _mapped(estimate, math.ceil),
    "trunc": lambda estimate: _mapped(estimate, math.trunc),
    "to_integer": lambda estimate: _mapped(estimate, round),
    "to_number": lambda estimate: estimate,
    "coalesce": _or_else,
    "nullif": _unless,
    "greatest": _limit(max),
    "least": _limit(min),
}
_OF_DATES = ("coalesce", "nullif", "greatest", "least")


Row = list[Any]
Orders = Mapping[int, Mapping[Any, int]]  # for places whose values have an order of their own: that of the schema


def done(step: Step, rows: list[Row], orders: Orders) -> list[Row]:
    """Apply a step to the rows: filter, limit, sort, distinct or rank."""
    spend(len(rows) * sum(map(size, trees_of(step))), "a condition, rank or order on the rows of the answer")
    if isinstance(step, Keep):
        return [row for row in rows if _holds(work_out(step.condition, row))]
    if isinstance(step, Take):
        return rows[step.offset : None if step.limit is None else step.offset + step.limit]
    if isinstance(step, Sort):
        return _sorted(rows, step.rules, orders)
    if isinstance(step, Once):
        seen = {tuple(work_out(tree, row) for tree in step.by): row for row in reversed(rows)}
        return list(seen.values())[::-1]
    return _ranked(step, rows, orders)


def _holds(value: Any) -> bool:
    """Truth value of a condition: nonzero numbers are true, text and NULL are not."""
    value = value.value if isinstance(value, Estimate) else value
    return isinstance(value, int | float) and bool(value)


def _sorted(rows: list[Row], rules: tuple[Rule, ...], orders: Orders) -> list[Row]:
    """Sort rows by several keys with stable sorts, last key first; NULLs go last unless told otherwise."""
    for rule in reversed(rules):
        values = [(_value(rule, row, orders), row) for row in rows]
        valued = [pair for pair in values if pair[0] is not None]
        unknown = [row for value, row in values if value is None]
        try:
            valued.sort(key=lambda pair: pair[0], reverse=rule.descending)
        except TypeError:
            raise QueryError("ORDER BY has values of several types to compare; sort by one of them") from None
        ordered = [row for _, row in valued]
        rows = [*unknown, *ordered] if rule.nulls_first else [*ordered, *unknown]
    return rows


def _value(rule: Rule, row: Row, orders: Orders) -> Any:
    """Sort key of a row: a schema order where the values have one."""
    value = work_out(rule.by, row)
    if isinstance(value, Estimate):
        return None if math.isnan(value.value) else value.value
    if value is not None and isinstance(rule.by, Ref) and rule.by.place in orders:  # NULL has no place in any order
        return orders[rule.by.place].get(value)
    return value


def _ranked(step: Rank, rows: list[Row], orders: Orders) -> list[Row]:
    """Append the rank within each partition to every row; the order of rows is kept."""
    ranks: dict[int, int] = {}
    parts: dict[Any, list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(work_out(tree, row) for tree in step.within), []).append(row)
    for part in parts.values():
        rank = dense = 0
        before: Any = None
        for number, row in enumerate(_sorted(part, step.rules, orders), 1):
            values = [_value(rule, row, orders) for rule in step.rules]
            if values != before:
                rank, dense, before = number, dense + 1, values
            ranks[id(row)] = {"rank": rank, "denserank": dense}.get(step.kind, number)
    return [[*row, ranks[id(row)]] for row in rows]
