"""Where the value of a row can lie whose cells along several ordered attributes of one column are known.

Columns of numbers: spread evenly in the row's cells, or around the mean of the measure that is read from them.

Columns of dates and times: in the row's days, weeks or hours, on its weekday, at its hour of the day.

What comes again, such as a Monday, has no date of its own. If nothing else tells one, it is in the first week of 2024,
which begins on the year's first day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import EPOCH, Axis
from sfumato.frozen import dataclass
from sfumato.releases.rows.measures import of_present, spread_values
from sfumato.releases.rows.model import Block, RandomNumbers
from sfumato.schema.attributes import Date
from sfumato.schema.parts import Measure, missing_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Spans:
    """From `low` up to, not including, `high`, for each row; `missing` where it has no value."""

    low: Floats
    high: Floats
    missing: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def common_spans(axes: Sequence[Axis], codes: Mapping[str, Codes], bounds: tuple[float, float]) -> Spans:
    """What is in all cells of a row. Where noise put it into cells that share nothing, the earlier attribute decides.

    bounds: from where to where values lie that are wanted. A first or last cell holds what lies beyond it too, for such
    values are moved to it when they are read.
    """
    rows = len(codes[axes[0].name])
    low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
    missing = np.ones(rows, dtype=bool)
    for axis in axes:
        edges, there = axis.edges.copy(), codes[axis.name] != axis.places
        edges[0], edges[-1] = min(edges[0], bounds[0]), max(edges[-1], bounds[1])
        at = np.minimum(codes[axis.name], axis.places - 1)
        both = np.maximum(low, edges[at]), np.minimum(high, edges[at + 1])
        fits = there & (both[0] < both[1])
        low, high = np.where(fits, both[0], low), np.where(fits, both[1], high)
        missing &= ~there
    low, high = np.where(missing, bounds[0], low), np.where(missing, bounds[1], high)
    return Spans(low, high, missing)


def widest(axes: Sequence[Axis], others: Sequence[tuple[float, float]] = ()) -> tuple[float, float]:
    """From the least to the greatest bound of attributes, and of what else is read from their column."""
    ends = [*((float(axis.edges[0]), float(axis.edges[-1])) for axis in axes), *others]
    return min(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True)
class Numbers:
    """A column that attributes of numbers, measures or both are read from.

    axes: those of whole numbers first. measure: the one of the widest bounds. whole: the column has whole numbers.
    """

    axes: tuple[Axis, ...]
    measure: tuple[str, Measure] | None
    whole: bool

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64() if self.whole else pa.float64()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """A number for every row."""
        import pyarrow as pa

        if self.measure is None:
            spans = common_spans(self.axes, block.codes, widest(self.axes))
            return self._column(self._inside(spans, block, random), spans.missing)
        name, measure = self.measure
        means, missing = block.means[name], block.means.get(missing_of(name))
        if missing is not None:
            means = of_present(measure, means, missing)
        if not self.axes:
            values = spread_values(measure, means, random)
            gone = None if missing is None else random.uniform(len(means)) < missing
            return pa.array(values.astype(np.int64) if self.whole else values, mask=gone)
        # Beyond its bounds a measure counts as its bound, so what lies there says no more than the bound does.
        least, most = float(measure.lower), float(measure.upper)
        spans = common_spans(self.axes, block.codes, widest(self.axes, [(least, np.nextafter(most, np.inf))]))
        within = Spans(np.maximum(spans.low, least), np.minimum(spans.high, most), spans.missing)
        step = Fraction(1) if self.whole else measure.step
        values = spread_values(measure, means, random, (within.low, within.high), step)
        fits = (spans.low <= values) & (values < spans.high)
        return self._column(np.where(fits, values, self._inside(spans, block, random)), spans.missing)

    def _inside(self, spans: Spans, block: Block, random: RandomNumbers) -> Floats:
        """Any number of each span; a whole one of the first attribute's cell where a span has none."""
        low, high = spans.low, spans.high
        if self.whole:
            low, high = np.ceil(low), np.ceil(high)
            first = common_spans(self.axes[:1], block.codes, widest(self.axes[:1]))
            low, high = (np.where(low < high, *ends) for ends in ((low, first.low), (high, first.high)))
        inside = low + random.uniform(len(low)) * (high - low)
        inside = np.where(inside < high, inside, low)  # rounding may reach the edge, the next cell's
        return np.floor(inside) if self.whole else inside

    def _column(self, values: Floats, missing: Any) -> Any:
        import pyarrow as pa

        return pa.array(values.astype(np.int64) if self.whole else values, mask=missing)


