"""Least squares with the normal equations written out: for strategies over few cells that have no shorter form."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import KNOWN, Normal, all_known
from sfumato.queries import Queries

FIRM = 1e-11  # of the largest eigenvalue, after scaling the diagonal to 1: what is smaller is taken for 0


class DenseSolver:
    """Cholesky where every cell is determined, eigenvectors where not."""

    def __init__(self, queries: Queries, precisions: Floats) -> None:
        self._normal = Normal(queries, precisions)
        gram = self._normal.written()
        diagonal = np.sqrt(np.diagonal(gram))
        self._scale = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, None]
        gram *= self._scale * self._scale.T
        self._root = _cholesky(gram)
        if self._root is None:
            values, vectors = np.linalg.eigh(gram)
            firm = values > FIRM * values[-1]
            self._values, self._vectors = values[firm], vectors[:, firm]

    @property
    def certain(self) -> bool:
        return self._root is not None

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Solved once, and what rounding left over once more."""
        if self._root is None:
            scaled = columns * self._scale
            met = self._vectors.T @ scaled
            solved = (self._vectors @ (met / self._values[:, None])) * self._scale
            missed = np.linalg.norm(scaled - self._vectors @ met, axis=0)
            outside = columns[self._scale[:, 0] == 0].any(axis=0)
            return solved, (missed <= KNOWN * np.linalg.norm(scaled, axis=0)) & ~outside
        solved = self._once(columns)
        solved += self._once(columns - self._normal @ solved)
        return solved, all_known(columns)

    def _once(self, columns: Floats) -> Floats:
        from scipy.linalg import cho_solve

        return np.asarray(cho_solve((self._root, True), columns * self._scale)) * self._scale


def _cholesky(gram: Floats) -> Floats | None:
    """The lower root, or None where the matrix has no inverse to speak of."""
    try:
        root = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return root if float(np.diagonal(root).min()) ** 2 > FIRM else None
