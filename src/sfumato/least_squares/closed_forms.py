"""Closed-form least squares for trees, wavelets, and the identity with additional rows.

`TreeSquares` (Hay, Rastogi, Miklau, Suciu, VLDB 2010, section 4): one pass up, one pass down. The paper's trees are
complete with equal noise; here every node has its own precision and number of children. A subtree's likelihood of its
sum s is a parabola a/2 (s - m)^2. A cell has its own precision for a. Children combine as 1 / a = sum of their 1 / a,
around the sum of their m; the node's own measurement adds its precision. Down the tree, the correction of a node is
shared out to its children in proportion to their 1 / a.

`HaarSquares`, `NominalSquares`: Privelet's wavelets (Xiao, Wang, Gehrke, ICDE 2010) have explicit inverses.

`Woodbury` (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 4): with D the cells' precisions and p further
rows B of variances V, (D + B^T V^-1 B)^-1 = D^-1 - D^-1 B^T (V + B D^-1 B^T)^-1 B D^-1 (Sherman, Morrison, Woodbury).
The inner matrix is p x p; where the rows of B are disjoint it is diagonal, and p may be large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.base import EachCell, LeastSquares, all_known, every_cell, pieces
from sfumato.least_squares.general import solve_by_root
from sfumato.least_squares.gram import Gram, even_cuts
from sfumato.queries import Haar, NominalHaar, Queries, Stack, Tree
from sfumato.queries.base import Indicators


@dataclass(frozen=True, eq=False)
class _Level:
    """Level of inner nodes, with the coefficients of both passes."""

    cuts: Codes  # the cells at which its nodes begin and end
    first: Codes  # of each node's children, on the next level
    parts: Codes  # how many children
    own: Floats  # the precision of each node's own measurement, 0 where it has none
    keep: Floats  # the share of the children's sum that is left beside a node's own measurement
    lift: Floats  # for every child, its share of what the node is lifted by


class TreeSquares(LeastSquares):
    """(A^T P A)^-1 for the nodes of a tree, every cell with a precision above 0."""

    def __init__(self, tree: Tree, precisions: Floats) -> None:
        end = tree.rows - tree.columns
        firmness = self._cells = precisions[end:]
        self._levels: list[_Level] = []  # from the cells upwards
        for cuts, first in zip(tree.levels[-2::-1], reversed(tree.children), strict=True):
            parts = np.diff(first)
            cut = parts > 1
            together = 1.0 / np.add.reduceat(1.0 / firmness, first[:-1])
            lift = np.repeat(together, parts) / firmness
            start = end - int(cut.sum())
            own = np.zeros(len(parts))
            own[cut] = precisions[start:end]
            firmness, end = together + own, start
            self._levels.append(_Level(cuts, first[:-1], parts, own, together / firmness, lift))

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Upward and downward pass, linear in the number of nodes."""
        alone = columns / self._cells[:, None]
        passed = []
        for level in self._levels:
            together = np.add.reduceat(alone, level.first, axis=0)
            passed.append((alone, together))
            alone = together * level.keep[:, None]
        sums = alone
        for level, (alone, together) in zip(reversed(self._levels), reversed(passed), strict=True):
            sums = alone + np.repeat(sums - together, level.parts, axis=0) * level.lift[:, None]
        return sums, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Upward pass of rank-one updates, one for each node's own row (Sherman, Morrison)."""
        ones = 1.0 / self._cells  # the inverse of every subtree so far, times a column of ones
        error = float((gram.diagonal * ones).sum())
        for level in self._levels:
            error -= float((level.own * level.keep * gram.squares(ones, level.cuts)).sum())
            ones = ones * np.repeat(level.keep, np.diff(level.cuts))
        return error


class HaarSquares(LeastSquares):
    """Haar wavelet: A is square, so (A^T P A)^-1 = A^-1 P^-1 A^-T.

    A^-1 is A^T with rows and columns times powers of two: a half is half of its range's total plus or minus half of its
    difference, so every bisection down to a cell divides all earlier coefficients by two.
    """

    def __init__(self, haar: Haar, precisions: Floats) -> None:
        first, pairs = haar.pairs()
        depth = np.full(haar.columns, haar.height)
        depth[np.delete(first, pairs)] -= haar.height > 0  # cells that were alone before the last halving
        self._haar = haar
        self._cells = np.ldexp(1.0, -depth)
        self._rows = np.ldexp(1.0, 2 * np.maximum(haar.row_level - 1, 0)) / precisions

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Inverse transform, scaling and transform, linear in the number of cells."""
        cells, rows = self._cells[:, None], self._rows[:, None]
        return (self._haar.T @ ((self._haar @ (columns * cells)) * rows)) * cells, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Sum over levels; the rows of one level touch different cells, so that they are priced as one column."""
        n, height = self._haar.columns, self._haar.height
        error = float(gram.squares(self._cells, np.array([0, n]))[0] * self._rows[0])
        for level in range(height):
            halves = even_cuts(n, 2 ** (level + 1))
            cuts = halves[::2]
            middle = halves[1::2] if level < height - 1 else cuts[:-1] + 1
            left = np.arange(n) < np.repeat(middle, np.diff(cuts))
            each = gram.squares(np.where(left, self._cells, -self._cells), cuts)[np.diff(cuts) > 1]
            error += float((each * self._rows[2**level : 2**level + len(each)]).sum())
        return error


