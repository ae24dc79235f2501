"""Axes, the numbered cells of single attributes; the domain, the cells that axes span together; and groups of cells.

An ordered attribute keeps its own numbers (dates count days since 1970-01-01); a category or boolean is numbered by its
place in the list of values. One class therefore serves all kinds: cell i holds the values from `edges[i]` up to, not
including, `edges[i + 1]`. An attribute that keeps rows without a value has one more cell for them, the last; it has no
edges, for it lies on no side of any value.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Literal

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.values import END, NO_VALUE, Cover, Place, ValueSet
from sfumato.errors import QueryError, SchemaError
from sfumato.frozen import dataclass

Kind = Literal["integer", "number", "category", "boolean", "date"]
Label = str | int | bool | None  # None: the rows without a value

EPOCH = date(1970, 1, 1)
LARGEST_SUMMED = 1e75  # of a value, so that the square of an error of a variance is a number
_MOMENT = re.compile(r"[0-9]{4}-?[0-9]{2}-?[0-9]{2}([ T][0-9]{2}:[0-9]{2}(:[0-9]{2}(\.[0-9]{1,6})?)?)?")


@dataclass(frozen=True, eq=False)
class Axis:
    """Axis of a domain: one attribute as numbered cells."""

    name: str
    kind: Kind
    edges: Floats
    values: tuple[Label, ...] = ()  # what a category or boolean's cells are called
    by: str = "day"  # what one cell of a date axis spans: hour, day, week, month, quarter or year
    codes: tuple[str, ...] = ()  # what a table has in place of a category's values, where these are labels
    splits: tuple[tuple[int, ...], ...] = ()  # where groups of cells part, the coarsest groups first
    missing: bool = False  # whether there is one more cell, for rows without a value
    gaps: tuple[int, ...] = ()  # cells that no row is in: periods of a series that have no part

    def __post_init__(self) -> None:
        edges = np.asarray(self.edges, dtype=np.float64)
        if edges.flags.writeable:  # whoever made it could change it still
            edges = edges.copy()
            edges.setflags(write=False)
        object.__setattr__(self, "edges", edges)

    @property
    def size(self) -> int:
        return self.places + self.missing

    @property
    def places(self) -> int:
        """The number of cells for values, without the one for rows that have none."""
        return len(self.edges) - 1

    @property
    def discrete(self) -> bool:
        """Whether values are whole numbers (all but numbers and times of day), so that cells contain finitely many."""
        return not self.closed and not self.timed

    @property
    def closed(self) -> bool:
        """Whether the last cell includes its upper edge."""
        return self.kind == "number"

    @property
    def timed(self) -> bool:
        """Whether values are times of day, in days: cells are hours."""
        return self.kind == "date" and self.by == "hour"

    @property
    def ordered(self) -> bool:
        """Whether values have an order, so that < and > apply."""
        return self.kind in ("integer", "number", "date")

    def label(self, cell: int) -> Label:
        """The label of a cell: a value where the cell holds one, a span where it holds several."""
        if cell == self.places:
            return None
        if self.values:
            return self.values[cell]
        low, high = float(self.edges[cell]), float(self.edges[cell + 1])
        if self.kind == "date":
            return _named(low, self.by)
        if self.kind == "integer":
            return int(low) if high - low == 1 else f"{int(low)} to {int(high) - 1}"
        closing = "]" if cell == self.places - 1 else ")"
        return f"[{low:.15g}, {high:.15g}{closing}"

    def labels(self) -> list[Label]:
        return [self.label(cell) for cell in range(self.size)]

    def values_in(self, cell: int) -> ValueSet:
        """Set of values of one cell."""
        if cell == self.places:
            return ValueSet.missing()
        start: Place = (float(self.edges[cell]), 0)
        if cell < self.places - 1:
            return ValueSet(((start, (float(self.edges[cell + 1]), 0)),))
        return ValueSet(((start, NO_VALUE if self.missing else END),))

    def values_from(self, first: int, last: int) -> ValueSet:
        """Set of values of a range of cells, last included."""
        return ValueSet(((self.values_in(first).spans[0][0], self.values_in(last).spans[-1][1]),))

    def read(self, literal: object) -> float:
        """Parse a literal of a query to the axis's number for it.

        A value that a category does not list is an error, for a typo must not read as an empty answer.
        """
        if self.values:
            found = self._place_by_value.get(str(literal).lower() if self.kind == "boolean" else str(literal))
            if found is not None:
                return found
            shown = ", ".join(repr(str(v)) for v in self.values[:12]) + (", ..." if len(self.values) > 12 else "")
            raise QueryError(f"{self.name} has no value {str(literal)!r}; it has {shown}")
        if self.kind == "date":
            moment = _moment(literal)
            if moment is None:
                form = "a time; write it as '2024-12-31 12:00'" if self.timed else "a date; write it as '2024-12-31'"
                ends = [repr(str(self.label(cell))) for cell in (0, self.places - 1)]
                cells = f"; its cells are {ends[0]} to {ends[1]}" if len(ends[0]) < len("'2024-12-31'") else ""
                raise QueryError(f"{self.name} is {form}, not {str(literal)!r}{cells}{_for_longer(self.name, literal)}")
            return moment if self.timed else float(math.floor(moment))
        try:
            number = float(literal)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if math.isnan(number) or isinstance(literal, bool):
            raise QueryError(f"{self.name} is a number; {str(literal)!r} is not")
        return number

    @cached_property
    def _place_by_value(self) -> dict[str, float]:
        """The index of each value in the list, by its text; also by its code where that is no value's text."""
        texts = [str(value).lower() if self.kind == "boolean" else str(value) for value in self.values]
        named = [*enumerate(texts), *enumerate(self.codes)]
        return {text: float(place) for place, text in reversed(named)}  # the first of each text is kept

    @cached_property
    def cell_by_label(self) -> dict[str, int]:
        """The cell of each label, without that for rows that have no value."""
        return {str(self.label(cell)): cell for cell in reversed(range(self.places))}

    def cover(self, values: ValueSet) -> Cover:
        """The cover of each cell by a set of values."""
        low, high = self.edges[:-1], self.edges[1:]
        width = high - low
        covered, touched = np.zeros(self.places), np.zeros(self.places)
        sure = np.zeros(self.places)
        if self.discrete and len(values.spans) == 1:
            first, last = (self._whole(place) for place in values.spans[0])
            covered = np.maximum(np.minimum(high, last) - np.maximum(low, first), 0.0)
            touched = np.asarray(covered > 0, dtype=np.float64)
        elif self.discrete and values.spans:
            covered = self._whole_below(values, high) - self._whole_below(values, low)
            touched = np.asarray(covered > 0, dtype=np.float64)
        for start, end in () if self.discrete else values.spans:
            covered += np.clip(np.minimum(high, end[0]) - np.maximum(low, start[0]), 0.0, None)
            # As point sets: a cell runs from just before its low edge to just before its high edge, the last cell to
            # just after it. A span of no width (x = 2000) still touches the cell that may hold such values.
            ends_after_low = (low < end[0]) | ((low == end[0]) & (end[1] == 1))
            starts_before_high = start[0] < high
            starts_before_high[-1] |= self.closed and start == (high[-1], 0)
            touched = np.maximum(touched, ends_after_low & starts_before_high)
            from_low = (start[0] < low) | ((low == start[0]) & (start[1] == 0))
            to_high = high <= end[0]
            if self.closed:
                to_high[-1] = high[-1] < end[0] or end == (high[-1], 1)
            sure = np.maximum(sure, from_low & to_high)
        if self.discrete:
            sure = (covered >= width).astype(np.float64)
        cover = Cover(np.minimum(covered / width, 1.0), sure, touched.astype(np.float64))
        return cover.with_cell(float(values.holds_missing)) if self.missing else cover

    def _whole_below(self, values: ValueSet, ends: Floats) -> Floats:
        """Number of integers of a set below each of some ends; its spans are sorted."""
        spans = self.numbers(values)
        lengths = np.maximum(spans[:, 1] - spans[:, 0], 0.0)
        before = np.concatenate([[0.0], np.cumsum(lengths)])
        span = np.searchsorted(spans[:, 0], ends, side="right") - 1  # the last that starts at or before the end
        inside = np.clip(ends - spans[span, 0], 0.0, lengths[span])
        return np.where(span < 0, 0.0, before[span] + inside)

    def numbers(self, values: ValueSet) -> Floats:
        """Spans of a set of values as numbers from `edges[0]` to `edges[-1]`, (spans, 2); whole ones if discrete."""
        of = self._whole if self.discrete else (lambda place: place[0])
        spans = np.array([[of(place) for place in span] for span in values.spans], dtype=np.float64).reshape(-1, 2)
        return spans.clip(float(self.edges[0]), float(self.edges[-1]))

    def _whole(self, place: Place) -> float:
        """First whole number at or after a place; on an axis of dates a time of day stays as it is."""
        value, _ = place
        return value if self.kind == "date" and not value.is_integer() else _whole(place)

    def moment(self, values: ValueSet) -> Floats:
        """First moment of the covered part of each cell, share times mean, for values spread evenly in a cell."""
        low, _, high = self.amounts
        if self.discrete and np.array_equal(low, high):
            return self.cover(values).share * low
        total = np.zeros(self.places)
        for start, end in values.spans:
            first, last = (_whole(start), _whole(end)) if self.discrete else (start[0], end[0])
            a, b = np.maximum(self.edges[:-1], first), np.minimum(self.edges[1:], last)
            # The whole numbers from a to b - 1 average (a + b - 1) / 2, real numbers from a to b average (a + b) / 2.
            mean = (a + b - (1.0 if self.discrete else 0.0)) / 2
            total += np.where(b > a, (b - a) * mean, 0.0)
        total /= np.diff(self.edges)
        return np.append(total, 0.0) if self.missing else total

    @cached_property
    def amounts(self) -> tuple[Floats, Floats, Floats]:
        """Least, middle and greatest value that a row in each cell can have; all equal where a cell is one value."""
        if self.kind not in ("integer", "number", "boolean"):
            raise QueryError(f"{self.name} is a {self.kind}: it cannot be summed or averaged; count its rows instead")
        low, high = self.edges[:-1], self.edges[1:] - (1.0 if self.discrete else 0.0)
        if max(abs(float(low[0])), abs(float(high[-1]))) > LARGEST_SUMMED:
            raise QueryError(
                f"{self.name} has bounds beyond {LARGEST_SUMMED:g}, so that errors of its sums are beyond all numbers; "
                "count its rows instead"
            )
        if self.missing:  # nobody adds up what is not there; a cell like another keeps the array whole
            low, high = np.append(low, low[0]), np.append(high, high[0])
        return low, (low + high) / 2, high

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Axis):
            return NotImplemented
        return self._rest == other._rest and np.array_equal(self.edges, other.edges)

    @property
    def _rest(self) -> tuple[object, ...]:
        return self.name, self.kind, self.values, self.by, self.codes, self.splits, self.missing, self.gaps

    def __hash__(self) -> int:
        return hash((self.name, self.kind, self.size))


