"""Privelet's wavelet for categories: the total, and how far each category lies from the average one.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010, section V. The paper's coefficient of a
child is its count less the mean of its siblings and itself; times the number of children it is a whole number.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, listable, size
from sfumato.queries.base import Queries
from sfumato.queries.form import Form
from sfumato.queries.selected import Selected


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Contrasts(Queries):
    """The total, then for every cell `own` times itself plus `others` times each other cell.

    Of a single cell there is only the total.
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
        """0 for the total, 1 for the categories."""
        return np.minimum(np.arange(self.rows), 1)

    def _times(self, x: Array) -> Array:
        total = x.sum(axis=0, keepdims=True)
        return np.concatenate([total, self._mixed(x, total)]) if self.rows > 1 else total

    def _back(self, y: Array) -> Array:
        cells = y[1:]
        return y[:1] + self._mixed(cells, cells.sum(axis=0, keepdims=True)) if self.rows > 1 else y.copy()

    def _mixed(self, cells: Array, total: Array) -> Array:
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
    """The total of n categories, then for every category n times its count less the total.

    A row in one category moves the total by 1 and the others by 2 (n - 1) together; the paper gives both halves of the
    wavelet the same budget, so the total's noise is 2 (n - 1) times smaller than that of a category here.

    >>> (NominalHaar(3) @ [1, 2, 6]).tolist(), NominalHaar(3).row_level.tolist()
    ([9, -6, -3, 9], [0, 1, 1, 1])
    """

    form = Form("nominal-haar")

    def __init__(self, n: int) -> None:
        columns = size(n, "NominalHaar")
        Contrasts.__init__(self, columns, columns - 1, -1)
