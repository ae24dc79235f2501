"""Queries along one ordered axis: identity, total, prefixes, all ranges, or a list of ranges. Entries are 0 or 1.

Running totals over periods: the square root of the prefix matrix, on a grid, measured period by period.

The prefix matrix A (ones on and below the diagonal) is C^2 with the lower-triangular Toeplitz matrix C of coefficients
c_k = binom(2k, k) / 4^k (Fichtenberger, Henzinger, Upadhyay 2023). Here C has its coefficients rounded to multiples of
1 / GRID, the first of which is 1: any such matrix may be measured, and this one loses less than 0.02 %. Measuring
C x + z, with z of standard deviation s on each period, gives single periods x + C^-1 z and running totals
A x + A C^-1 z. One person in one period moves C x by a column of C, so s is the noise of one measurement times the
length of the first column, the longest; one in k periods moves it by the sum of k columns (`worst_square`):

    standard error of the running total of t periods:  s * length of row t of A C^-1, nearly that of row t of C
    of the t-th period alone:                           s * length of row t of C^-1

Both are known before any data. GRID * C is whole, so that GRID * C x is, and noise is drawn in whole GRID-ths of a row.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import sqrt

import numpy as np

from sfumato.arrays import Codes, Floats
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


# -- running

GRID = 2**10  # coefficients and noise are multiples of 1 / GRID, as estimates in files are


@lru_cache(maxsize=16)
def coefficients(periods: int) -> tuple[Fraction, ...]:
    """Coefficients binom(2k, k) / 4^k of the square root of the prefix matrix.

    >>> [str(each) for each in coefficients(4)]
    ['1', '1/2', '3/8', '5/16']
    """
    result = [Fraction(1)]
    for k in range(1, periods):
        result.append(result[-1] * Fraction(2 * k - 1, 2 * k))
    return tuple(result)


@lru_cache(maxsize=16)
def on_grid(periods: int) -> tuple[int, ...]:
    """Coefficients of the square root rounded to multiples of 1 / GRID, as they are measured.

    >>> on_grid(4)
    (1024, 512, 384, 320)
    """
    return tuple(round(each * GRID) for each in coefficients(periods))


@lru_cache(maxsize=16)
def worst_square(periods: int, together: int = 1) -> Fraction:
    """Largest squared L2 sensitivity per period, exact, to one person's rows in up to so many periods.

    The largest of |sum of the first j columns of GRID * C|^2 / j for j up to `together`: no other j columns have a
    longer sum (docs/privacy.md, theorem 14). Of one period it is the first column's, of which every later one is a
    beginning.

    >>> worst_square(2) / GRID**2, worst_square(2, together=2) / GRID**2
    (Fraction(5, 4), Fraction(13, 8))
    """
    prefix = np.cumsum(np.array(on_grid(periods), dtype=np.int64))  # of 4,096 periods: sums of squares stay below 2^50

    def square(j: int) -> Fraction:
        moved = prefix.copy()
        moved[j:] -= prefix[: periods - j]
        return Fraction(int((moved**2).sum()), j)

    return max(square(j) for j in range(1, min(together, periods) + 1))


@dataclass(frozen=True)
class Running:
    """Standard errors of running totals under the square-root factorisation, per unit noise of one measurement.

    together: periods in which one person may be.
    """

    periods: int
    together: int = 1

    @property
    def sensitivity(self) -> float:
        """Sensitivity of the factor C, relative to one period measured anew."""
        return sqrt(worst_square(self.periods, self.together)) / GRID

    @property
    def inverse(self) -> Floats:
        """Coefficients of C^-1, by the recursion of power series, (periods,)."""
        row, back = np.array(on_grid(self.periods)) / GRID, np.zeros(self.periods)
        back[0] = 1.0
        for k in range(1, self.periods):
            back[k] = -float(row[1 : k + 1] @ back[k - 1 :: -1][:k])
        return back

    def totals(self) -> Floats:
        """Standard error of the running total of 1, 2, ... periods, (periods,)."""
        return self._errors(np.cumsum(self.inverse))

    def single(self) -> Floats:
        """Standard error of every single period, (periods,)."""
        return self._errors(self.inverse)

    def anew(self) -> Floats:
        """Standard error of running totals where every period is measured anew, (periods,)."""
        return np.asarray(np.sqrt(np.arange(1.0, self.periods + 1)))

    def _errors(self, row: Floats) -> Floats:
        return np.asarray(self.sensitivity * np.sqrt(np.cumsum(row**2)), dtype=np.float64)
