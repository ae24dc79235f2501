"""Expressions of `recode` in plain Python, value by value: what an engine must make of one row."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from sfumato.schema.attributes.lists import BLANKS, LOWER, UPPER
from sfumato.schema.recode import LARGEST, LONGEST_TEXT, SMALLEST, Expression, Kind

Leaf = Callable[[str, Kind], Any]  # the value of a column of the row, as one of a kind; None if it has none


def evaluate(expression: Expression, leaf: Leaf) -> Any:
    """The value of an expression for one row; None if it is missing."""
    op = expression.op
    if op == "column":
        kind = expression.kind or "text"
        return _guarded(kind, leaf(expression.value, kind))
    if op in ("literal", "null"):
        return expression.value
    values = [evaluate(part, leaf) for part in expression.parts]
    if op in _WITH_MISSING:
        return _WITH_MISSING[op](values)
    if any(value is None for value in values):
        return None
    if expression.parts[0].kind == "text" and op in _TESTS:
        values = [value.encode() for value in values]
    return _TESTS[op](values) if op in _TESTS else _OTHERS[op](values, expression.value)


def _guarded(kind: Kind, value: Any) -> Any:
    if value is None or kind == "boolean":
        return value
    if kind == "number":
        return 0.0 if abs(value) < SMALLEST else min(max(value, -LARGEST), LARGEST)
    return value[:LONGEST_TEXT] if kind == "text" else value


def _case(values: Sequence[Any]) -> Any:
    return next(result for test, result in zip(values[::2], values[1::2], strict=True) if test)


def _in(values: Sequence[Any]) -> bool | None:
    if values[0] is None:
        return None
    if any(value is not None and value == values[0] for value in values[1:]):
        return True
    return None if None in values else False


def _and(values: Sequence[Any]) -> bool | None:
    return False if False in values else None if None in values else True


def _or(values: Sequence[Any]) -> bool | None:
    return True if True in values else None if None in values else False


def _between(values: Sequence[Any]) -> bool | None:
    value, low, high = values
    tests = [None if None in (value, low) else value >= low, None if None in (value, high) else value <= high]
    return _and(tests)


def _nullif(values: Sequence[Any]) -> Any:
    return None if values[0] is not None and values[0] == values[1] else values[0]


_WITH_MISSING: dict[str, Callable[[Sequence[Any]], Any]] = {
    **{"case": _case, "in": _in, "and": _and, "or": _or, "between": _between, "nullif": _nullif},
    "coalesce": lambda values: next((value for value in values if value is not None), None),
    "least": lambda values: min((value for value in values if value is not None), default=None),
    "greatest": lambda values: max((value for value in values if value is not None), default=None),
    "is null": lambda values: values[0] is None,
}
_TESTS: dict[str, Callable[[Sequence[Any]], bool]] = {
    "=": lambda values: values[0] == values[1],
    "<>": lambda values: values[0] != values[1],
    "<": lambda values: values[0] < values[1],
    "<=": lambda values: values[0] <= values[1],
    ">": lambda values: values[0] > values[1],
    ">=": lambda values: values[0] >= values[1],
}


def _like(values: Sequence[str], pattern: str) -> bool:
    parts = (".*" if one == "%" else "." if one == "_" else re.escape(one) for one in pattern)
    return re.fullmatch("".join(parts), values[0], re.DOTALL) is not None


def _has_word(values: Sequence[str], words: Sequence[str]) -> bool:
    small = values[0].translate(str.maketrans(UPPER, LOWER))
    bare = f" {''.join(one if one.isalnum() or not one.isascii() else ' ' for one in small)} "
    return any(word.strip("%") in small if word.startswith("%") else f" {word} " in bare for word in words)


def _extract(values: Sequence[datetime], unit: str) -> float:
    time = values[0]
    found = {
        **{"hour": time.hour, "minute": time.minute, "day": time.day, "month": time.month, "year": time.year},
        **{"isodow": time.isoweekday(), "dow": time.isoweekday() % 7, "week": time.isocalendar().week},
        "quarter": (time.month + 2) // 3,
    }
    return float(found[unit])


def _trunc(values: Sequence[datetime], unit: str) -> date:
    day = values[0].date()
    if unit == "week":
        return day - timedelta(days=day.weekday())
    month = {"year": 1, "quarter": day.month - (day.month - 1) % 3}.get(unit, day.month)
    return day if unit == "day" else date(day.year, month, 1)


def _diff(values: Sequence[date], unit: str) -> float:
    first, last = values
    months = 12 * (last.year - first.year) + last.month - first.month
    return float({"day": (last - first).days, "month": months, "year": last.year - first.year}[unit])


def _age(values: Sequence[date], _: Any) -> float:
    born, at = values
    return float(at.year - born.year - ((at.month, at.day) < (born.month, born.day)))


def _number_text(values: Sequence[float], _: Any) -> str | None:
    whole = values[0].is_integer() and abs(values[0]) < 2.0**63
    return str(int(values[0])) if whole else None


_OTHERS: dict[str, Callable[[Sequence[Any], Any], Any]] = {
    "+": lambda values, _: values[0] + values[1],
    "-": lambda values, _: values[0] - values[1],
    "*": lambda values, _: values[0] * values[1],
    "/": lambda values, _: None if values[1] == 0 else values[0] / values[1],
    "neg": lambda values, _: 0.0 - values[0],
    "not": lambda values, _: not values[0],
    "abs": lambda values, _: abs(values[0]),
    "floor": lambda values, _: float(math.floor(values[0])),
    "ceil": lambda values, _: float(math.ceil(values[0])),
    "round": lambda values, digits: math.floor(values[0] * float(10**digits) + 0.5) / float(10**digits),
    "lower": lambda values, _: values[0].translate(str.maketrans(UPPER, LOWER)),
    "upper": lambda values, _: values[0].translate(str.maketrans(LOWER, UPPER)),
    "trim": lambda values, _: values[0].strip(BLANKS),
    "length": lambda values, _: float(len(values[0])),
    "substr": lambda values, span: values[0][span[0] - 1 : span[0] - 1 + span[1]],
    "||": lambda values, _: values[0] + values[1],
    "to date": lambda values, _: values[0].date(),
    "to time": lambda values, _: datetime(values[0].year, values[0].month, values[0].day),
    **{"like": _like, "has word": _has_word, "extract": _extract, "trunc": _trunc, "diff": _diff, "age": _age},
    "number text": _number_text,
}
