"""`Series`: a table that is published again for every period, and whose presence in it is hidden.

Three promises, from the weakest to the strongest. "person in a month": what one month says about a person is hidden;
budgets of different months concern different units. "person in at most 6 months": a person is counted in at most that
many periods, in whichever come first. "person for ever": a person may be in all planned periods, whose budgets add up.
"""

from __future__ import annotations

import re
from calendar import monthrange
from datetime import date, timedelta
from typing import Annotated, Literal

from pydantic import PlainValidator, model_validator

from sfumato.errors import SchemaError
from sfumato.frozen import dataclass
from sfumato.schema.parts import ColumnName, Count, Declared, Flag, column_name, shown

Length = Literal["day", "week", "month", "quarter", "year", "name"]
_UNIT = re.compile(r"(?:person|row(?= in an? ))(?: in an? (\w+)| in at most ([1-9][0-9]{0,5}) (\w+?)s?| for ever)")
_FORMS = {
    "day": (re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})"), "2026-11-18"),
    "week": (re.compile(r"([0-9]{4})-W([0-9]{2})"), "2026-W47"),
    "month": (re.compile(r"([0-9]{4})-([0-9]{2})"), "2026-11"),
    "quarter": (re.compile(r"([0-9]{4})-Q([1-4])"), "2026-Q4"),
    "year": (re.compile(r"([0-9]{4})"), "2026"),
}
FORMS = {length: example for length, (_, example) in _FORMS.items()}
PERIOD = "period"  # the column of a series that says the period of a row
MOST_PERIODS = 4096
LONGEST_NAME = 60
IN_A_YEAR = {"day": 366, "week": 53, "month": 12, "quarter": 4, "year": 1}


@dataclass(frozen=True)
class Unit:
    """Privacy unit of a series in time. most: periods in which one person is counted; None: in all (for ever).

    alone: each period by itself, so that nothing is said about a person over several.
    """

    words: str
    most: int | None
    alone: bool = False


def _unit(value: object) -> str:
    if not isinstance(value, str) or _UNIT.fullmatch(" ".join(value.split())) is None:
        raise ValueError(
            f"is {shown(value)}; write whose presence is hidden: person in a month, person in at most 6 months, or "
            "person for ever; row in a month, where privacy_unit is row"
        )
    return " ".join(value.split())


class Series(Declared):
    """A table that is published again for every period.

    periods: how many are planned; it is needed where the promise is for ever, and for running. column: of the table,
    says which period a row belongs to, as a date or as the period is written; without it a table holds the rows of one
    period. running: sums over many periods are to be as exact as can be, by noise that is spread over time where that
    serves them.
    """

    period: Length
    unit: Annotated[str, PlainValidator(_unit)]
    periods: Count | None = None
    column: ColumnName | None = None
    running: Flag = False

    @model_validator(mode="after")
    def _consistent(self) -> Series:
        word = _UNIT.fullmatch(self.unit)
        named = word and (word[1] or word[3])
        if named and named not in (self.period, "period"):
            raise ValueError(f"has unit: {self.unit}, but periods of a {self.period}; write the same word in both")
        if self.promise.most is None and self.periods is None:
            raise ValueError("promises for ever; add periods: how many are planned, such as 60")
        if self.periods is not None and self.periods > MOST_PERIODS:
            raise ValueError(f"plans {self.periods:,} periods; {MOST_PERIODS:,} is the most")
        if self.running and self.periods is None:
            raise ValueError(
                "has running: true, whose noise follows from the periods that are planned; add periods: 60"
            )
        return self

    @property
    def promise(self) -> Unit:
        """Privacy unit that the series protects; a row counts as a person with one row: both promise the same."""
        word = _UNIT.fullmatch(self.unit)
        if word and word[1]:
            return Unit(re.sub(r"^row\b", "person", self.unit), 1, alone=True)
        return Unit(self.unit, int(word[2]) if word and word[2] else None)

    def label(self, text: object) -> str:
        """A period as it is written in files and answers; a SchemaError where it is none.

        >>> Series(period="month", unit="person in a month").label("2026-3")
        '2026-03'
        """
        word = str(text).strip()
        if self.period == "name":
            try:
                column_name(word)
            except ValueError as problem:
                raise SchemaError(f"a period's name {problem}") from None
            if len(word) > LONGEST_NAME:
                raise SchemaError(f"a period's name has at most {LONGEST_NAME} characters")
            return word
        form, example = _FORMS[self.period]
        found = form.fullmatch(re.sub(r"-([0-9])(?![0-9])", r"-0\1", word) if self.period != "quarter" else word)
        if found is None or _first_day(self.period, found[0]) is None:
            raise SchemaError(f"{shown(word)} is no {self.period}; write it like {example}")
        return found[0]

    def first_day(self, label: str) -> date | None:
        """First day of a period; None of named ones."""
        return _first_day(self.period, label)

    def last_day(self, label: str) -> date | None:
        """Last day of a period; None of named ones."""
        first = self.first_day(label)
        if first is None or self.period == "day":
            return first
        if self.period == "week":
            return first + timedelta(days=6)
        months = {"month": 1, "quarter": 3}.get(self.period, 12)
        last = first.month + months - 1
        return date(first.year, last, monthrange(first.year, last)[1])

    def year(self, label: str) -> int | None:
        """Calendar year of a period; of a week, the one that ISO 8601 gives it; None of named ones."""
        return None if self.period == "name" else int(label[:4])


def _first_day(length: str, label: str) -> date | None:
    """First day of a period that is written as `FORMS` shows; None where there is no such day."""
    if length == "name":
        return None
    found = _FORMS[length][0].fullmatch(label)
    if found is None:
        return None
    numbers = [int(part) for part in found.groups()]
    try:
        if length == "week":
            return date.fromisocalendar(numbers[0], numbers[1], 1)
        if length == "quarter":
            return date(numbers[0], 3 * numbers[1] - 2, 1)
        return date(*[*numbers, 1, 1][:3])
    except ValueError:
        return None
