"""SQL functions and operators on plain values, with NULL as None; names are those of `translate.py`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import date, datetime
from functools import cmp_to_key, lru_cache
from typing import Any

from sfumato.effort import MOST_DIGITS, spend, text_of_at_most
from sfumato.errors import QueryError
from sfumato.sql.values import dates
from sfumato.sql.values.tree import ERROR

MOST_DECIMALS = 308  # before and behind the decimal point of a floating-point number


def call(name: str, args: Sequence[Any]) -> Any:
    """The value of a function. NULL in gives NULL out, except where SQL says otherwise."""
    word, _, detail = name.partition(":")
    try:
        if name in _WITH_NULLS:
            return plain(_WITH_NULLS[name](*args))
        if any(arg is None for arg in args):
            return None
        if word == ERROR:  # of a constant; that of an estimate is in table_values.py
            return 0 if detail == "stderr" else args[0]
        if word in _OF_UNITS:
            return _OF_UNITS[word](detail, *args)
        return plain(_STRICT[name](*args))
    except (TypeError, ValueError, OverflowError, ZeroDivisionError):
        raise not_together(args) from None


def not_together(args: Sequence[Any]) -> QueryError:
    """The refusal of a function whose arguments do not fit it, or whose value no number can hold."""
    return QueryError(f"{' and '.join(map(_shown, args))} cannot be put together like this")


def plain(value: Any) -> Any:
    """A whole number as int, so that FLOOR(age / 10) reads 3 and not 3.0."""
    if isinstance(value, float):
        if math.isnan(value):
            return None
        if math.isinf(value):
            raise QueryError("the query works out a number that is too large; use smaller constants")
        return int(value) if value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, int) and abs(value) >= _MOST_WHOLE:
        raise QueryError(f"a whole number in the query has more than {MOST_DIGITS} digits; CAST it to DOUBLE")
    return value


def compared(left: Any, right: Any) -> int:
    """-1, 0 or 1, as in SQL: text beside a number or a date is read as one."""
    if isinstance(left, datetime) or isinstance(right, datetime):
        left, right = dates.as_moment(left), dates.as_moment(right)
    elif isinstance(left, date) or isinstance(right, date):
        left, right = dates.as_date(left), dates.as_date(right)
    elif isinstance(left, str) != isinstance(right, str):
        left, right = _number(left), _number(right)
    return int(left > right) - int(left < right)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)


def _number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        raise QueryError(f"{value!r} is compared with a number; compare numbers with numbers") from None


def _divided(left: float, right: float) -> float | None:
    return left / right if right else None


def round_half_up(value: float, decimals: int = 0) -> float:
    """ROUND: halves go away from zero, as in SQL and not as in Python.

    >>> round_half_up(2.5), round_half_up(-0.25, 1), round_half_up(7.5, 400), round_half_up(7.5, -400)
    (3.0, -0.3, 7.5, 0.0)
    """
    if decimals < -MOST_DECIMALS:
        return 0.0
    scale = 10.0 ** int(min(decimals, MOST_DECIMALS))
    scaled = abs(value) * scale
    if not scaled < 2.0**52:  # no fraction is left to round
        return float(value)
    return math.copysign(math.floor(scaled + 0.5) / scale, value)


def like(text: Any, pattern: Any, *, ignore_case: bool = False) -> bool:
    """Whether a text matches a pattern of LIKE.

    What stands between two % is searched for from left to right, each piece once. Where the pattern has _ as well, its
    automaton walks once over the text, all of its states at the same time as the bits of a number (Baeza-Yates and
    Gonnet, 1992): bit i is set where the first i signs of the pattern match what was read so far.

    >>> [like("anna", pattern) for pattern in ("a%a", "_nn_", "a%b")]
    [True, True, False]
    """
    text, pattern = _text(text), str(pattern)
    if ignore_case:
        text, pattern = _small(text), _small(pattern)
    if "_" not in pattern:
        spend(1 + (len(text) + len(pattern)) // 64, "LIKE")
        return _has_pieces(text, pattern.split("%"))
    signs, any_sign, stays, last = (_short_automaton if len(pattern) <= 128 else _automaton)(pattern)
    spend(len(text) * (1 + last // 512), "LIKE")
    states = 1
    for sign in text:
        states = (states & signs.get(sign, any_sign)) << 1 | states & stays
        if not states:
            return False
    return bool(states >> last)


def _has_pieces(text: str, pieces: list[str]) -> bool:
    """Whether pieces follow each other in a text, the first at its start and the last at its end."""
    first, last = pieces[0], pieces[-1]
    if len(pieces) == 1:
        return text == first
    if not (text.startswith(first) and text.endswith(last)):
        return False
    place, end = len(first), len(text) - len(last)
    for piece in pieces[1:-1]:
        found = text.find(piece, place, end)
        if found < 0:
            return False
        place = found + len(piece)
    return place <= end


@lru_cache(maxsize=1)  # of a long pattern it is large
def _automaton(pattern: str) -> tuple[dict[str, int], int, int, int]:
    """Bit masks of states that a sign leads on from, by sign; of any other sign; of those that % keeps; last state."""
    spend(len(pattern), "LIKE")
    of_sign: dict[str, list[int]] = {}
    stays, last = bytearray(len(pattern) // 8 + 1), 0
    for mark in pattern:
        if mark == "%":
            stays[last >> 3] |= 1 << (last & 7)
        else:
            of_sign.setdefault(mark, []).append(last)
            last += 1
    any_sign = _bits(of_sign.pop("_", []), last)
    signs = {mark: _bits(places, last) | any_sign for mark, places in of_sign.items()}
    return signs, any_sign, int.from_bytes(stays, "little"), last


_short_automaton = lru_cache(maxsize=64)(_automaton.__wrapped__)


def _bits(places: list[int], length: int) -> int:
    found = bytearray(length // 8 + 1)
    for place in places:
        found[place >> 3] |= 1 << (place & 7)
    return int.from_bytes(found, "little")


def _small(text: str) -> str:
    """Lower-case a text character by character, so that its length stays the same."""
    small = text.lower()
    return small if len(small) == len(text) else "".join(sign.lower()[0] for sign in text)


def _joined(*parts: Any) -> str:
    texts = [_text(part) for part in parts if part is not None]
    text_of_at_most(sum(map(len, texts)))
    return "".join(texts)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return value.isoformat() if isinstance(value, date) else str(value)


def _in_list(value: Any, *listed: Any) -> bool | None:
    if value is None:
        return None
    known = [one for one in listed if one is not None]
    return True if any(compared(value, one) == 0 for one in known) else (None if len(known) < len(listed) else False)


def _case(*args: Any) -> Any:
    """CASE of (condition, value, condition, value, ..., otherwise): value of the first condition that holds."""
    for condition, value in zip(args[:-1:2], args[1:-1:2], strict=True):
        if condition is not None and condition:
            return value
    return args[-1]


def _and(*args: Any) -> bool | None:
    if any(arg is not None and not arg for arg in args):
        return False
    return None if any(arg is None for arg in args) else True


def _or(*args: Any) -> bool | None:
    if any(args):
        return True
    return None if any(arg is None for arg in args) else False


def _first(*args: Any) -> Any:
    return next((arg for arg in args if arg is not None), None)


def _extreme(choose: Callable[..., Any]) -> Callable[..., Any]:
    """GREATEST and LEAST, which pass over NULL in DuckDB; text beside a number or a date is read as one."""
    return lambda *args: choose((arg for arg in args if arg is not None), default=None, key=cmp_to_key(compared))


def _piece(text: Any, start: int, length: int | None = None) -> str:
    begin = max(int(start) - 1, 0)
    return _text(text)[begin : None if length is None else begin + int(length)]


def _numbers(*args: Any) -> bool:
    """True; TypeError for a text in a sum or product, which Python would join or repeat thousands of times."""
    if any(isinstance(arg, str) for arg in args):
        raise TypeError("a text in arithmetic")
    return True


def _to_boolean(value: Any) -> bool:
    return str(value).lower() in ("true", "t", "1", "yes") if isinstance(value, str) else bool(value)


def _sum(a: Any, b: Any) -> Any:
    """A sum of numbers, or a day and a number of days."""
    if isinstance(a, date) or isinstance(b, date):
        day, days = (a, b) if isinstance(a, date) else (b, a)
        return dates.moved("day", day, days)
    return _numbers(a, b) and a + b


def _difference(a: Any, b: Any) -> Any:
    """A difference of numbers, of two days, or of a day and a number of days."""
    if not isinstance(a, date) and not isinstance(b, date):
        return a - b
    if isinstance(a, date) and isinstance(b, int) and not isinstance(b, bool):
        return dates.moved("day", a, -b)
    return dates.apart(a, b)


def _part_of_text(text: Any, separator: str, number: float) -> str:
    """SPLIT_PART: one piece of a text, counted from 1, or from the end by a negative number."""
    pieces = _text(text).split(separator) if separator else [_text(text)]
    place = int(number) - 1 if number > 0 else len(pieces) + int(number)
    return pieces[place] if 0 <= place < len(pieces) else ""


def _replaced(text: Any, old: str, new: str) -> str:
    before: str = _text(text)
    text_of_at_most(len(before) + before.count(old) * len(new) if old else len(before))
    return before.replace(old, new) if old else before


_OF_UNITS: dict[str, Callable[..., Any]] = {
    "part": dates.part,
    "start": dates.start,
    "moved": dates.moved,
    "diff": dates.between,
}
_MOST_WHOLE = 10**MOST_DIGITS
_WITH_NULLS: dict[str, Callable[..., Any]] = {
    "and": _and,
    "or": _or,
    "case": _case,
    "coalesce": _first,
    "in": _in_list,
    "is_null": lambda value: value is None,
    "is_true": lambda value: value is not None and bool(value),
    "greatest": _extreme(max),
    "least": _extreme(min),
    "concat": _joined,
    "nullif": lambda a, b: None if a is not None and b is not None and compared(a, b) == 0 else a,
    "same": lambda a, b: (a is None) == (b is None) and (a is None or compared(a, b) == 0),
}
_STRICT: dict[str, Callable[..., Any]] = {
    "add": _sum,
    "sub": _difference,
    "mul": lambda a, b: _numbers(a, b) and a * b,
    "div": _divided,
    "mod": lambda a, b: math.fmod(a, b) if b else None,
    "intdiv": lambda a, b: math.trunc(a / b) if b else None,
    "pow": lambda a, b: float(a) ** b,
    "neg": lambda a: -a,
    "abs": abs,
    "floor": math.floor,
    "ceil": math.ceil,
    "trunc": math.trunc,
    "round": round_half_up,
    "to_integer": lambda value: round(float(value)),
    "to_number": float,
    "to_text": _text,
    "to_date": dates.as_date,
    "to_moment": dates.as_moment,
    "formatted": dates.formatted,
    "as_characters": dates.as_characters,
    "parsed": dates.parsed,
    "read_characters": dates.read_characters,
    "end_of_month": dates.end_of_month,
    "day_of": lambda year, month, day: date(int(year), int(month), int(day)),
    "to_boolean": _to_boolean,
    "not": lambda a: not a,
    "eq": lambda a, b: compared(a, b) == 0,
    "neq": lambda a, b: compared(a, b) != 0,
    "lt": lambda a, b: compared(a, b) < 0,
    "lte": lambda a, b: compared(a, b) <= 0,
    "gt": lambda a, b: compared(a, b) > 0,
    "gte": lambda a, b: compared(a, b) >= 0,
    "between": lambda a, low, high: compared(low, a) <= 0 and compared(a, high) <= 0,
    "lower": lambda text: _text(text).lower(),
    "upper": lambda text: _text(text).upper(),
    "trim": lambda text: _text(text).strip(" "),
    "ltrim": lambda text: _text(text).lstrip(" "),
    "rtrim": lambda text: _text(text).rstrip(" "),
    "replace": _replaced,
    "split_part": _part_of_text,
    "position": lambda text, part: _text(text).find(part) + 1,
    "sign": lambda a: (a > 0) - (a < 0),
    "length": lambda text: len(_text(text)),
    "left": lambda text, count: _text(text)[: int(count)],
    "right": lambda text, count: _text(text)[-int(count) :] if count else "",
    "substring": _piece,
    "joined": _joined,
    "like": like,
    "ilike": lambda text, pattern: like(text, pattern, ignore_case=True),
    "startswith": lambda text, start: _text(text).startswith(start),
    "endswith": lambda text, end: _text(text).endswith(end),
    "contains": lambda text, part: part in _text(text),
}
