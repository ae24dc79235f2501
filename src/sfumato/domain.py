"""The shape a schema gives a table: axes, their cells, and sets of values of an axis.

Every attribute becomes an axis of numbered cells. An ordered attribute keeps its own numbers (dates count days since
1970-01-01); a category or boolean is numbered by its place in the list of values. One class therefore serves all
kinds: cell i holds the values from `edges[i]` up to, not including, `edges[i + 1]`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError, SchemaError

Kind = Literal["integer", "number", "category", "boolean", "date"]
Label = str | int | bool

EPOCH = date(1970, 1, 1)
MOST_CELLS = 2**62  # a flat cell number must fit a signed 64-bit integer in every engine

# A place between values: (v, 0) lies just before v and (v, 1) just after it, so open and closed ends need no flags.
Place = tuple[float, int]
START: Place = (-math.inf, 0)
END: Place = (math.inf, 1)


@dataclass(frozen=True)
class ValueSet:
    """A set of values of one attribute: disjoint spans between places, in order.

    >>> young = ValueSet.below(18, inclusive=False)
    >>> young | ~young == ValueSet.everything()
    True
    """

    spans: tuple[tuple[Place, Place], ...]

    @classmethod
    def everything(cls) -> ValueSet:
        return cls(((START, END),))

    @classmethod
    def nothing(cls) -> ValueSet:
        return cls(())

    @classmethod
    def below(cls, value: float, *, inclusive: bool) -> ValueSet:
        return cls(((START, (value, int(inclusive))),))

    @classmethod
    def above(cls, value: float, *, inclusive: bool) -> ValueSet:
        return cls((((value, int(not inclusive)), END),))

    @classmethod
    def one_of(cls, values: Iterable[float]) -> ValueSet:
        return cls(tuple(((v, 0), (v, 1)) for v in sorted(set(values))))

    def __invert__(self) -> ValueSet:
        ends = [START, *(place for span in self.spans for place in span), END]
        return ValueSet(tuple((a, b) for a, b in zip(ends[::2], ends[1::2], strict=True) if a < b))

    def __and__(self, other: ValueSet) -> ValueSet:
        both, mine, its = [], 0, 0
        while mine < len(self.spans) and its < len(other.spans):  # side by side: the lists of an IN can be long
            (a, b), (c, d) = self.spans[mine], other.spans[its]
            start, end = max(a, c), min(b, d)
            if start < end:
                both.append((start, end))
            mine, its = (mine + 1, its) if b <= d else (mine, its + 1)
        return ValueSet(tuple(both))

    def __or__(self, other: ValueSet) -> ValueSet:
        return ~(~self & ~other)

    def __bool__(self) -> bool:
        return bool(self.spans)


@dataclass(frozen=True)
class Cover:
    """How a set of values covers the cells of an axis.

    share: the part of each cell that is covered if values are spread evenly inside a cell.
    sure: 1 where every value of the cell is covered, whatever its spread. possible: 1 where some value is.
    """

    share: Floats
    sure: Floats
    possible: Floats

    @property
    def exact(self) -> bool:
        """Whether no cell is cut, so that the answer does not depend on the spread inside cells."""
        return bool(np.array_equal(self.sure, self.possible))


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
                a, b = _whole(start), _whole(end)
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


@dataclass(frozen=True)
class Domain:
    """The axes of a table and the cells they span, numbered row by row: the last axis runs fastest."""

    axes: tuple[Axis, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        refuse_too_many_cells(self.size)
        object.__setattr__(self, "_places", {axis.name: place for place, axis in enumerate(self.axes)})

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[Axis]:
        return iter(self.axes)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Axis:
        return self.axes[self.place(name)]

    def place(self, name: str) -> int:
        """Where an attribute stands among the axes."""
        try:
            return self._places[name]
        except KeyError:
            raise QueryError(f"no attribute {name!r}; there are {', '.join(self.names)}") from None

    def codes_along(self, name: str, cells: Codes) -> Codes:
        """The cell number along one axis, for flat cell numbers."""
        place = self.place(name)
        return np.asarray(cells // math.prod(self.shape[place + 1 :]) % self.shape[place], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Partition:
    """Cells gathered into numbered, disjoint groups; a cell labelled -1 belongs to none.

    >>> Partition(Domain((Axis("age", "integer", np.arange(5)),)), np.array([0, 0, 1, -1])).size
    2
    """

    domain: Domain
    labels: Codes
    size: int = field(init=False)

    def __post_init__(self) -> None:
        labels = np.array(self.labels, dtype=np.int64).reshape(-1)
        if len(labels) != self.domain.size:
            raise QueryError(f"a partition needs a label for each of the {self.domain.size} cells, got {len(labels)}")
        if labels.size and labels.min() < -1:
            raise QueryError("a partition's labels are 0, 1, 2, ..., or -1 for cells that are left out")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)
        object.__setattr__(self, "size", int(labels.max(initial=-1)) + 1)

    @classmethod
    def by(cls, domain: Domain, names: Sequence[str]) -> Partition:
        """One group for each combination of values of some attributes."""
        label = np.zeros(domain.size, dtype=np.int64)
        cells = np.arange(domain.size, dtype=np.int64)
        for name in names:
            label = label * domain[name].size + domain.codes_along(name, cells)
        return cls(domain, label)


def refuse_too_many_cells(size: int) -> None:
    """Refuse more cells than can be numbered; a schema asks before it lays out any axis."""
    if size > MOST_CELLS:
        raise SchemaError(
            f"the attributes span about 10^{math.log10(size):.0f} cells, more than the 2^62 that can be "
            "numbered; use fewer attributes or wider bins"
        )


def _date(days: float) -> date:
    return EPOCH + timedelta(days=int(days))


def _whole(place: Place) -> float:
    """The first whole number at or after a place."""
    value, after = place
    if math.isinf(value):
        return value
    return math.floor(value) + 1.0 if after or value != math.floor(value) else value