ANY_MONDAY = (date(2024, 1, 1) - EPOCH).days
DAY = 86_400  # seconds
HOUR = DAY // 24
WEEK = 7  # days


@dataclass(frozen=True)
class Times:
    """A column that one or more attributes of dates are read from."""

    parts: tuple[tuple[Date, Axis], ...]

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.timestamp("s") if any(part.has_time for part, _ in self.parts) else pa.date32()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """A date or time for every row."""
        import pyarrow as pa

        low, high = self._spans(block, 0)
        *inside, fits = self._recurring(low, high, block, random)
        if not fits.all():  # values beyond the bounds are moved to the nearest cell when they are read, at any hour
            *beyond, fits_there = self._recurring(*self._spans(block, WEEK), block, random)
            low, high = (np.where(fits_there, there, here) for there, here in zip(beyond, (low, high), strict=True))
        low, high = (np.where(fits, found, other) for found, other in zip(inside, (low, high), strict=True))
        seconds = np.floor(low + random.uniform(len(low)) * (high - low)).astype(np.int64)
        missing = np.all([block.codes[axis.name] == axis.places for _, axis in self.parts], axis=0)
        if self.type == pa.date32():
            return pa.array((seconds // DAY).astype(np.int32), mask=missing).cast(pa.date32())
        return pa.array(seconds, mask=missing).cast(pa.timestamp("s"))

    def _spans(self, block: Block, more: int) -> tuple[Floats, Floats]:
        """From when to when each row lies, in seconds since 1970 began. more: days beyond the bounds that count too."""
        spanning = [axis for part, axis in self.parts if not part.recurring]
        if not spanning:
            rows = len(block.codes[self.parts[0][1].name])
            return np.full(rows, float(ANY_MONDAY * DAY)), np.full(rows, float((ANY_MONDAY + WEEK) * DAY))
        first, last = widest(spanning)
        spans = common_spans(spanning, block.codes, (first - more, last + more))
        return np.rint(spans.low * DAY), np.rint(spans.high * DAY)

    def _recurring(self, low: Floats, high: Floats, block: Block, random: RandomNumbers) -> tuple[Any, Any, Any]:
        """The spans cut to the row's weekday and hour of the day, and whether they have such."""
        fits = np.ones(len(low), dtype=bool)
        for by, find in (("weekday", _on_weekday), ("hour_of_day", _at_hour)):
            for part, axis in self.parts:
                if part.by == by:
                    wanted = np.minimum(block.codes[axis.name], axis.places - 1).astype(np.float64)
                    begins, ends = find(low, high, wanted, random)
                    fits &= begins < ends
                    low, high = np.where(fits, begins, low), np.where(fits, ends, high)
        return low, high, fits


def _on_weekday(low: Floats, high: Floats, wanted: Floats, random: RandomNumbers) -> tuple[Floats, Floats]:
    """One of the days of each span that are this weekday; where there is none, it ends before it begins."""
    first = np.floor(low / DAY)
    first += (wanted - (first + 3)) % WEEK  # 1970 began on a Thursday
    there = np.maximum(np.ceil((high / DAY - first) / WEEK), 1)
    day = (first + WEEK * np.floor(random.uniform(len(low)) * there)) * DAY
    return np.maximum(low, day), np.minimum(high, day + DAY)


def _at_hour(low: Floats, high: Floats, wanted: Floats, random: RandomNumbers) -> tuple[Floats, Floats]:
    """This hour of one of the days of each span; where there is none, it ends before it begins."""
    first = np.ceil((low - wanted * HOUR) / DAY)
    there = np.maximum(np.ceil((high - wanted * HOUR) / DAY) - first, 1)
    begins = (first + np.floor(random.uniform(len(low)) * there)) * DAY + wanted * HOUR
    return begins, np.minimum(high, begins + HOUR)
