"""What solves the normal equations of one strategy, and the simplest closed forms.

With A the queries and P the precisions (one over the variances) of their noise, the least-squares estimate is
(A^T P A)^-1 A^T P y, and the same inverse gives the error of anything computed from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.queries import Queries, Scaled

KNOWN = 1e-6  # a column is determined if it is met up to this share of its size; rounding leaves some 1e-10


class Solver(Protocol):
    """Solves the normal equations of one strategy, again and again."""

    @property
    def certain(self) -> bool:
        """Whether every column is known to be determined."""

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """(A^T P A)^-1 times each column, and which columns the strategy determines.

        For a column that is not determined, what is handed back has no meaning.
        """


@dataclass(frozen=True, eq=False)
class Normal:
    """A^T P A, applied without being written out."""

    queries: Queries
    precisions: Floats

    def __matmul__(self, columns: Floats) -> Floats:
        return self.queries.T @ ((self.queries @ columns) * self.precisions[:, None])

    def diagonal(self) -> Floats:
        """The diagonal of A^T P A."""
        heaviest = self.precisions.max()
        squares = Scaled(self.queries, np.sqrt(self.precisions / heaviest)).column_squares()
        return np.asarray(squares * heaviest, dtype=np.float64)

    def written(self) -> Floats:
        """A^T P A itself, for few cells."""
        heaviest = self.precisions.max()
        gram = Scaled(self.queries, np.sqrt(self.precisions / heaviest)).gram()
        return np.asarray(gram * heaviest, dtype=np.float64)

    def met(self, solved: Floats, columns: Floats) -> Flags:
        """Which columns these solutions meet."""
        missed = np.linalg.norm(self @ solved - columns, axis=0)
        return np.asarray(missed <= KNOWN * np.linalg.norm(columns, axis=0))


def all_known(columns: Floats) -> Flags:
    """The answer of strategies that determine every cell."""
    return np.ones(columns.shape[1], dtype=bool)


@dataclass(frozen=True, eq=False)
class EachCell:
    """Identity: every cell by itself. A cell of no precision is not determined."""

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


@dataclass(frozen=True, eq=False)
class OneTotal:
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
