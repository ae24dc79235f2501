"""Parts of dates, and dates truncated to the start of a month, quarter or year, as in DuckDB.

Dates as text and from text, by the formats of STRFTIME and STRPTIME and by those of TO_CHAR and TO_DATE.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import lru_cache
from typing import Any

from sfumato.domain.grid import EPOCH
from sfumato.effort import text_of_at_most
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
    """Field of a date (year, month, dayofweek, ...), by name."""
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
    """Parse the number of units of an interval, which must be whole."""
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
    """Number of days from one date to a later one."""
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
    """Parse the label of an hour, as keys of subqueries have it, to a time; return any other value as it is."""
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


# -- formats

_NAMES_OF_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_CODES: dict[str, Callable[[date], str]] = {
    "Y": lambda day: f"{day.year:04}",
    "y": lambda day: f"{day.year % 100:02}",
    "m": lambda day: f"{day.month:02}",
    "d": lambda day: f"{day.day:02}",
    "j": lambda day: f"{day.timetuple().tm_yday:03}",
    "b": lambda day: _NAMES_OF_MONTHS[day.month - 1][:3],
    "B": lambda day: _NAMES_OF_MONTHS[day.month - 1],
    "a": lambda day: _DAYS[day.weekday()][:3],
    "A": lambda day: _DAYS[day.weekday()],
    "u": lambda day: str(day.isoweekday()),
    "w": lambda day: str(day.isoweekday() % 7),
    "V": lambda day: f"{day.isocalendar()[1]:02}",
    "G": lambda day: f"{day.isocalendar()[0]:04}",
    "-m": lambda day: str(day.month),
    "-d": lambda day: str(day.day),
    "x": lambda day: day.strftime("%Y-%m-%d"),
    "F": lambda day: day.strftime("%Y-%m-%d"),
    "H": lambda day: f"{day.hour:02}" if isinstance(day, datetime) else _no_hour(),
    "Q": lambda day: str((day.month + 2) // 3),  # not of STRFTIME, but of TO_CHAR
    "%": lambda _day: "%",
}
_READ = frozenset("YymdbBjHMS%")  # codes of STRPTIME
_PERCENT = re.compile(r"%(-?.)", re.DOTALL)

# What TO_CHAR and TO_DATE write for a code. Names of days and months are not padded with blanks, with FM or without.
_WORDS = {
    **{"YYYY": "%Y", "IYYY": "%G", "YY": "%y", "Month": "%B", "Mon": "%b", "MM": "%m", "DDD": "%j", "DD": "%d"},
    **{"Day": "%A", "Dy": "%a", "HH24": "%H", "IW": "%V", "ID": "%u", "Q": "%Q", "MI": "%M", "SS": "%S"},
}
_LONGEST_FIRST = "|".join(sorted(_WORDS, key=len, reverse=True))
_TOKENS = re.compile(rf'"([^"]*)"|(FM)|({_LONGEST_FIRST})|([A-Za-z]+)|(.)', re.DOTALL)


def _no_hour() -> str:
    raise QueryError(
        "the hour is asked of something that is known by days; it takes an attribute that is known by hours"
    )


def formatted(value: object, form: object) -> str:
    """A date as text, by a format of STRFTIME.

    >>> formatted(date(2024, 3, 1), "%Y-%m, %b"), formatted(date(2024, 3, 1), "%-d.%-m.")
    ('2024-03, Mar', '1.3.')
    """
    if isinstance(form, date):  # some write the format first
        value, form = form, value
    text_of_at_most(len(str(form)) * 10)
    day = value if isinstance(value, datetime) else as_date(value)
    return _PERCENT.sub(lambda code: _code(code[1])(day), str(form))


def _code(code: str) -> Callable[[date], str]:
    if code not in _CODES:
        known = ", ".join(f"%{one}" for one in _CODES if one not in "Q%")
        raise QueryError(f"%{code} is not known in a format of dates, and minutes are not; known are {known}")
    return _CODES[code]


def as_characters(value: object, form: object) -> str:
    """A date as text, by a format of TO_CHAR.

    >>> as_characters(date(2024, 3, 1), "YYYY-MM"), as_characters(date(2024, 3, 1), 'YYYY"-Q"Q')
    ('2024-03', '2024-Q1')
    """
    if not isinstance(value, date):
        raise QueryError("TO_CHAR is known of dates; numbers are written by ROUND")
    return formatted(value, _percents(str(form)))


@lru_cache(maxsize=64)
def _percents(form: str) -> str:
    """The format of STRFTIME that says what one of TO_CHAR does."""
    pieces = []
    for quote, _filled, word, letters, sign in _TOKENS.findall(form):
        if letters:
            raise QueryError(f"{letters} is not known in a format of TO_CHAR; known are {', '.join(_WORDS)}")
        pieces.append(_WORDS[word] if word else (quote or sign).replace("%", "%%"))
    return "".join(pieces)


def parsed(text: object, form: object) -> date:
    """A day, or a time where the format has hours, from its text by a format of STRPTIME.

    >>> parsed("01.03.2024", "%d.%m.%Y")
    datetime.date(2024, 3, 1)
    """
    codes = _PERCENT.findall(str(form))
    if not {*codes} <= _READ or len(codes) > len(_READ):
        raise QueryError(f"{form!r} is not known as a format to read dates by; write '%Y-%m-%d'")
    try:
        found = datetime.strptime(str(text), str(form))
    except (ValueError, re.error):
        raise QueryError(f"{text!r} is not a date of the format {form!r}") from None
    return found if {*codes} & {"H", "M", "S"} else found.date()


def read_characters(text: object, form: object = "YYYY-MM-DD") -> date:
    """A day from its text, by a format of TO_DATE."""
    found = parsed(text, _percents(str(form)))
    return found.date() if isinstance(found, datetime) else found
