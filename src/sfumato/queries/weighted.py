"""Queries given as a matrix, for what no other family says shorter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, frozen, numbers, powers
from sfumato.queries.base import Queries
from sfumato.queries.form import Form


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Weighted(Queries):
    """A matrix, written out: any whole or floating numbers.

    >>> (Weighted([[1, -2, 0], [0, 3, 3]]) @ [4, 5, 6]).tolist()
    [-6, 33]
    """

    matrix: Array

    form = Form("weighted", arrays=("matrix",), make=lambda columns, matrix: Weighted(matrix.reshape(-1, columns)))

    def __init__(self, matrix: object) -> None:
        entries = numbers(matrix, "Weighted")
        if entries.ndim != 2 or entries.size == 0:
            raise QueryError(f"Weighted needs a matrix with at least one row and column; the shape is {entries.shape}")
        self._store(rows=entries.shape[0], columns=entries.shape[1], matrix=frozen(entries))

    def __repr__(self) -> str:
        return f"Weighted({self.rows} x {self.columns})"

    @property
    def integral(self) -> bool:
        return self.matrix.dtype.kind == "i"

    @property
    def entry_bound(self) -> int | float:
        return np.abs(self.matrix).max().item()  # type: ignore[no-any-return]

    def _times(self, x: Array) -> Array:
        return np.asarray(self.matrix @ x)

    def _back(self, y: Array) -> Array:
        return np.asarray(self.matrix.T @ y)

    def _totals(self, power: int) -> Array:
        entries = powers(self.matrix, power)
        self._must_fit(float(entries.sum(axis=0, dtype=np.float64).max()))
        return np.asarray(entries.sum(axis=0))

    def _magnitudes(self, power: int) -> Queries:
        return Weighted(powers(self.matrix, power))

    def _gram(self, weights: Array | None) -> Array:
        return gram_of(self.matrix, weights)

    def _select(self, index: Array) -> Queries:
        return Weighted(self.matrix[index])

    def _row(self, place: int) -> Array:
        return np.array(self.matrix[place])

    def _dense(self) -> Array:
        return self.matrix.copy()


def gram_in_parts(queries: Queries, weights: Array | None, written: Callable[[Array], Array]) -> Array:
    """A^T diag(weights) A for a family of which some rows at a time can be written out."""
    whole = queries.integral and (weights is None or weights.dtype.kind == "i")
    gram = np.zeros((queries.columns, queries.columns), dtype=np.int64 if whole else np.float64)
    step = max(1, 2**21 // queries.columns)
    for start in range(0, queries.rows, step):
        part = np.arange(start, min(start + step, queries.rows))
        gram += gram_of(written(part), None if weights is None else weights[part])
    return gram


def gram_of(matrix: Array, weights: Array | None) -> Array:
    """M^T diag(weights) M. Whole numbers go through floating point, which is fast, where that is exact."""
    heavy = matrix if weights is None else matrix * weights[:, None]
    if heavy.dtype.kind == "i":
        # no sum on the way is larger than this, and floats hold whole numbers up to 2^53 exactly
        bound = float(np.abs(heavy).max()) * float(np.abs(matrix).max()) * len(matrix)
        if bound < 2**53:
            return np.asarray(matrix.T.astype(np.float64) @ heavy.astype(np.float64)).astype(np.int64)
    return np.asarray(matrix.T @ heavy)
