"""Least squares on a tree of noisy ranges, in two passes.

Hay, Rastogi, Miklau, Suciu, VLDB 2010, section 4: one pass up, one pass down. The paper's trees are full and their
noise is the same everywhere; here every node has its own precision and its own number of children.

What a subtree has to say about its own sum s is a parabola, a/2 (s - m)^2: `m` is where the subtree alone would put the
sum, `a` how firmly. A cell has its own precision for a. The children of a node speak for their sum with 1 / a = sum of
their 1 / a, around the sum t of their m; the node's own measurement adds its precision. Going down, what the sum of the
children is lifted by is shared out in proportion to their 1 / a.

Least squares on Privelet's wavelets: both have an inverse in closed form.

Least squares on all cells and further queries, few (as in a p-identity strategy) or disjoint (as regions are).

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 4: with D the cells' precisions and p further rows B of
variances V, (D + B^T V^-1 B)^-1 = D^-1 - D^-1 B^T (V + B D^-1 B^T)^-1 B D^-1 (Sherman, Morrison, Woodbury). The matrix
in the middle is p x p; where no cell is in two rows it is diagonal, and p may be large.
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
    """A level that is cut further, and how its nodes and their children trade."""

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
        """Two passes, linear in the number of nodes."""
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
        """One pass up: adding a node's row to its subtree is a change of rank one (Sherman, Morrison)."""
        ones = 1.0 / self._cells  # the inverse of every subtree so far, times a column of ones
        error = float((gram.diagonal * ones).sum())
        for level in self._levels:
            error -= float((level.own * level.keep * gram.squares(ones, level.cuts)).sum())
            ones = ones * np.repeat(level.keep, np.diff(level.cuts))
        return error


class HaarSquares(LeastSquares):
    """A is square, so (A^T P A)^-1 = A^-1 P^-1 A^-T; A^-1 is A^T with rows and columns times powers of two.

    A half of a range is half of its total plus or minus half of its difference, so on the way down to a cell every
    halving divides by two all that came before it.
    """

    def __init__(self, haar: Haar, precisions: Floats) -> None:
        first, pairs = haar.pairs()
        depth = np.full(haar.columns, haar.height)
        depth[np.delete(first, pairs)] -= haar.height > 0  # cells that were alone before the last halving
        self._haar = haar
        self._cells = np.ldexp(1.0, -depth)
        self._rows = np.ldexp(1.0, 2 * np.maximum(haar.row_level - 1, 0)) / precisions

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Down, across and up again, linear in the number of cells."""
        cells, rows = self._cells[:, None], self._rows[:, None]
        return (self._haar.T @ ((self._haar @ (columns * cells)) * rows)) * cells, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Level by level: the rows of one touch different cells, so that all of them are one column."""
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
    """With n categories of variances v and the total's variance v0, the inverse is (V - v v^T / sum v + v0 J) / n^2.

    A^T P A is n^2 P - n (p 1^T + 1 p^T) + (sum p + p0) J; multiplied out with the above, everything but I cancels.
    """

    def __init__(self, wavelet: NominalHaar, precisions: Floats) -> None:
        self._cells = wavelet.columns
        self._total, self._each = 1.0 / precisions[0], 1.0 / precisions[1:]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Linear in the number of categories."""
        solved = np.repeat(self._total * columns.sum(axis=0, keepdims=True), self._cells, axis=0)
        if self._cells > 1:
            each = self._each[:, None]
            solved += each * (columns - (each * columns).sum(axis=0, keepdims=True) / each.sum())
        return solved / self._cells**2, all_known(columns)

    def price(self, gram: Gram) -> float:
        """Linear in the number of categories where the Gram matrix is short."""
        error = self._total * gram.grand
        if self._cells > 1:
            shared = float(gram.squares(self._each, np.array([0, self._cells]))[0]) / float(self._each.sum())
            error += float((gram.diagonal * self._each).sum()) - shared
        return float(error / self._cells**2)


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
