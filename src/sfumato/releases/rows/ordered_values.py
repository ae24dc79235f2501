"""Columns of numbers, dates and times in synthetic rows, drawn inside the cells of each row.

Where several attributes are read from one column, a value lies in the intersection of the row's cells. Numbers are
uniform there, or drawn around the mean of the measure of that column. Recurring attributes, such as weekdays, have no
date of their own; if nothing else gives one, it is in the first week of 2024, which begins on the year's first day.

Columns of categories and booleans in synthetic rows, in spellings that the schema reads back into the same cells.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from fractions import Fraction
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import EPOCH, Axis
from sfumato.frozen import dataclass
from sfumato.releases.rows.measures import of_present, spread_values
from sfumato.releases.rows.model import Block, RandomNumbers, arrow_numbers, arrow_texts
from sfumato.schema.attributes import Attribute, Boolean, Category, Date, Integer, Number
from sfumato.schema.attributes.lists import OTHER, as_number, folded
from sfumato.schema.parts import Measure
from sfumato.schema.schema import missing_of

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Spans:
    """Interval [low, high) of each row, (rows,); missing: rows without a value, (rows,)."""

    low: Floats
    high: Floats
    missing: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def common_spans(axes: Sequence[Axis], block: Block, bounds: tuple[float, float]) -> Spans:
    """Intersection of a row's cells, as far as a condition leaves them; if disjoint, the earlier attribute decides.

    bounds: range of wanted values. A first or last cell extends to these, because values beyond it are clipped to it.
    """
    codes, rows = block.codes, len(block.codes[axes[0].name])
    low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
    missing = np.ones(rows, dtype=bool)
    for axis in axes:
        edges, there = axis.edges.copy(), codes[axis.name] != axis.places
        edges[0], edges[-1] = min(edges[0], bounds[0]), max(edges[-1], bounds[1])
        at = np.minimum(codes[axis.name], axis.places - 1)
        both = np.maximum(low, edges[at]), np.minimum(high, edges[at + 1])
        if axis.name in block.within:
            least, end = block.within[axis.name]
            both = np.maximum(both[0], least), np.minimum(both[1], end)
        fits = there & (both[0] < both[1])
        low, high = np.where(fits, both[0], low), np.where(fits, both[1], high)
        missing &= ~there
    low, high = np.where(missing, bounds[0], low), np.where(missing, bounds[1], high)
    return Spans(low, high, missing)


def widest(axes: Sequence[Axis], others: Sequence[tuple[float, float]] = ()) -> tuple[float, float]:
    """Range that covers all attributes and whatever else is read from their column."""
    ends = [*((float(axis.edges[0]), float(axis.edges[-1])) for axis in axes), *others]
    return min(low for low, _ in ends), max(high for _, high in ends)


@dataclass(frozen=True)
class Numbers:
    """Column that numeric attributes, measures or both are read from.

    axes: those of integers first. measure: the one with the widest bounds. whole: the column holds integers.
    """

    axes: tuple[Axis, ...]
    measure: tuple[str, Measure] | None
    whole: bool

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.int64() if self.whole else pa.float64()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """Draw a number for every row."""
        if self.measure is None:
            spans = common_spans(self.axes, block, widest(self.axes))
            return self._column(self._inside(spans, block, random), spans.missing)
        name, measure = self.measure
        means, missing = block.means[name], block.means.get(missing_of(name))
        if missing is not None:
            means = of_present(measure, means, missing)
        if not self.axes:
            values = spread_values(measure, means, random)
            gone = None if missing is None else random.uniform(len(means)) < missing
            return self._column(values, gone)
        # Beyond its bounds a measure counts as its bound, so what lies there says no more than the bound does.
        least, most = float(measure.lower), float(measure.upper)
        spans = common_spans(self.axes, block, widest(self.axes, [(least, np.nextafter(most, np.inf))]))
        within = Spans(np.maximum(spans.low, least), np.minimum(spans.high, most), spans.missing)
        step = Fraction(1) if self.whole else measure.step
        values = spread_values(measure, means, random, (within.low, within.high), step)
        fits = (spans.low <= values) & (values < spans.high)
        return self._column(np.where(fits, values, self._inside(spans, block, random)), spans.missing)

    def _inside(self, spans: Spans, block: Block, random: RandomNumbers) -> Floats:
        """Uniform number in each span; an integer of the first attribute's cell where a span has none."""
        low, high = spans.low, spans.high
        if self.whole:
            low, high = np.ceil(low), np.ceil(high)
            first = common_spans(self.axes[:1], block, widest(self.axes[:1]))
            low, high = (np.where(low < high, *ends) for ends in ((low, first.low), (high, first.high)))
        inside = low + random.uniform(len(low)) * (high - low)
        inside = np.where(inside < high, inside, low)  # rounding may reach the edge, the next cell's
        return np.floor(inside) if self.whole else inside

    def _column(self, values: Floats, missing: Any) -> Any:
        return arrow_numbers(values.astype(np.int64) if self.whole else values, missing)


