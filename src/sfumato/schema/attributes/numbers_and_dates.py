"""Integers, real numbers, dates and times as attributes, and the bins that gather them.

Bounds, bins and cuts are kept as the exact fractions that were written and rounded only once, when they become the
edges of cells: the third edge of a number cut in tenths is the very float that a reader gets by writing 0.3.

Dates are gathered by hour, day, week, month, quarter or year, or by a part that recurs, such as the day of the week.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from fractions import Fraction
from itertools import pairwise
from operator import floordiv, truediv
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import model_validator

from sfumato.arrays import Floats
from sfumato.domain import EPOCH, Axis
from sfumato.errors import SchemaError
from sfumato.schema.parts import (
    EXACT_IN_A_FLOAT,
    Attributed,
    Count,
    Day,
    Exact,
    ExactCuts,
    PositiveExact,
    Whole,
    WholeCuts,
    check_order,
    check_size,
    floats,
    shown,
)

Grid = tuple[int, int, int]


class _Binned(Attributed):
    """Numbers from lower to upper, cut into cells by `bins` (how many), `width` (how wide) or `cuts` (where)."""

    needs_rule: ClassVar[bool] = False
    lower: int | Fraction
    upper: int | Fraction
    bins: Count | None = None
    width: int | Fraction | None = None
    cuts: tuple[int | Fraction, ...] | None = None

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        check_order(self.lower, self.upper)
        rules = [key for key in ("bins", "width", "cuts") if getattr(self, key) is not None]
        if len(rules) > 1:
            raise ValueError(f"has {' and '.join(rules)}; keep one of them")
        if self.needs_rule and not rules:
            raise ValueError("is a number without cells; add bins (how many), width (how wide) or cuts (a list)")
        if self.width is not None and self.width > self._end - self.lower:
            raise ValueError(f"has a width of {shown(self.width)}, more than all values span; make it smaller")
        edges = [self.lower, *(self.cuts or ()), self._end]
        if any(low >= high for low, high in pairwise(edges)):
            raise ValueError("has cuts out of order; list them from small to large, each once, between lower and upper")
        check_size(self.size, "gather values in fewer, wider cells with bins or width")
        return self

    @property
    def _end(self) -> int | Fraction:
        """The end of the last cell."""
        return self.upper

    @property
    def _step(self) -> Fraction:
        return Fraction(self._end - self.lower) / self.bins if self.bins else Fraction(self.width or 1)

    @property
    def places(self) -> int:
        """The number of cells for values."""
        return len(self.cuts) + 1 if self.cuts is not None else math.ceil((self._end - self.lower) / self._step)

    @property
    def grid(self) -> Grid | None:
        """(a, b, den) with cell i starting at (a + i * b) / den, if cells are evenly spaced and floats hold all of it.

        The last edge is where the values end, which may come before the next point of the grid.
        """
        return self._spacing if self._held and self.cuts is None else None

    @property
    def _spacing(self) -> Grid:
        den = math.lcm(self.lower.denominator, self._step.denominator)
        return int(self.lower * den), int(self._step * den), den

    @property
    def _held(self) -> bool:
        a, b, den = self._spacing
        return max(abs(a) + self.places * b, den) <= EXACT_IN_A_FLOAT

    def _edges(self, divide: Callable[[Any, int], Any]) -> Floats:
        if self.cuts is not None:
            return floats((self.lower, *self.cuts, self._end))
        (a, b, den), size = self._spacing, self.places
        if self._held:  # by whole numbers that floats hold, so that NumPy's one division rounds correctly
            places = np.arange(size + 1, dtype=np.int64)
            places *= b  # in place, for there may be ten million
            places += a
            places = divide(places, den)
            edges = np.asarray(places, dtype=np.float64)
        else:  # Python's division of whole numbers always does
            edges = np.fromiter((divide(a + i * b, den) for i in range(size + 1)), np.float64, size + 1)
        edges[-1] = float(self._end)
        edges.setflags(write=False)
        return edges


class Integer(_Binned):
    """Whole numbers from lower to upper, one cell each unless `bins`, `width` or `cuts` gathers them.

    >>> Integer(lower=0, upper=99, cuts=(18, 65)).axis("age").labels()
    ['0 to 17', '18 to 64', '65 to 99']
    """

    type: Literal["integer"] = "integer"
    lower: Whole
    upper: Whole
    width: Count | None = None
    cuts: WholeCuts | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        values = self._end - self.lower
        if self.bins is not None and self.bins > values:
            raise ValueError(f"has {self.bins} bins for {values} whole numbers; use at most {values} bins")
        return self

    @property
    def _end(self) -> int:
        return self.upper + 1

    @property
    def grid(self) -> Grid | None:
        """The grid, as for any number; uneven bins of whole numbers have none."""
        return super().grid if self._step.denominator == 1 else None

    def axis(self, name: str) -> Axis:
        """The numbered cells; bins are as equal as whole numbers allow."""
        return Axis(name, "integer", self._edges(floordiv), missing=self.keeps_missing)


class Number(_Binned):
    """Real numbers from lower to upper, both included, in cells given by `bins`, `width` or `cuts`.

    >>> float(Number(lower=Fraction(0), upper=Fraction(1), width="0.1").axis("share").edges[3])
    0.3
    """

    needs_rule: ClassVar[bool] = True
    type: Literal["number"] = "number"
    lower: Exact
    upper: Exact
    width: PositiveExact | None = None
    cuts: ExactCuts | None = None

    def axis(self, name: str) -> Axis:
        """The numbered cells; the last one includes upper."""
        edges = self._edges(truediv)
        if not (edges[1:] > edges[:-1]).all():
            raise SchemaError(
                f"attributes.{name} has cells so narrow that floating-point numbers cannot tell their edges apart; "
                "use fewer bins, a larger width or cuts further apart"
            )
        return Axis(name, "number", edges, missing=self.keeps_missing)


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
        """Monday of the first week, which may be before the first day; the year 1 itself begins on a Monday."""
        first = self.bounds[0]
        return first - timedelta(days=first.weekday())

    @property
    def places(self) -> int:
        """The number of cells for values."""
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
