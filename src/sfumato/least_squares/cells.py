"""Least squares on every cell by itself, and on all of them as one total."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.base import KNOWN, UNSEEN, LeastSquares, all_known
from sfumato.least_squares.gram import Gram
from sfumato.queries import Identity, Kron, Queries


@dataclass(frozen=True, eq=False)
class EachCell(LeastSquares):
    """Identity: the inverse is diagonal. A cell of no precision is not determined."""

    precisions: Floats

    @property
    def certain(self) -> bool:
        return bool((self.precisions > 0).all())

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        if self.certain:
            return columns / self.precisions[:, None], all_known(columns)
        seen = self.precisions > 0
        solved = np.divide(columns, self.precisions[:, None], out=np.zeros_like(columns), where=seen[:, None])
        return solved, np.logical_not(columns[~seen].any(axis=0))

    def price(self, gram: Gram) -> float:
        return self.price_of_squares(gram.diagonal)

    def price_of_squares(self, squares: Floats) -> float:
        """The price of any workload with these sums of squares in its columns: no more of it matters."""
        seen = self.precisions > 0
        return np.inf if squares[~seen].any() else float((squares[seen] / self.precisions[seen]).sum())


@dataclass(frozen=True, eq=False)
class OneTotal(LeastSquares):
    """Total: only multiples of the sum of all cells are determined."""

    cells: int
    precision: float

    @property
    def certain(self) -> bool:
        return self.cells == 1

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        mean = columns.mean(axis=0, keepdims=True)
        apart = np.abs(columns - mean).max(axis=0)
        return np.repeat(mean / (self.cells * self.precision), self.cells, axis=0), apart <= KNOWN * np.abs(mean[0])

    def price(self, gram: Gram) -> float:
        even, asked = gram.grand / self.cells, float(gram.diagonal.sum())
        return even / (self.cells * self.precision) if asked - even <= UNSEEN * asked else np.inf


def every_cell(queries: Queries) -> bool:
    """Whether these are all cells, in one axis or in several."""
    return type(queries) is Identity or (type(queries) is Kron and all(map(every_cell, queries.factors)))
