"""Columns of dates and times: in the row's days, weeks or hours, on its weekday, at its hour of the day.

What comes again, such as a Monday, has no date of its own. If nothing else tells one, it is in the first week of 2024,
which begins on the year's first day.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import EPOCH, Axis
from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Block
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.releases.rows.values.spans import common_spans, widest
from sfumato.schema.attributes import Date

if TYPE_CHECKING:
    import pyarrow as pa

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
