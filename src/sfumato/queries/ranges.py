"""Queries along one ordered axis: identity, total, prefixes, all ranges, or a list of ranges. Entries are 0 or 1."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, codes, frozen, listable, scatter_add, size
from sfumato.queries.base import Form, Indicators, Queries
from sfumato.queries.cells import Cells


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Ranges(Indicators):
    """List of ranges: row i covers the cells lows[i] to highs[i], both included.

    Answers are differences of cumulative sums; with floating-point numbers they have the absolute precision of the
    total.

    >>> (Ranges(4, [0, 1], [3, 2]) @ [1, 2, 3, 4]).tolist()
    [10, 5]
    """

    lows: Codes
    highs: Codes

    form = Form("ranges", arrays=("lows", "highs"))

    def __init__(self, n: int, lows: object, highs: object) -> None:
        columns = size(n, "Ranges")
        first, last = codes(lows, columns, "Ranges (lows)"), codes(highs, columns, "Ranges (highs)")
        if len(first) != len(last):
            raise QueryError(f"Ranges needs as many lows as highs; there are {len(first)} and {len(last)}")
        if (first > last).any():
            raise QueryError("Ranges needs lows[i] <= highs[i], both ends included; some ranges are empty")
        self._store(rows=len(first), columns=columns, lows=frozen(first), highs=frozen(last))

    def __repr__(self) -> str:
        return f"Ranges({self.columns}, {self.rows} ranges)"

    def _times(self, x: Array) -> Array:
        return range_sums(x, self.lows, self.highs)

    def _back(self, y: Array) -> Array:
        steps = scatter_add(self.columns + 1, self.lows, y) - scatter_add(self.columns + 1, self.highs + 1, y)
        return np.cumsum(steps[:-1], axis=0)

    def _depths(self) -> Codes:
        """Number of ranges that cover each interval between two ends, without a list of all cells."""
        ends = np.concatenate([self.lows, self.highs + 1, [0, self.columns]])
        steps = np.repeat([1, -1, 0], [self.rows, self.rows, 2])
        places, group = np.unique(ends, return_inverse=True)
        return np.cumsum(scatter_add(len(places), group, steps[:, None])[:-1, 0])

    def _peak(self, power: int) -> int:
        return int(self._depths().max())

    def _level(self, power: int) -> int | None:
        depths = self._depths()
        return int(depths[0]) if (depths == depths[0]).all() else None

    def _gram(self, weights: Array | None) -> Array:
        n = self.columns
        each = np.ones_like(self.lows) if weights is None else weights
        ends = scatter_add(n * n, self.lows * n + self.highs, each[:, None])
        # both[i, j], i <= j: the weight of the ranges that start at or before i and end at or after j
        both = np.cumsum(np.cumsum(ends.reshape(n, n), axis=0)[:, ::-1], axis=1)[:, ::-1]
        return np.asarray(np.triu(both) + np.triu(both, 1).T)

    def _select(self, index: Array) -> Queries:
        return Ranges(self.columns, self.lows[index], self.highs[index])

    def _dense(self) -> Array:
        column = np.arange(self.columns)
        return ((self.lows[:, None] <= column) & (column <= self.highs[:, None])).astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class AllRanges(Indicators):
    """All n (n + 1) / 2 ranges, ordered by low end, then by high end.

    >>> (AllRanges(3) @ [4, 5, 6]).tolist()
    [4, 9, 15, 5, 11, 6]
    >>> AllRanges(3).gram().tolist()
    [[3, 2, 1], [2, 4, 2], [1, 2, 3]]
    """

    form = Form("all-ranges")

    def __init__(self, n: int) -> None:
        columns = size(n, "AllRanges")
        self._store(rows=columns * (columns + 1) // 2, columns=columns)

    def _starts(self) -> Codes:
        """Number of the first range with each low end, (columns,)."""
        listable(self.columns, "the low ends", "use fewer cells")
        low = np.arange(self.columns, dtype=np.int64)
        return low * self.columns - low * (low - 1) // 2

    def _ends(self) -> tuple[Codes, Codes]:
        """Low and high end of every range, (rows,) each."""
        low = np.arange(self.columns, dtype=np.int64)
        lows = np.repeat(low, self.columns - low)
        return lows, np.arange(self.rows, dtype=np.int64) - (self._starts() - low)[lows]

    def _times(self, x: Array) -> Array:
        return range_sums(x, *self._ends())

    def _back(self, y: Array) -> Array:
        opened = np.add.reduceat(y, self._starts(), axis=0)
        closed = scatter_add(self.columns, self._ends()[1], y)
        opened[1:] -= closed[:-1]
        return np.cumsum(opened, axis=0)

    def _totals(self, power: int) -> Array:
        column = np.arange(self.columns, dtype=np.int64)
        return (column + 1) * (self.columns - column)

    def _peak(self, power: int) -> int:
        return ((self.columns + 1) // 2) * ((self.columns + 2) // 2)  # at the middle column

    def _level(self, power: int) -> int | None:
        return self.columns if self.columns <= 2 else None

    def _gram(self, weights: Array | None) -> Array:
        if weights is not None:
            return Ranges(self.columns, *self._ends())._gram(weights)
        column = np.arange(self.columns, dtype=np.int64)
        # a range holds both i and j if it starts at or before the earlier and ends at or after the later
        return np.asarray((np.minimum.outer(column, column) + 1) * (self.columns - np.maximum.outer(column, column)))

    def _select(self, index: Array) -> Queries:
        starts = self._starts()
        lows = np.searchsorted(starts, index, side="right") - 1
        return Ranges(self.columns, lows, index - starts[lows] + lows)

    def _dense(self) -> Array:
        return Ranges(self.columns, *self._ends())._dense()


def range_sums(x: Array, lows: Codes, highs: Codes) -> Array:
    """Sums of x (columns, k) over ranges, as differences of cumulative sums, (ranges, k)."""
    running = np.zeros((len(x) + 1, x.shape[1]), dtype=x.dtype)
    np.cumsum(x, axis=0, out=running[1:])
    return np.asarray(running[highs + 1] - running[lows])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _EachCellOnce(Indicators):
    """Families in which every column has exactly one 1."""

    def _totals(self, power: int) -> Array:
        return np.ones(self.columns, dtype=np.int64)

    def _peak(self, power: int) -> int:
        return 1

    def _level(self, power: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Identity(_EachCellOnce):
    """Identity: every cell by itself.

    >>> (Identity(3) @ [4, 5, 6]).tolist(), Identity(10**12).l1
    ([4, 5, 6], 1)
    """

    form = Form("identity")

    def __init__(self, n: int) -> None:
        columns = size(n, "Identity")
        self._store(rows=columns, columns=columns)

    def _times(self, x: Array) -> Array:
        return x.copy()

    def _back(self, y: Array) -> Array:
        return y.copy()

    def _gram(self, weights: Array | None) -> Array:
        return np.eye(self.columns, dtype=np.int64) if weights is None else np.diag(weights)

    def _select(self, index: Array) -> Queries:
        return Cells(self.columns, index)

    def _dense(self) -> Array:
        return np.eye(self.columns, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Total(_EachCellOnce):
    """Total: the sum of all cells, one row.

    >>> (Total(3) @ [4, 5, 6]).tolist()
    [15]
    """

    form = Form("total")

    def __init__(self, n: int) -> None:
        self._store(rows=1, columns=size(n, "Total"))

    def _times(self, x: Array) -> Array:
        return x.sum(axis=0, keepdims=True)  # type: ignore[no-any-return]

    def _back(self, y: Array) -> Array:
        return np.repeat(y, self.columns, axis=0)

    def _gram(self, weights: Array | None) -> Array:
        return np.full((self.columns, self.columns), 1 if weights is None else weights[0])

    def _select(self, index: Array) -> Queries:
        if len(index) == 1:
            return self
        return Ranges(self.columns, np.zeros_like(index), np.full_like(index, self.columns - 1))

    def _dense(self) -> Array:
        return np.ones((1, self.columns), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prefix(Indicators):
    """Prefixes (cumulative counts): row i covers the cells 0 to i.

    >>> (Prefix(3) @ [4, 5, 6]).tolist()
    [4, 9, 15]
    """

    form = Form("prefix")

    def __init__(self, n: int) -> None:
        columns = size(n, "Prefix")
        self._store(rows=columns, columns=columns)

    def _times(self, x: Array) -> Array:
        return np.cumsum(x, axis=0)

    def _back(self, y: Array) -> Array:
        return np.cumsum(y[::-1], axis=0)[::-1]

    def _totals(self, power: int) -> Array:
        return np.arange(self.columns, 0, -1, dtype=np.int64)

    def _peak(self, power: int) -> int:
        return self.columns

    def _level(self, power: int) -> int | None:
        return 1 if self.columns == 1 else None

    def _gram(self, weights: Array | None) -> Array:
        column = np.arange(self.columns)
        covers = self._totals(1) if weights is None else np.cumsum(weights[::-1])[::-1]
        return np.asarray(covers[np.maximum.outer(column, column)])  # the prefixes from the later of i and j hold both

    def _select(self, index: Array) -> Queries:
        return Ranges(self.columns, np.zeros_like(index), index)

    def _dense(self) -> Array:
        return np.tri(self.columns, dtype=np.int64)
