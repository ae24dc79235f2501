"""Least squares on Privelet's wavelets: both have an inverse in closed form."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import LeastSquares, all_known
from sfumato.least_squares.gram import Gram, even_cuts
from sfumato.queries import Haar, NominalHaar


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
