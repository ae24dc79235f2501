"""Interface of (A^T P A)^-1 for a family of queries, `solve` and `price`, and its diagonal and rank-one cases.

A (rows, cells): queries. P = diag(precisions), (rows,). solve(C) = (A^T P A)^-1 C for columns C (cells, k), with a mask
of the columns that lie in the row space of A (estimable sums). price(V) = trace(V (A^T P A)^-1). `EachCell` is A = I,
`OneTotal` is A = 1^T.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.gram import Gram
from sfumato.queries import Identity, Kron, Queries, Scaled, Stack

KNOWN = 1e-6  # a column is determined if it is met up to this share of its size; rounding leaves some 1e-10
UNSEEN = 1e-9  # of the trace of a Gram matrix: what is asked beyond that and not determined has no bound


class LeastSquares(ABC):
    """(A^T P A)^-1 of one strategy, used for many right-hand sides."""

    sizes: tuple[int, ...] = ()  # of the axes that are priced one by one; none where all cells are one axis

    @property
    def certain(self) -> bool:
        """Whether every sum is known to be estimable (A^T P A is regular)."""
        return True

    @property
    def closed(self) -> bool:
        """Whether solutions and prices are closed forms, without iteration."""
        return True

    @abstractmethod
    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """(A^T P A)^-1 times each column, (cells, k), and which columns are estimable, (k,).

        The solution of a column that is not estimable has no meaning.
        """

    def squares(self, columns: Floats) -> Floats:
        """Squared error c^T (A^T P A)^-1 c of each column c, (k,); infinite where it is not estimable."""
        solved, estimable = self.solve(columns)
        return np.where(estimable, (columns * solved).sum(axis=0), np.inf)

    def price(self, gram: Gram) -> float:
        """Squared error trace(V (A^T P A)^-1) on a workload's Gram matrix; infinite where a query is not estimable."""
        solved, estimable = self.solve(gram.dense)
        return float(np.trace(solved)) if estimable.all() else np.inf

    def price_by_axes(self, *grams: Gram) -> float:
        """Squared error where V is the Kronecker product of one Gram matrix per axis of `sizes`."""
        (gram,) = grams
        return self.price(gram)


@dataclass(frozen=True, eq=False)
class NormalEquations:
    """Normal matrix A^T P A as an operator.

    possible: flags of the cells that are no structural zeros, (cells,): rows and columns of others are 0. None: all.
    """

    queries: Queries
    precisions: Floats
    possible: Flags | None = None

    def __matmul__(self, columns: Floats) -> Floats:
        answers = (self.queries @ self.among_possible(columns)) * self.precisions[:, None]
        return self.among_possible(self.queries.T @ answers)

    def among_possible(self, columns: Floats) -> Floats:
        """Columns (cells, k) with 0 in structural zeros."""
        return columns if self.possible is None else columns * self.possible[:, None]

    def diagonal(self) -> Floats:
        """Diagonal of A^T P A, (cells,)."""
        heaviest = self.precisions.max()
        squares = Scaled(self.queries, np.sqrt(self.precisions / heaviest)).column_squares()
        return np.asarray(squares * heaviest, dtype=np.float64)

    def written(self) -> Floats:
        """A^T P A as a dense matrix, for few cells."""
        heaviest = self.precisions.max()
        gram = Scaled(self.queries, np.sqrt(self.precisions / heaviest)).gram()
        return np.asarray(gram * heaviest, dtype=np.float64)

    def met(self, solved: Floats, columns: Floats) -> Flags:
        """Whether solutions (cells, k) satisfy the equations for these columns, up to KNOWN, (k,)."""
        residual = np.linalg.norm(self @ solved - columns, axis=0)
        return np.asarray(residual <= KNOWN * np.linalg.norm(columns, axis=0))


def all_known(columns: Floats) -> Flags:
    """Mask of estimable columns for strategies that determine every cell."""
    return np.ones(columns.shape[1], dtype=bool)


def bare(queries: Queries, precisions: Floats) -> tuple[Queries, Floats]:
    """Strip row weights and trivial wrappers; weights w move into precisions as p w^2."""
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
    """Blocks of a stack, each stripped, with its precisions."""
    ends = list(accumulate((block.rows for block in queries.blocks), initial=0))
    return [bare(block, precisions[ends[i] : ends[i + 1]]) for i, block in enumerate(queries.blocks)]


def _identity(queries: Queries) -> tuple[object, ...]:
    """Hashable key of a query matrix: equal for matrices with the same representation."""
    form = queries.form
    arrays = [_digest(one) for key in form.arrays for one in _listed(getattr(queries, key))]
    parts = () if form.parts is None else tuple(_identity(part) for part in _listed(getattr(queries, form.parts)))
    numbers = tuple(getattr(queries, key) for key in form.numbers)
    return (type(queries), queries.rows, queries.columns, numbers, tuple(arrays), parts)


def _digest(array: Any) -> tuple[object, ...]:
    values = np.ascontiguousarray(array)
    return values.shape, values.dtype.str, blake2b(values.tobytes()).digest()


def _listed(part: Any) -> tuple[Any, ...]:
    return part if isinstance(part, tuple) else (part,)


def pooled(queries: Stack, precisions: Floats) -> tuple[Queries, Floats] | None:
    """Stack in which every block stands once, with the summed precisions of its repetitions; None if none is repeated.

    A^T P A is the same: of a block that was measured twice, sum of A^T P_i A = A^T (sum of P_i) A.
    """
    blocks = pieces(queries, precisions)
    once: dict[tuple[object, ...], tuple[Queries, Floats]] = {}
    for block, own in blocks:
        known = once.get(key := _identity(block))
        once[key] = (block, own) if known is None else (known[0], known[1] + own)
    if len(once) == len(blocks):
        return None
    kept = [block for block, _ in once.values()]
    return kept[0] if len(kept) == 1 else Stack(*kept), np.concatenate([own for _, own in once.values()])


@dataclass(frozen=True, eq=False)
class EachCell(LeastSquares):
    """Identity: the inverse is diagonal; a cell of precision 0 is not estimable. precisions: (cells,)."""

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
        """Squared error on any workload with these column sums of squares, (cells,)."""
        seen = self.precisions > 0
        return np.inf if squares[~seen].any() else float((squares[seen] / self.precisions[seen]).sum())


@dataclass(frozen=True, eq=False)
class OneTotal(LeastSquares):
    """Total: only multiples of the sum of all cells are estimable."""

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
    """Whether the queries are the identity, on one axis or as a Kronecker product."""
    return type(queries) is Identity or (type(queries) is Kron and all(map(every_cell, queries.factors)))