def _named(days: float, by: str) -> str:
    """ISO 8601 name of a cell of dates by its first day; quarters, which ISO lacks, as 2024-Q1."""
    whole = math.floor(days)
    day = EPOCH + timedelta(days=whole)
    text = day.isoformat()
    if by == "hour":
        return f"{text}T{round((days - whole) * 24):02}"
    if by == "week":
        year, week, _ = day.isocalendar()
        return f"{year:04}-W{week:02}"
    if by == "quarter":
        return f"{text[:4]}-Q{(day.month + 2) // 3}"
    return text[: {"day": 10, "month": 7, "year": 4}[by]]


def _for_longer(name: str, literal: object) -> str:
    """Suggest the condition for a year or a month that is asked for as if it were one of the dates.

    >>> _for_longer("day", "2026"), _for_longer("day", "x")
    ('; for a year write EXTRACT(YEAR FROM day) = 2026', '')
    """
    found = re.fullmatch(r"([0-9]{4})(?:-(0[1-9]|1[0-2]))?", str(literal).strip())
    if found is None:
        return ""
    if found[2] is None:
        return f"; for a year write EXTRACT(YEAR FROM {name}) = {found[1]}"
    return f"; for a month write DATE_TRUNC('month', {name}) = '{found[0]}-01'"


