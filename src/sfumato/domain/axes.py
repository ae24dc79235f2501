"""One attribute as an axis of numbered cells.

An ordered attribute keeps its own numbers (dates count days since 1970-01-01); a category or boolean is numbered by its
place in the list of values. One class therefore serves all kinds: cell i holds the values from `edges[i]` up to, not
including, `edges[i + 1]`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.values import Cover, Place, ValueSet
from sfumato.errors import QueryError

Kind = Literal["integer", "number", "category", "boolean", "date"]
Label = str | int | bool

EPOCH = date(1970, 1, 1)


@dataclass(frozen=True, eq=False)
class Axis:
    """One attribute as numbered cells."""

    name: str
    kind: Kind
    edges: Floats
    values: tuple[Label, ...] = ()  # what a category or boolean's cells are called
    by: str = "day"  # what one cell of a date axis spans: day, month or year

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=np.float64)
        if edges.flags.writeable:  # whoever made it could change it still
            edges = edges.copy()
            edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)

    @property
    def size(self) -> int:
        return len(self.edges) - 1

    @property
    def discrete(self) -> bool:
        """Whether values are whole numbers (everything but `number`), so that cells contain finitely many."""
        return self.kind != "number"

    @property
    def ordered(self) -> bool:
        """Whether < and > mean something."""
        return self.kind in ("integer", "number", "date")

    def label(self, cell: int) -> Label:
        """What a reader sees for a cell: a value where the cell holds one, a span where it holds several."""
        if self.values:
            return self.values[cell]
        low, high = float(self.edges[cell]), float(self.edges[cell + 1])
        if self.kind == "date":
            text = _date(low).isoformat()
            return text if self.by == "day" else text[:7] if self.by == "month" else text[:4]
        if self.kind == "integer":
            return int(low) if high - low == 1 else f"{int(low)} to {int(high) - 1}"
        closing = "]" if cell == self.size - 1 else ")"
        return f"[{low:.15g}, {high:.15g}{closing}"

    def labels(self) -> list[Label]:
        return [self.label(cell) for cell in range(self.size)]

    def read(self, literal: object) -> float:
        """The number that stands for a literal of a query on this axis.

        A value that a category does not list is an error, for a typo must not read as an empty answer.
        """
        if self.values:
            wanted = str(literal).lower() if self.kind == "boolean" else str(literal)
            for place, value in enumerate(self.values):
                if wanted == (str(value).lower() if self.kind == "boolean" else str(value)):
                    return float(place)
            shown = ", ".join(repr(str(v)) for v in self.values[:12]) + (", ..." if len(self.values) > 12 else "")
            raise QueryError(f"{self.name} has no value {str(literal)!r}; it has {shown}")
        if self.kind == "date":
            if isinstance(literal, date):
                return float(literal.toordinal() - EPOCH.toordinal())
            try:
                return float((date.fromisoformat(str(literal)[:10]) - EPOCH).days)
            except ValueError:
                raise QueryError(f"{self.name} is a date; write it as '2024-12-31', not {str(literal)!r}") from None
        try:
            number = float(literal)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number) or isinstance(literal, bool):
            raise QueryError(f"{self.name} is a number; {str(literal)!r} is not")
        return number

    def cover(self, values: ValueSet) -> Cover:
        """How `values` covers each cell."""
        low, high = self.edges[:-1], self.edges[1:]
        width = high - low
        covered, touched = np.zeros(self.size), np.zeros(self.size)
        sure = np.zeros(self.size)
        for start, end in values.spans:
            if self.discrete:
                a, b = self._whole(start), self._whole(end)
                overlap = np.clip(np.minimum(high, b) - np.maximum(low, a), 0.0, None)
                covered += overlap
                touched = np.maximum(touched, overlap > 0)
                continue
            covered += np.clip(np.minimum(high, end[0]) - np.maximum(low, start[0]), 0.0, None)
            # As point sets: a cell runs from just before its low edge to just before its high edge, the last cell to
            # just after it. A span of no width (x = 2000) still touches the cell that may hold such values.
            ends_after_low = (low < end[0]) | ((low == end[0]) & (end[1] == 1))
            starts_before_high = start[0] < high
            starts_before_high[-1] |= start == (high[-1], 0)
            touched = np.maximum(touched, ends_after_low & starts_before_high)
            from_low = (start[0] < low) | ((low == start[0]) & (start[1] == 0))
            to_high = high <= end[0]
            to_high[-1] = high[-1] < end[0] or end == (high[-1], 1)
            sure = np.maximum(sure, from_low & to_high)
        if self.discrete:
            sure = (covered >= width).astype(np.float64)
        return Cover(np.minimum(covered / width, 1.0), sure, touched.astype(np.float64))

    def _whole(self, place: Place) -> float:
        """As `_whole`, except that a time of day, which cuts the cell of its day, stays where it is."""
        value, _ = place
        return value if self.kind == "date" and not value.is_integer() else _whole(place)

    def moment(self, values: ValueSet) -> Floats:
        """The part of each cell that is covered, times the mean of that part, if values are spread evenly in a cell."""
        low, _, high = self.amounts
        if self.discrete and np.array_equal(low, high):
            return self.cover(values).share * low
        total = np.zeros(self.size)
        for start, end in values.spans:
            first, last = (_whole(start), _whole(end)) if self.discrete else (start[0], end[0])
            a, b = np.maximum(self.edges[:-1], first), np.minimum(self.edges[1:], last)
            # The whole numbers from a to b - 1 average (a + b - 1) / 2, real numbers from a to b average (a + b) / 2.
            mean = (a + b - (1.0 if self.discrete else 0.0)) / 2
            total += np.where(b > a, (b - a) * mean, 0.0)
        return np.asarray(total / np.diff(self.edges), dtype=np.float64)

    @cached_property
    def amounts(self) -> tuple[Floats, Floats, Floats]:
        """Least, middle and greatest value that a row in each cell can have; all equal where a cell is one value."""
        if self.kind not in ("integer", "number", "boolean"):
            raise QueryError(f"{self.name} is a {self.kind}: it cannot be summed or averaged; count its rows instead")
        low, high = self.edges[:-1], self.edges[1:] - (1.0 if self.discrete else 0.0)
        return low, (low + high) / 2, high

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis):
            return NotImplemented
        same = (self.name, self.kind, self.values, self.by) == (other.name, other.kind, other.values, other.by)
        return same and np.array_equal(self.edges, other.edges)

    def __hash__(self) -> int:
        return hash((self.name, self.kind, self.size))


def _date(days: float) -> date:
    return EPOCH + timedelta(days=int(days))


def _whole(place: Place) -> float:
    """The first whole number at or after a place."""
    value, after = place
    if math.isinf(value):
        return value
    return math.floor(value) + 1.0 if after or value != math.floor(value) else value
