"""SQL expressions and row operations on estimates: arithmetic with constants, and rounding.

A monotone function maps the ends of an interval to the ends of its image. Conditions are decided on the published
value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta
from functools import partial
from typing import Any

from sfumato.answers.results import Estimate
from sfumato.domain import EPOCH
from sfumato.errors import QueryError
from sfumato.sql.table import flatten
from sfumato.sql.table.flatten import Orders
from sfumato.sql.table.plan import Step
from sfumato.sql.values import functions
from sfumato.sql.values.dates import as_date, as_moment
from sfumato.sql.values.tree import ERROR, Tree, evaluate

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
    if name.startswith(ERROR):
        return _error(args[0], name.partition(":")[2])
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


def _error(estimate: Estimate, kind: str) -> Any:
    """Standard error or interval end of an estimate, as a plain value; NULL where it is unbounded or unknown."""
    number: float = getattr(estimate, kind)
    if not math.isfinite(number):
        return None
    return functions.plain(number if kind == "stderr" else _plain(replace(estimate, value=number)))


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


def done(step: Step, rows: list[Row], orders: Orders) -> list[Row]:
    """Apply a step to the rows of an answer: filter, limit, sort, distinct or rank."""
    return flatten.done(step, rows, orders, _comparable)


def _comparable(tree: Tree, row: Any) -> Any:
    """Published value of an expression on a row; None where it is NULL or unknown."""
    value = work_out(tree, row)
    if isinstance(value, Estimate):
        return None if math.isnan(value.value) else value.value
    return value