def _moment(literal: object) -> float | None:
    """Days since 1970-01-01 of a date, a time or its text; None for any other text."""
    text = literal.isoformat() if isinstance(literal, date) else str(literal)
    if not _MOMENT.fullmatch(text):
        return None
    try:
        since = datetime.fromisoformat(text) - datetime(EPOCH.year, EPOCH.month, EPOCH.day)
    except ValueError:
        return None
    return (since.days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds) / 86_400_000_000


def _whole(place: Place) -> float:
    """The first whole number at or after a place (a number, and whether just before or just after it)."""
    value, after = place
    if math.isinf(value):
        return value
    return math.floor(value) + 1.0 if after or value != math.floor(value) else value


LARGEST_NUMBER = 2**62  # of cells that can be numbered: a number must fit a signed 64-bit integer in every engine
MOST_VALUES = 2**25  # of all axes together, each of which is laid out
MOST_CELLS = 10**300  # which doubles can still express, if no computer could visit them


@dataclass(frozen=True)
class Domain:
    """The axes of a table and the cells they span, numbered row by row: the last axis runs fastest.

    Many axes span more cells than 64 bits can number (`LARGEST_NUMBER`). Such a domain is looked at along some of them.
    """

    axes: tuple[Axis, ...]
    _places: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_places", {axis.name: place for place, axis in enumerate(self.axes)})

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(axis.name for axis in self.axes)

    @cached_property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.size for axis in self.axes)

    @cached_property
    def size(self) -> int:
        return math.prod(self.shape)

    def __iter__(self) -> Iterator[Axis]:
        return iter(self.axes)

    def __contains__(self, name: object) -> bool:
        return name in self._places

    def __getitem__(self, name: str) -> Axis:
        return self.axes[self.place(name)]

    def place(self, name: str) -> int:
        """The index of an attribute among the axes."""
        try:
            return self._places[name]
        except KeyError:
            raise QueryError(f"no attribute {name!r}; there are {', '.join(self.names)}") from None

    def along(self, names: Iterable[str]) -> Domain:
        """The domain that some of the attributes span, in the order of this one."""
        return Domain(tuple(self.axes[place] for place in sorted({self.place(name) for name in names})))

    def codes_along(self, name: str, cells: Codes) -> Codes:
        """Codes along one axis of cells given by flat index."""
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


