"""Least squares on Privelet's wavelets: both have an inverse in closed form."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import all_known
from sfumato.queries import Haar, NominalHaar


class HaarSolver:
    """A is square, so (A^T P A)^-1 = A^-1 P^-1 A^-T; A^-1 is A^T with rows and columns times powers of two.

    A half of a range is half of its total plus or minus half of its difference, so on the way down to a cell every
    halving divides by two all that came before it.
    """

    certain = True

    def __init__(self, haar: Haar, precisions: Floats) -> None:
        first, pairs = haar.pairs()
        depth = np.full(haar.columns, haar.height)
        depth[np.delete(first, pairs)] -= haar.height > 0  # cells that were alone before the last halving
        self._haar = haar
        self._cells = np.ldexp(1.0, -depth)[:, None]
        self._rows = (np.ldexp(1.0, 2 * np.maximum(haar.row_level - 1, 0)) / precisions)[:, None]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Down, across and up again, linear in the number of cells."""
        answers = self._haar @ (columns * self._cells)
        return (self._haar.T @ (answers * self._rows)) * self._cells, all_known(columns)


class NominalHaarSolver:
    """With n categories of variances v and the total's variance v0, the inverse is (V - v v^T / sum v + v0 J) / n^2.

    A^T P A is n^2 P - n (p 1^T + 1 p^T) + (sum p + p0) J; multiplied out with the above, everything but I cancels.
    """

    certain = True

    def __init__(self, wavelet: NominalHaar, precisions: Floats) -> None:
        variances = 1.0 / precisions
        self._total, self._each = variances[0], variances[1:, None]
        self._cells = wavelet.columns

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Linear in the number of categories."""
        solved = np.repeat(self._total * columns.sum(axis=0, keepdims=True), self._cells, axis=0)
        if self._cells > 1:
            mean = (self._each * columns).sum(axis=0, keepdims=True) / self._each.sum()
            solved += self._each * (columns - mean)
        return solved / self._cells**2, all_known(columns)
