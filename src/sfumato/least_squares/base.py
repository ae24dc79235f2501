"""What every family of queries can do with its inverse (A^T P A)^-1: solve and price.

Least squares on every cell by itself, and on all of them as one total.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from itertools import accumulate

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.gram import Gram
from sfumato.queries import Identity, Kron, Queries, Scaled, Stack

KNOWN = 1e-6  # a column is determined if it is met up to this share of its size; rounding leaves some 1e-10
UNSEEN = 1e-9  # of the trace of a Gram matrix: what is asked beyond that and not determined has no bound


class LeastSquares(ABC):
    """(A^T P A)^-1 of one strategy, used again and again."""

    sizes: tuple[int, ...] = ()  # of the axes that are priced one by one; none where all cells are one axis

    @property
    def certain(self) -> bool:
        """Whether every column is known to be determined."""
        return True

    @property
    def closed(self) -> bool:
        """Whether solutions and prices come without iteration."""
        return True

    @abstractmethod
    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """(A^T P A)^-1 times each column, and which columns the strategy determines.

        For a column that is not determined, what is handed back has no meaning.
        """

    def squares(self, columns: Floats) -> Floats:
        """c^T (A^T P A)^-1 c of each column c: its squared error, infinite where it is not determined."""
        solved, known = self.solve(columns)
        return np.where(known, (columns * solved).sum(axis=0), np.inf)

    def price(self, gram: Gram) -> float:
        """trace(V (A^T P A)^-1) with V over all cells: infinite where something is asked that is not determined."""
        solved, known = self.solve(gram.dense)
        return float(np.trace(solved)) if known.all() else np.inf

    def price_by_axes(self, *grams: Gram) -> float:
        """The same where V is the Kronecker product of one Gram matrix per axis of `sizes`."""
        (gram,) = grams
        return self.price(gram)


@dataclass(frozen=True, eq=False)
class NormalEquations:
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


def bare(queries: Queries, precisions: Floats) -> tuple[Queries, Floats]:
    """The weights of rows taken into their precisions: w times an answer of variance v is one of variance v / w^2."""
    while True:
        if type(queries) is Scaled:
            precisions = precisions * np.square(queries.weights, dtype=np.float64)
            queries = queries.queries
        elif isinstance(queries, Stack) and len(queries.blocks) == 1:
            queries = queries.blocks[0]
        elif type(queries) is Kron and len(queries.factors) == 1:
            queries = queries.factors[0]
        else:
            return queries, precisions


def pieces(queries: Stack, precisions: Floats) -> list[tuple[Queries, Floats]]:
    """The blocks of a stack, each bare and with its precisions."""
    ends = list(accumulate((block.rows for block in queries.blocks), initial=0))
    return [bare(block, precisions[ends[i] : ends[i + 1]]) for i, block in enumerate(queries.blocks)]


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