ANY_MONDAY = (date(2024, 1, 1) - EPOCH).days
DAY = 86_400  # seconds
HOUR = DAY // 24
WEEK = 7  # days


@dataclass(frozen=True)
class Times:
    """Column that one or more date attributes are read from."""

    parts: tuple[tuple[Date, Axis], ...]

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        return pa.timestamp("s") if any(part.has_time for part, _ in self.parts) else pa.date32()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """Draw a date or time for every row."""
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
            return arrow_numbers((seconds // DAY).astype(np.int32), missing).cast(pa.date32())
        return arrow_numbers(seconds, missing).cast(pa.timestamp("s"))

    def _spans(self, block: Block, more: int) -> tuple[Floats, Floats]:
        """Interval of each row in seconds since 1970, (rows,) each. more: days beyond the bounds that count too."""
        spanning = [axis for part, axis in self.parts if not part.recurring]
        if not spanning:
            rows = len(block.codes[self.parts[0][1].name])
            return np.full(rows, float(ANY_MONDAY * DAY)), np.full(rows, float((ANY_MONDAY + WEEK) * DAY))
        first, last = widest(spanning)
        spans = common_spans(spanning, block, (first - more, last + more))
        return np.rint(spans.low * DAY), np.rint(spans.high * DAY)

    def _recurring(self, low: Floats, high: Floats, block: Block, random: RandomNumbers) -> tuple[Any, Any, Any]:
        """Intervals restricted to the row's weekday and hour of day, and whether they are non-empty, (rows,)."""
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
    """Random day of a given weekday in each interval; empty (end before start) where there is none."""
    first = np.floor(low / DAY)
    first += (wanted - (first + 3)) % WEEK  # 1970 began on a Thursday
    there = np.maximum(np.ceil((high / DAY - first) / WEEK), 1)
    day = (first + WEEK * np.floor(random.uniform(len(low)) * there)) * DAY
    return np.maximum(low, day), np.minimum(high, day + DAY)


def _at_hour(low: Floats, high: Floats, wanted: Floats, random: RandomNumbers) -> tuple[Floats, Floats]:
    """Given hour of a random day in each interval; empty (end before start) where there is none."""
    first = np.ceil((low - wanted * HOUR) / DAY)
    there = np.maximum(np.ceil((high - wanted * HOUR) / DAY) - first, 1)
    begins = (first + np.floor(random.uniform(len(low)) * there)) * DAY + wanted * HOUR
    return begins, np.minimum(high, begins + HOUR)


# -- listed values

_TRUTHS = {"false": 0, "true": 1, "0": 0, "1": 1}


def spelled(attribute: Attribute, cell: int, counted: bool = False) -> Iterator[str | None]:
    """Texts that are read into a cell, the simplest first; None is a missing value. Empty where there are too many.

    counted: the column is read as a number too.
    """
    if cell == attribute.places:
        yield None
    elif isinstance(attribute, Category) and cell == len(attribute.values):
        yield _unlisted(attribute, counted)
    elif isinstance(attribute, Category):
        yield attribute.listed[cell]
        yield from (text for text, place in attribute.spellings.items() if place == cell)
    elif isinstance(attribute, Boolean):
        usual = ("false", "true")[cell]
        if attribute.spellings.get(folded(usual, attribute.fold or ()), cell) == cell:
            yield usual
        yield from (text for text, truth in attribute.spellings.items() if truth == cell)


def cell_of(attribute: Attribute, axis: Axis, text: str | None) -> int | None:
    """Cell that a text is read into; None if its row would be left out."""
    missing = attribute.places if attribute.keeps_missing else None
    if text is None:
        return missing
    if isinstance(attribute, Category):
        cell = attribute.spellings.get(folded(text, attribute.fold or ()))
        return len(attribute.values) if cell is None and attribute.other else cell
    if isinstance(attribute, Boolean):
        truth = attribute.spellings.get(folded(text, attribute.fold or ()))
        return _TRUTHS.get(text, missing) if truth is None else int(truth)
    number = as_number(text)
    if number is None or not isinstance(attribute, Integer | Number):
        return missing
    cell = int(np.searchsorted(axis.edges, number, side="right")) - 1
    return min(max(cell, 0), axis.places - 1)


def in_digits(attribute: Category, counted: bool) -> bool:
    """Whether all texts of a category must be numbers: in a column of numbers, the word "other" would be missing.

    Also where values have decimals, for these can be spelled in many ways.
    """
    whole = all((number := as_number(text)) is not None and number.is_integer() for text in attribute.spellings)
    return counted or (attribute.numeric and (not attribute.other or attribute.keeps_missing or not whole))


def _unlisted(attribute: Category, counted: bool) -> str:
    """Text that is read as "other": an unlisted whole number where texts must be numbers, else an unlisted word."""
    if in_digits(attribute, counted):
        numbers = [number for text in attribute.spellings if (number := as_number(text)) is not None]
        return str(int(max(numbers, default=0.0)) + 1)
    words = (OTHER + "_" * more for more in count())
    return next(word for word in words if folded(word, attribute.fold or ()) not in attribute.spellings)


@dataclass(frozen=True)
class Listed:
    """Column that categories or booleans are read from, the first of them first.

    counted: it is read as a number as well, by a measure or another attribute.
    """

    parts: tuple[tuple[Attribute, Axis], ...]
    counted: bool = False

    @property
    def type(self) -> pa.DataType:
        import pyarrow as pa

        attribute, *others = (attribute for attribute, _ in self.parts)
        if isinstance(attribute, Boolean) and not others and next(spelled(attribute, 1)) == "true":
            return pa.bool_()
        listed = [part for part, _ in self.parts if isinstance(part, Category)]
        texts = not listed or any(not in_digits(part, self.counted) for part in listed)
        numbers = [as_number(text) for part in listed for text in part.spellings]
        if texts or None in numbers:
            return pa.string()
        whole = all(number is not None and number.is_integer() and abs(number) < 2**53 for number in numbers)
        return pa.int64() if whole else pa.float64()

    def draw(self, block: Block, random: RandomNumbers) -> Any:
        """Value of every row's cell; such a cell has one value alone, so that nothing is drawn."""
        (_, first), *others = self.parts
        if not others:
            return self._cells.take(arrow_numbers(block.codes[first.name]))
        codes = np.stack([block.codes[axis.name] for _, axis in self.parts], axis=1)
        seen, places = np.unique(codes, axis=0, return_inverse=True)
        texts = [self._text(tuple(map(int, cells))) for cells in seen]
        return self._typed(texts).take(arrow_numbers(places.reshape(-1)))

    @cached_property
    def _cells(self) -> Any:
        """Value of each cell of the first attribute."""
        attribute, axis = self.parts[0]
        return self._typed([next(spelled(attribute, cell, self.counted)) for cell in range(axis.size)])

    def _text(self, cells: Sequence[int]) -> str | None:
        """Text that every attribute reads into its cell; the first one's where noise made the cells inconsistent."""
        for (attribute, _), cell in zip(self.parts, cells, strict=True):
            for text in spelled(attribute, cell, self.counted):
                if all(cell_of(*part, text) == wanted for part, wanted in zip(self.parts, cells, strict=True)):
                    return text
        return next(spelled(self.parts[0][0], cells[0], self.counted))

    def _typed(self, texts: Sequence[str | None]) -> Any:
        import pyarrow as pa

        kind = self.type
        if kind == pa.string():
            return arrow_texts(texts)
        if kind == pa.bool_():
            true, missing = np.array([text == "true" for text in texts]), np.array([text is None for text in texts])
            return arrow_numbers(true.astype(np.int8), missing).cast(kind)
        numbers = [None if text is None else as_number(text) for text in texts]
        values = np.array([number or 0.0 for number in numbers])
        missing = np.array([number is None for number in numbers])
        return arrow_numbers(values.astype(np.int64) if kind == pa.int64() else values, missing)