def refuse_too_many_values(sizes: Sequence[int]) -> None:
    """Refuse axes that are too long to lay out, or too many; a schema asks before it lays out any of them."""
    if (values := sum(sizes)) > MOST_VALUES:
        raise SchemaError(
            f"the attributes have {values:,} cells along their axes, and {MOST_VALUES:,} in all is the most; "
            "use wider bins"
        )
    if (cells := math.prod(sizes)) > MOST_CELLS:
        raise SchemaError(
            f"the attributes span about 10^{math.log10(cells):.0f} cells, and 10^{math.log10(MOST_CELLS):.0f} is the "
            "most; publish fewer of them at a time"
        )


MOST_JOINED = 2**16  # cells of a margin that is counted for the sake of others: its counts stay in a processor's cache
AT_ONCE = 5_000  # sets that are looked at together, so that the time taken grows no faster than their number


def covering(
    sets: Sequence[frozenset[str]], sizes: Mapping[str, int], most: int = MOST_JOINED
) -> Iterator[tuple[frozenset[str], list[int]]]:
    """Greedy cover of sets of attributes by larger unions: each union with the indices of the sets it newly covers.

    Many small margins follow from a larger one by summation: a margin of four attributes takes hardly longer to count
    than one of two, and six pairs follow from it.

    A union is grown greedily, by the attribute that completes the most sets, for as long as it spans few cells.

    >>> pairs = [frozenset("ab"), frozenset("ac"), frozenset("bc"), frozenset("cd")]
    >>> [(sorted(union), places) for union, places in covering(pairs, dict.fromkeys("abcd", 10), most=1000)]
    [(['a', 'b', 'c'], [0, 1, 2]), (['c', 'd'], [3])]
    """
    for first in range(0, len(sets), AT_ONCE):
        places: dict[frozenset[str], list[int]] = defaultdict(list)
        about: dict[str, dict[frozenset[str], None]] = defaultdict(dict)  # an ordered set
        for place, one in enumerate(sets[first : first + AT_ONCE], first):
            places[one].append(place)
            for name in one:
                about[name][one] = None
        while places:
            union = _grown(next(iter(places)), about, sizes, most)
            held = [one for one in _touching(union, about) if one <= union]
            yield union, sorted(place for one in held for place in places.pop(one))
            for one in held:
                for name in one:
                    del about[name][one]


def _grown(
    union: frozenset[str], about: Mapping[str, dict[frozenset[str], None]], sizes: Mapping[str, int], most: int
) -> frozenset[str]:
    cells = math.prod(sizes[name] for name in union)
    while True:
        missing = (one - union for one in _touching(union, about))
        gains = Counter(name for rest in missing if len(rest) == 1 for name in rest if cells * sizes[name] <= most)
        if not gains:
            return union
        best = min(gains, key=lambda name: (-gains[name], sizes[name], name))
        union, cells = union | {best}, cells * sizes[best]


def _touching(union: frozenset[str], about: Mapping[str, dict[frozenset[str], None]]) -> dict[frozenset[str], None]:
    """Sets that share an attribute with a union, as a dict of keys; for the empty union, the empty set."""
    found = {frozenset[str](): None} if not union else {}
    for name in sorted(union):
        found |= about.get(name, {})
    return found
