"""Least squares on noisy answers: (A^T P A)^-1 for any strategy A and precisions P, in closed form where there is one."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.queries import Queries

Floats = NDArray[np.float64]


class Solver(Protocol):
    """Solves the normal equations of one strategy, again and again."""

    def solve(self, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """(A^T P A)^-1 times each column, and which columns the strategy determines."""


def solver(queries: Queries, variances: Floats) -> Solver:
    """The fastest exact way for these queries; variances: of the noise of every row."""
    return _Dense(queries, variances)


class _Dense:
    def __init__(self, queries: Queries, variances: Floats) -> None:
        self.gram = np.asarray(queries.T @ (queries.dense() / variances[:, None]), dtype=np.float64)
        self.inverse = np.linalg.pinv(self.gram, hermitian=True)

    def solve(self, columns: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        solved = self.inverse @ columns
        missed = np.abs(self.gram @ solved - columns).max(axis=0)
        return solved, missed <= 1e-6 * np.abs(columns).max(axis=0, initial=1e-300)
