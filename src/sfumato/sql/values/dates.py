"""Parts of dates, and dates truncated to the start of a month, quarter or year, as in DuckDB."""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import Any

from sfumato.domain.grid import EPOCH
from sfumato.errors import QueryError

_HOURS = "the hour is asked of something that is known by days; it takes an attribute that is known by hours"

PARTS: dict[str, Callable[[Any], int | str]] = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar()[1],
    "day": lambda day: day.day,
    "dayofweek": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "dayofyear": lambda day: day.timetuple().tm_yday,
    "decade": lambda day: day.year // 10,
    "isoyear": lambda day: day.isocalendar()[0],
    "century": lambda day: (day.year + 99) // 100,
    "hour": lambda day: day.hour,
    "epoch": lambda day: (as_date(day) - EPOCH).days * 86_400 + (day.hour * 3_600 if isinstance(day, datetime) else 0),
    "monthname": lambda day: day.strftime("%B"),
    "dayname": lambda day: day.strftime("%A"),
}
_OTHER_NAMES = {
    "dow": "dayofweek",
    "weekday": "dayofweek",
    "dayofmonth": "day",
    "doy": "dayofyear",
    "weekofyear": "week",
    **{f"{name}s": name for name in ("year", "quarter", "month", "week", "day", "hour")},
}
_STARTS = {
    "year": lambda day: day.replace(month=1, day=1),
    "quarter": lambda day: day.replace(month=(day.month - 1) // 3 * 3 + 1, day=1),
    "month": lambda day: day.replace(day=1),
    "week": lambda day: day - timedelta(days=day.weekday()),
    "day": lambda day: day,
    "hour": lambda day: day,  # of times alone
    "decade": lambda day: day.replace(year=day.year // 10 * 10, month=1, day=1),
}


def part_name(word: str) -> str | None:
    """The part of a date that a word means, or None where days do not tell it."""
    name = word.lower()
    name = _OTHER_NAMES.get(name, name)
    return name if name in PARTS else None


def unit_name(word: str) -> str | None:
    """The unit to which a date can be cut down, or None where days do not tell it."""
    name = _OTHER_NAMES.get(word.lower(), word.lower())
    return name if name in _STARTS else None


def part(name: str, value: object) -> int | str:
    """One part of a date."""
    value = _of_hour(value)
    if name == "hour" and not isinstance(value, datetime):
        raise QueryError(_HOURS)
    return PARTS[name](value if isinstance(value, datetime) else as_date(value))


def start(unit: str, value: object) -> date:
    """The first day of the month, quarter, ... that a date lies in.

    >>> start("day", "2024-05-17T13"), start("month", date(2024, 5, 17))
    (datetime.date(2024, 5, 17), datetime.date(2024, 5, 1))
    """
    value = _of_hour(value)
    if unit == "hour":
        if not isinstance(value, datetime):
            raise QueryError(_HOURS)
        return value.replace(minute=0)
    found: date = _STARTS[unit](as_date(value))
    return found


def moved(unit: str, value: object, steps: object) -> date:
    """The day some days, weeks, months or years after another; the last of a month where it has no such day.

    Hours and less make a time of a day.

    >>> moved("month", "2024-01-31", 1), moved("day", "2024-03-01", -1)
    (datetime.date(2024, 2, 29), datetime.date(2024, 2, 29))
    """
    day, many = value if isinstance(value, datetime) else as_date(value), _whole(steps)
    try:
        if unit in _SECONDS:
            return as_moment(day) + timedelta(seconds=many * _SECONDS[unit])
        if unit in ("day", "week"):
            return day + timedelta(days=many * (7 if unit == "week" else 1))
        months = day.year * 12 + day.month - 1 + many * _MONTHS[unit]
        first = day.replace(year=months // 12, month=months % 12 + 1, day=1)
    except (ValueError, OverflowError):
        raise QueryError(f"{many} times a {unit} from {value} lies beyond the years 1 to 9999") from None
    return first.replace(day=min(day.day, monthrange(first.year, first.month)[1]))


_HOUR = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}")
_SECONDS = {"hour": 3_600, "minute": 60, "second": 1}
_MONTHS = {"month": 1, "quarter": 3, "year": 12, "decade": 120}
STEPS = ("day", "week", *_MONTHS, *_SECONDS)


def step_name(word: str) -> str | None:
    """The unit by which a date can be moved, or None if it is none."""
    name = word.lower()
    name = name if name in STEPS else name.removesuffix("s")
    return name if name in STEPS else None


def _whole(steps: object) -> int:
    """The number of an interval."""
    text = str(steps).strip()
    if not text.removeprefix("-").isdecimal():
        raise QueryError(f"{steps} is not a whole number, and dates are moved by such")
    return int(text[:13])


def between(unit: str, first: object, last: object) -> int:
    """Difference of two dates as DuckDB's DATE_DIFF: whole weeks, and starts of any other unit between them.

    >>> between("month", date(2024, 5, 31), date(2024, 6, 1)), between("week", date(2024, 5, 31), date(2024, 6, 6))
    (1, 0)
    """
    if unit == "hour":
        return round((start("hour", last) - start("hour", first)).total_seconds()) // 3_600
    a, b = as_date(first), as_date(last)
    if unit in ("day", "week"):
        return int((b - a).days / (7 if unit == "week" else 1))
    return (b.year * 12 + b.month - 1) // _MONTHS[unit] - (a.year * 12 + a.month - 1) // _MONTHS[unit]


def apart(later: object, earlier: object) -> int:
    """Days between two days, one subtracted from the other."""
    if isinstance(later, datetime) or isinstance(earlier, datetime):
        raise QueryError("two times are subtracted; write DATE_DIFF('hour', first, last), or CAST both to DATE")
    return (as_date(later) - as_date(earlier)).days


def end_of_month(value: object) -> date:
    day = as_date(value)
    return day.replace(day=monthrange(day.year, day.month)[1])


def as_date(value: object) -> date:
    """A date, also from its text; the day of a time."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    text = without_zone(str(value))
    try:
        if has_time(text):
            raise QueryError(f"{text!r} has a time of day; inside an expression compare dates with days")
        return date.fromisoformat(text[:10])
    except ValueError:
        raise QueryError(f"{text!r} is not a date; write it as '2024-12-31'") from None


def _of_hour(value: object) -> object:
    """The time that a key of hours shows, as subqueries have it; any other value as it is."""
    return as_moment(value) if isinstance(value, str) and _HOUR.fullmatch(value) else value


def as_moment(value: object) -> datetime:
    """A time, also from its text; a day begins at midnight."""
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(without_zone(str(value)))
    except ValueError:
        raise QueryError(f"{str(value)!r} is not a time; write it as '2024-12-31 12:00'") from None
    if found.replace(minute=0, second=0, microsecond=0) != found:
        raise QueryError(f"{str(value)!r} lies within an hour; inside an expression compare times with full hours")
    return found


_OF_GREENWICH = ("Z", "z", "+00:00", "+0000", "+00", "-00:00", "-00", " UTC")


def without_zone(text: str) -> str:
    """A time of Greenwich without the name of its zone: a table's times have none. Other zones stay, and are refused.

    >>> without_zone("2024-01-01T00:00:00Z"), without_zone("2024-01-01 12:00+02:00")
    ('2024-01-01T00:00:00', '2024-01-01 12:00+02:00')
    """
    found = next((zone for zone in _OF_GREENWICH if len(text) > 10 and text.endswith(zone)), None)
    return text if found is None or ":" not in text else text[: -len(found)]


def has_time(text: str) -> bool:
    """Whether a text names a time of day other than midnight.

    >>> has_time("2024-06-01 12:00"), has_time("2024-06-01 00:00:00"), has_time("2024-06-01")
    (True, False, False)
    """
    return any(character in "123456789" for character in text[10:])
