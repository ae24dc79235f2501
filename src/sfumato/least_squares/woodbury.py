"""Least squares on all cells and further queries, few (as in a p-identity strategy) or disjoint (as regions are).

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 4: with D the cells' precisions and p further rows B of
variances V, (D + B^T V^-1 B)^-1 = D^-1 - D^-1 B^T (V + B D^-1 B^T)^-1 B D^-1 (Sherman, Morrison, Woodbury). The matrix
in the middle is p x p; where no cell is in two rows it is diagonal, and p may be large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import LeastSquares, all_known, pieces
from sfumato.least_squares.cells import EachCell, every_cell
from sfumato.least_squares.dense import solve_by_root
from sfumato.least_squares.gram import Gram
from sfumato.queries import Queries, Stack
from sfumato.queries.base import Indicators

FEW_ROWS = 2048  # beside all cells, up to which they are written out
FEW_ENTRIES = 2**25  # of all of these


class Woodbury(LeastSquares):
    """Linear in the cells times p, once p x p has been factored; linear in the cells for disjoint rows."""

    def __init__(self, cells: Floats, rows: Queries, precisions: Floats) -> None:
        asked = precisions > 0
        kept = rows if asked.all() else rows[asked]
        self._apart = disjoint(kept)
        self._cells, self._precisions = cells[:, None], precisions[asked, None]
        variances = 1.0 / precisions[asked]
        self._few: Any = kept  # what @ and .T apply to: here queries, below a matrix
        if self._apart:
            self._middle = (variances + kept @ (1.0 / cells))[:, None]
        else:
            self._few = matrix = kept.dense().astype(np.float64)
            self._middle = np.asarray(
                np.linalg.cholesky(np.diag(variances) + (matrix / cells) @ matrix.T), dtype=np.float64
            )

    @classmethod
    def of(cls, queries: Stack, precisions: Floats) -> LeastSquares | None:
        """Where one block is all cells, and the rest few rows or disjoint ones."""
        blocks = pieces(queries, precisions)
        for place, (block, each) in enumerate(blocks):
            if not every_cell(block) or not (each > 0).all():
                continue
            rest = blocks[:place] + blocks[place + 1 :]
            rows = rest[0][0] if len(rest) == 1 else Stack(*(one for one, _ in rest))
            few = rows.rows <= min(FEW_ROWS, queries.columns) and rows.rows * queries.columns <= FEW_ENTRIES
            weights = np.concatenate([more for _, more in rest])
            if not weights.any():
                return EachCell(each)
            if few or disjoint(rows):
                return cls(each, rows, weights)
        return None

    @property
    def closed(self) -> bool:
        return not self._apart or len(self._precisions) * len(self._cells) <= FEW_ENTRIES

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Solved once, and what rounding left over once more: the difference above may cancel."""
        solved = self._once(columns)
        left = columns - self._cells * solved - self._few.T @ (self._precisions * (self._few @ solved))
        return solved + self._once(left), all_known(columns)

    def price(self, gram: Gram) -> float:
        """The price of the cells alone, less what the further rows tell about them."""
        rows = self._few.dense() if self._apart else self._few
        alone = rows / self._cells[:, 0]
        cells, asked = float((gram.diagonal / self._cells[:, 0]).sum()), gram.times(alone)
        if self._apart:
            return cells - float((self._shared(alone) * asked).sum())
        return cells - float(np.trace(self._shared(asked @ alone.T)))  # few by few, before anything is solved

    def _shared(self, rows: Floats) -> Floats:
        """The inverse of the matrix in the middle, times this."""
        return np.asarray(rows / self._middle) if self._apart else solve_by_root(self._middle, rows)

    def _once(self, columns: Floats) -> Floats:
        alone = columns / self._cells
        return np.asarray(alone - (self._few.T @ self._shared(self._few @ alone)) / self._cells)


def disjoint(rows: Queries) -> bool:
    """Whether these are rows of ones and zeros, and no cell is in two of them."""
    return isinstance(rows, Indicators) and rows.l1 <= 1
