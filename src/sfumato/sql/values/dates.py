"""Parts of dates, and dates truncated to the start of a month, quarter or year, as in DuckDB."""

from __future__ import annotations

from calendar import monthrange
from datetime import date, datetime, timedelta

from sfumato.errors import QueryError

_HOURS = "the hour is asked of something that is known by days; it takes an attribute that is known by hours"

PARTS = {
    "year": lambda day: day.year,
    "quarter": lambda day: (day.month + 2) // 3,
    "month": lambda day: day.month,
    "week": lambda day: day.isocalendar()[1],
    "day": lambda day: day.day,
    "dayofweek": lambda day: day.isoweekday() % 7,
    "isodow": lambda day: day.isoweekday(),
    "dayofyear": lambda day: day.timetuple().tm_yday,
    "decade": lambda day: day.year // 10,
    "hour": lambda day: day.hour,
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
    if name == "hour" and not isinstance(value, datetime):
        raise QueryError(_HOURS)
    found: int | str = PARTS[name](value if isinstance(value, datetime) else as_date(value))
    return found


def start(unit: str, value: object) -> date:
    """The first day of the month, quarter, ... that a date lies in."""
    if unit == "hour":
        if not isinstance(value, datetime):
            raise QueryError(_HOURS)
        return value.replace(minute=0)
    found: date = _STARTS[unit](as_date(value))
    return found


def moved(text: str, steps: int, unit: str) -> date | None:
    """The day some days, weeks, months or years after another; the last of a month where it has no such day.

    >>> moved("2024-01-31", 1, "month"), moved("2024-03-01", -1, "DAYS")
    (datetime.date(2024, 2, 29), datetime.date(2024, 2, 29))
    """
    day, name = as_date(text), unit_name(unit)
    try:
        if name in ("day", "week"):
            return day + timedelta(days=steps * (7 if name == "week" else 1))
        if name not in ("month", "quarter", "year"):
            return None
        months = day.year * 12 + day.month - 1 + steps * {"month": 1, "quarter": 3, "year": 12}[name]
        first = date(months // 12, months % 12 + 1, 1)
    except (ValueError, OverflowError):
        raise QueryError(f"{steps} times a {name} from {text} lies beyond the years 1 to 9999") from None
    return first.replace(day=min(day.day, monthrange(first.year, first.month)[1]))


def as_date(value: object) -> date:
    """A date, also from its text; the day of a time."""
    if isinstance(value, datetime):
        return value.date()
    if isinstance(value, date):
        return value
    text = str(value)
    try:
        if has_time(text):
            raise QueryError(f"{text!r} has a time of day; inside an expression compare dates with days")
        return date.fromisoformat(text[:10])
    except ValueError:
        raise QueryError(f"{text!r} is not a date; write it as '2024-12-31'") from None


def as_moment(value: object) -> datetime:
    """A time, also from its text; a day begins at midnight."""
    if isinstance(value, datetime):
        return value
    try:
        found = datetime.fromisoformat(str(value))
    except ValueError:
        raise QueryError(f"{str(value)!r} is not a time; write it as '2024-12-31 12:00'") from None
    if found.replace(minute=0, second=0, microsecond=0) != found:
        raise QueryError(f"{str(value)!r} lies within an hour; inside an expression compare times with full hours")
    return found


def has_time(text: str) -> bool:
    """Whether a text names a time of day other than midnight.

    >>> has_time("2024-06-01 12:00"), has_time("2024-06-01 00:00:00"), has_time("2024-06-01")
    (True, False, False)
    """
    return any(character in "123456789" for character in text[10:])
