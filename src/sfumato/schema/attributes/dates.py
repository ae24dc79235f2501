"""Days and times, the weeks, months, quarters and years that gather them, and the parts of them that come again."""

from __future__ import annotations

from datetime import date, datetime, time, timedelta
from typing import Literal, Self

import numpy as np
from pydantic import model_validator

from sfumato.domain import EPOCH, Axis
from sfumato.schema.attributes.declared import Attributed, check_size, floats
from sfumato.schema.values import Day, check_order, shown

By = Literal["hour", "day", "week", "month", "quarter", "year", "weekday", "hour_of_day"]
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
HOURS = 24
_MONTHS = {"month": 1, "quarter": 3, "year": 12}
_DAY = "the public already knows, such as 2020-01-01; it is not read from the data, because that would leak it"


class Date(Attributed):
    """Days or times from lower to upper, both included: one cell for each hour, day, week, month, quarter or year.

    Weeks begin on Monday, as in ISO 8601. `weekday` and `hour_of_day` come again and again, so they have no bounds.

    >>> Date(lower=date(2023, 12, 24), upper=date(2024, 2, 10), by="month").axis("arrival").labels()
    ['2023-12', '2024-01', '2024-02']
    >>> Date(lower=date(2023, 12, 24), upper=date(2024, 1, 10), by="week").axis("arrival").labels()
    ['2023-W51', '2023-W52', '2024-W01', '2024-W02']
    """

    type: Literal["date"] = "date"
    lower: Day | None = None
    upper: Day | None = None
    by: By = "day"

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        given = [key for key in ("lower", "upper") if getattr(self, key) is not None]
        if self.recurring and given:
            raise ValueError(f"has {given[0]}, but every {shown(self.by)} comes again and again; delete the line")
        if not self.recurring:
            for key, which in (("lower", "first"), ("upper", "last")):
                if key not in given:
                    raise ValueError(f"has no {key}; fill in the {which} day {_DAY}")
            check_order(*self.bounds)
            check_size(self.size, "use wider cells, such as by: day")
        return self

    @property
    def recurring(self) -> bool:
        """Whether cells are a part of the calendar that comes again, such as Monday."""
        return self.by in ("weekday", "hour_of_day")

    @property
    def has_time(self) -> bool:
        """Whether the time of day matters."""
        return self.by in ("hour", "hour_of_day")

    @property
    def bounds(self) -> tuple[date, date]:
        """The first and the last day that count as themselves; all others count as the nearer of them."""
        return self.lower or date.min, self.upper or date.max

    @property
    def moments(self) -> tuple[datetime, datetime]:
        """The first and the last moment of these days."""
        first, last = self.bounds
        return datetime.combine(first, time.min), datetime.combine(last, time.max)

    @property
    def monday(self) -> date:
        """When the first week begins, which may be before the first day; in the year 1 weeks begin where it does."""
        first = self.bounds[0]
        return first - timedelta(days=first.weekday())

    @property
    def places(self) -> int:
        """How many cells there are for values."""
        first, last = self.bounds
        if self.by in _MONTHS:
            return (_month(last) // _MONTHS[self.by]) - (_month(first) // _MONTHS[self.by]) + 1
        days = (last - first).days
        spans = {"hour": HOURS * (days + 1), "day": days + 1, "weekday": len(WEEKDAYS), "hour_of_day": HOURS}
        return spans[self.by] if self.by in spans else (last - self.monday).days // 7 + 1

    def axis(self, name: str) -> Axis:
        """The numbered cells; the first and last week, month, quarter or year may be cut by the bounds."""
        if self.by == "weekday":
            return Axis(name, "category", floats(range(8)), WEEKDAYS, missing=self.keeps_missing)
        if self.by == "hour_of_day":
            return Axis(name, "integer", floats(range(HOURS + 1)), missing=self.keeps_missing)
        first, last = self.bounds
        start = first.toordinal() - EPOCH.toordinal()
        cells = np.arange(self.places + 1, dtype=np.float64)
        if self.by == "hour":  # in days, as all dates; whole numbers divided once are the nearest floats
            edges = (start * HOURS + cells) / HOURS
        elif self.by in _MONTHS:
            months = _MONTHS[self.by]
            begins = (months * (_month(first) // months + place) for place in range(1, self.places))
            edges = floats([0, *(date(month // 12, month % 12 + 1, 1).toordinal() for month in begins), 0])
            edges -= EPOCH.toordinal()
        else:
            edges = cells * {"day": 1, "week": 7}[self.by] + (self.monday - EPOCH).days
            edges += 0 if self.by == "week" else (first - self.monday).days
        edges[0], edges[-1] = start, last.toordinal() + 1 - EPOCH.toordinal()
        return Axis(name, "date", edges, by=self.by, missing=self.keeps_missing)


def _month(day: date) -> int:
    """The months since the year 0 began."""
    return day.year * 12 + day.month - 1
