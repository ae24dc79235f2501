"""Privelet's wavelets as integer queries: Haar for ordered cells, the nominal wavelet for categories.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010. The paper divides each coefficient by a
weight and gives it noise in proportion; its Haar coefficients times their weights are asked here, left half minus right
half, and all carry equal noise. The paper pads the cells to a power of two; here halves may be uneven by a cell, which
never costs more. Nominal wavelet (section V): the coefficient of a category is its count less the mean over all
categories; times their number it is an integer.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, listable, size
from sfumato.queries.base import Form, Queries
from sfumato.queries.compose import Selected
from sfumato.queries.ranges import Ranges


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Haar(Queries):
    """Haar wavelet: the total, then left half minus right half of every range of the recursive bisection, widest first.

    As many rows as cells, entries 1, -1 and 0. A range with total t and difference d has halves (t + d) / 2 and (t - d)
    / 2, even or not, so the cells follow from the answers in one pass.

    >>> (Haar(4) @ [1, 2, 3, 4]).tolist(), Haar(4).row_level.tolist()
    ([10, -4, -1, -1], [0, 1, 2, 2])
    >>> Haar(3).dense().tolist()
    [[1, 1, 1], [1, -1, -1], [0, 1, -1]]
    """

    form = Form("haar")
    integral = True
    entry_bound = 1

    def __init__(self, n: int) -> None:
        columns = size(n, "Haar")
        listable(columns, "the cells of Haar", "use fewer cells, or coarser ones")
        self._store(rows=columns, columns=columns)

    @property
    def height(self) -> int:
        """Number of bisections until only single cells are left."""
        return (self.columns - 1).bit_length()

    @property
    def row_level(self) -> Codes:
        """Depth of every row, (rows,): 0 for the total, 1 for the difference of the two halves, and so on."""
        return np.frexp(np.arange(self.rows, dtype=np.float64))[1].astype(np.int64)  # the binary digits of its number

    def pairs(self) -> tuple[Codes, Codes]:
        """Ranges before the last bisection: first cell of each, and which of them have two cells."""
        width = 2 ** max(0, self.height - 1)
        cuts = np.arange(width + 1, dtype=np.int64) * self.columns // width
        return cuts[:-1], np.flatnonzero(np.diff(cuts) == 2)

    def _times(self, x: Array) -> Array:
        answers = np.empty_like(x)
        if self.height:
            first, two = self.pairs()
            sums, second = x[first], x[first[two] + 1]
            answers[len(first) :] = sums[two] - second
            sums[two] += second
            while len(sums) > 1:
                answers[len(sums) // 2 : len(sums)] = sums[::2] - sums[1::2]
                sums = sums[::2] + sums[1::2]
            answers[0] = sums[0]
        else:
            answers[0] = x[0]
        return answers

    def _back(self, y: Array) -> Array:
        sums = y[:1].copy()
        if not self.height:
            return sums
        first, two = self.pairs()
        while len(sums) < len(first):
            difference, halves = y[len(sums) : 2 * len(sums)], np.empty((2 * len(sums), y.shape[1]), dtype=y.dtype)
            np.add(sums, difference, out=halves[::2])
            np.subtract(sums, difference, out=halves[1::2])
            sums = halves
        cells, last = np.empty_like(y), y[len(first) :]
        cells[first] = sums
        cells[first[two]] += last
        cells[first[two] + 1] = sums[two] - last
        return cells

    def _totals(self, power: int) -> Array:
        return self._magnitudes(1)._totals(1)

    def _peak(self, power: int) -> int:
        return 1 + self.height

    def _level(self, power: int) -> int | None:
        return 1 + self.height if self.columns == 2**self.height else None

    def _nodes(self) -> tuple[Codes, Codes, Codes]:
        """First cell, first cell of the right half and last cell of the range of every row but the total's."""
        nodes = [np.zeros((3, 0), dtype=np.int64)]
        for level in range(self.height):
            halves = np.arange(2 ** (level + 1) + 1, dtype=np.int64) * self.columns // 2 ** (level + 1)
            low, middle, high = halves[:-1:2], halves[1::2], halves[2::2] - 1
            if level == self.height - 1:
                middle = low + 1
            nodes.append(np.stack([low, middle, high])[:, high > low])
        low, middle, high = np.concatenate(nodes, axis=1)
        return low, middle, high

    def _magnitudes(self, power: int) -> Queries:
        lows, _, highs = self._nodes()
        return Ranges(self.columns, np.append(0, lows), np.append(self.columns - 1, highs))

    def _select(self, index: Array) -> Queries:
        return Selected(self, index)

    def _row(self, place: int) -> Array:
        if place == 0:
            return np.ones(self.columns, dtype=np.int64)
        low, middle, high = (ends[place - 1] for ends in self._nodes())
        row = np.zeros(self.columns, dtype=np.int64)
        row[low:middle], row[middle : high + 1] = 1, -1
        return row

    def _dense(self) -> Array:
        lows, middles, highs = (ends[:, None] for ends in self._nodes())
        column = np.arange(self.columns)
        signs = np.where(column < middles, 1, -1) * ((lows <= column) & (column <= highs))
        return np.vstack([np.ones((1, self.columns), dtype=np.int64), signs])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contrasts(Queries):
    """Total, then for every cell `own` times itself plus `others` times each other cell.

    A single cell has only the total.
    """

    own: int
    others: int

    integral = True

    def __init__(self, n: int, own: int, others: int) -> None:
        columns = size(n, "NominalHaar")
        listable(columns, "the cells of NominalHaar", "use fewer cells, or coarser ones")
        self._store(rows=1 if columns == 1 else columns + 1, columns=columns, own=own, others=others)

    @property
    def entry_bound(self) -> int:
        return 1 if self.rows == 1 else max(1, abs(self.own), abs(self.others))

    @property
    def row_level(self) -> Codes:
        """Level of every row, (rows,): 0 for the total, 1 for the categories."""
        return np.minimum(np.arange(self.rows), 1)

    def _times(self, x: Array) -> Array:
        total = x.sum(axis=0, keepdims=True)
        return np.concatenate([total, self._mixed(x, total)]) if self.rows > 1 else total

    def _back(self, y: Array) -> Array:
        cells = y[1:]
        return y[:1] + self._mixed(cells, cells.sum(axis=0, keepdims=True)) if self.rows > 1 else y.copy()

    def _mixed(self, cells: Array, total: Array) -> Array:
        """own * cells + others * (total - cells), (columns, k)."""
        return np.asarray((self.own - self.others) * cells + self.others * total)

    def _totals(self, power: int) -> Array:
        return np.full(self.columns, self._peak(power), dtype=np.int64)

    def _peak(self, power: int) -> int:
        others = (self.columns - 1) * abs(self.others) ** power
        return 1 if self.rows == 1 else 1 + abs(self.own) ** power + others

    def _level(self, power: int) -> int:
        return self._peak(power)

    def _magnitudes(self, power: int) -> Queries:
        return Contrasts(self.columns, abs(self.own) ** power, abs(self.others) ** power)

    def _select(self, index: Array) -> Queries:
        return Selected(self, index)

    def _row(self, place: int) -> Array:
        row = np.full(self.columns, self.others if place else 1, dtype=np.int64)
        if place:
            row[place - 1] = self.own
        return row

    def _dense(self) -> Array:
        total = np.ones((1, self.columns), dtype=np.int64)
        own = np.eye(self.columns, dtype=bool)
        return np.vstack([total, np.where(own, self.own, self.others)]) if self.rows > 1 else total


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class NominalHaar(Contrasts):
    """Nominal wavelet: the total of n categories, then for every category n times its count less the total.

    A row in one category changes the total by 1 and the others by 2 (n - 1) together; the paper gives both parts the
    same budget, so the total's noise is 2 (n - 1) times smaller than that of a category here.

    >>> (NominalHaar(3) @ [1, 2, 6]).tolist(), NominalHaar(3).row_level.tolist()
    ([9, -6, -3, 9], [0, 1, 1, 1])
    """

    form = Form("nominal-haar")

    def __init__(self, n: int) -> None:
        columns = size(n, "NominalHaar")
        Contrasts.__init__(self, columns, columns - 1, -1)
