"""The plainest families over one axis: every cell, the total, the prefixes. All entries are 0 or 1."""

from __future__ import annotations

import numpy as np

from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, size
from sfumato.queries.base import Indicators, Queries
from sfumato.queries.cells import Cells
from sfumato.queries.form import Form
from sfumato.queries.ranges import Ranges


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class _EachCellOnce(Indicators):
    """Families with one row for every cell, whichever row that is."""

    def _totals(self, power: int) -> Array:
        return np.ones(self.columns, dtype=np.int64)

    def _peak(self, power: int) -> int:
        return 1

    def _level(self, power: int) -> int:
        return 1


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Identity(_EachCellOnce):
    """Every cell by itself.

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

    def _row(self, place: int) -> Array:
        row = np.zeros(self.columns, dtype=np.int64)
        row[place] = 1
        return row

    def _dense(self) -> Array:
        return np.eye(self.columns, dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Total(_EachCellOnce):
    """All cells together: one row.

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

    def _row(self, place: int) -> Array:
        return np.ones(self.columns, dtype=np.int64)

    def _dense(self) -> Array:
        return np.ones((1, self.columns), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Prefix(Indicators):
    """Row i covers the cells 0 to i.

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

    def _row(self, place: int) -> Array:
        return (np.arange(self.columns) <= place).astype(np.int64)

    def _dense(self) -> Array:
        return np.tri(self.columns, dtype=np.int64)