class NominalSquares(LeastSquares):
    """Nominal wavelet: with n categories of variances v and variance v0 of the total, (V - v v^T / sum v + v0 J) / n^2.

    A^T P A is n^2 P - n (p 1^T + 1 p^T) + (sum p + p0) J; the product with the above is I.
    """

    def __init__(self, wavelet: NominalHaar, precisions: Floats) -> None:
        self._cells = wavelet.columns
        self._total, self._each = 1.0 / precisions[0], 1.0 / precisions[1:]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Explicit inverse, linear in the number of categories."""
        solved = np.repeat(self._total * columns.sum(axis=0, keepdims=True), self._cells, axis=0)
        if self._cells > 1:
            each = self._each[:, None]
            solved += each * (columns - (each * columns).sum(axis=0, keepdims=True) / each.sum())
        return solved / self._cells**2, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Trace in closed form, linear in the number of categories where the Gram matrix is short."""
        error = self._total * gram.grand
        if self._cells > 1:
            shared = float(gram.squares(self._each, np.array([0, self._cells]))[0]) / float(self._each.sum())
            error += float((gram.diagonal * self._each).sum()) - shared
        return float(error / self._cells**2)


FEW_ROWS = 2048  # beside all cells, up to which they are written out
FEW_ENTRIES = 2**25  # of all of these


class Woodbury(LeastSquares):
    """Identity with p further rows, by a p x p Cholesky factor, or by a diagonal matrix where the rows are disjoint."""

    def __init__(self, cells: Floats, rows: Queries, precisions: Floats) -> None:
        measured = precisions > 0
        kept = rows if measured.all() else rows[measured]
        self._apart = disjoint(kept)
        self._cells, self._precisions = cells[:, None], precisions[measured, None]
        variances = 1.0 / precisions[measured]
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
        """Inverse for a stack in which one block is all cells and the others are few or disjoint rows; else None."""
        blocks = pieces(queries, precisions)
        for index, (block, own) in enumerate(blocks):
            if not every_cell(block) or not (own > 0).all():
                continue
            others = blocks[:index] + blocks[index + 1 :]
            rows = others[0][0] if len(others) == 1 else Stack(*(one for one, _ in others))
            few = rows.rows <= min(FEW_ROWS, queries.columns) and rows.rows * queries.columns <= FEW_ENTRIES
            weights = np.concatenate([extra for _, extra in others])
            if not weights.any():
                return EachCell(own)
            if few or disjoint(rows):
                return cls(own, rows, weights)
        return None

    @property
    def closed(self) -> bool:
        return not self._apart or len(self._precisions) * len(self._cells) <= FEW_ENTRIES

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Woodbury solution with one step of iterative refinement, since the difference may cancel."""
        solved = self._once(columns)
        residual = columns - self._cells * solved - self._few.T @ (self._precisions * (self._few @ solved))
        return solved + self._once(residual), all_known(columns)

    def price(self, gram: Gram) -> float:
        """Squared error of the cells alone, less the reduction by the further rows."""
        rows = self._few.dense() if self._apart else self._few
        alone = rows / self._cells[:, 0]
        cells, products = float((gram.diagonal / self._cells[:, 0]).sum()), gram.times(alone)
        if self._apart:
            return cells - float((self._shared(alone) * products).sum())
        return cells - float(np.trace(self._shared(products @ alone.T)))  # few by few, before anything is solved

    def _shared(self, rows: Floats) -> Floats:
        """Inverse of the inner matrix V + B D^-1 B^T times rows."""
        return np.asarray(rows / self._middle) if self._apart else solve_by_root(self._middle, rows)

    def _once(self, columns: Floats) -> Floats:
        """Woodbury solution without refinement."""
        alone = columns / self._cells
        return np.asarray(alone - (self._few.T @ self._shared(self._few @ alone)) / self._cells)


def disjoint(rows: Queries) -> bool:
    """Whether rows are indicators of pairwise disjoint sets of cells."""
    return isinstance(rows, Indicators) and rows.l1 <= 1
