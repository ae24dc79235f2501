"""Dates as text and from text, by the formats of STRFTIME and STRPTIME and by those of TO_CHAR and TO_DATE."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from functools import lru_cache

from sfumato.effort import text_of_at_most
from sfumato.errors import QueryError
from sfumato.sql.values.dates import as_date

_MONTHS = (
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
    "b": lambda day: _MONTHS[day.month - 1][:3],
    "B": lambda day: _MONTHS[day.month - 1],
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
