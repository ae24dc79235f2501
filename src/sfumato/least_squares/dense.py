"""Least squares with a matrix written out: for strategies of few cells or few rows that have no shorter form."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import KNOWN, UNSEEN, LeastSquares, NormalEquations, all_known
from sfumato.least_squares.gram import Gram
from sfumato.queries import Queries

FIRM = 1e-11  # of the largest eigenvalue, after scaling the diagonal to 1: what is smaller is taken for 0
FEW_ROWS = 256  # of a root, up to which numpy solves by it


def of_few_cells(queries: Queries, precisions: Floats) -> LeastSquares:
    """A^T P A written out: Cholesky where every cell is determined, eigenvectors where not."""
    normal = NormalEquations(queries, precisions).written()
    diagonal = np.sqrt(np.diagonal(normal))
    scale = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)
    normal *= scale[:, None] * scale
    root = _cholesky(normal)
    if root is not None:
        return Dense(normal, root, scale)
    values, vectors = np.linalg.eigh(normal)
    firm = values > FIRM * values[-1]
    return Span(vectors[:, firm].T, values[firm], scale)


def solve_by_root(root: Floats, columns: Floats) -> Floats:
    """(L L^T)^-1 times columns, for the lower root L."""
    if (
        len(root) <= FEW_ROWS
    ):  # the library that knows L to be a triangle takes longer to load than not knowing it costs
        return np.asarray(np.linalg.solve(root.T, np.linalg.solve(root, columns)))
    from scipy.linalg import cho_solve

    # The transpose lies in memory as the library wants it; the root itself would be copied for every question.
    return np.asarray(cho_solve((root.T, False), columns, check_finite=False))


def of_few_rows(queries: Queries, precisions: Floats) -> LeastSquares:
    """With B = P^1/2 A = U S V^T written out, (A^T P A)^+ is V S^-2 V^T."""
    written = np.sqrt(precisions)[:, None] * queries.dense()
    _, sizes, basis = np.linalg.svd(written, full_matrices=False)
    firm = sizes**2 > FIRM * sizes.max(initial=0.0) ** 2
    return Span(basis[firm], sizes[firm] ** 2, np.ones(queries.columns))


class Dense(LeastSquares):
    """Every cell is determined: A^T P A, its rows and columns scaled to a diagonal of ones, and its lower root."""

    def __init__(self, normal: Floats, root: Floats, scale: Floats) -> None:
        self._normal, self._root, self._scale = normal, root, scale

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Solved once, and what rounding left over once more."""
        scaled = columns * self._scale[:, None]
        solved = self._once(scaled)
        solved += self._once(scaled - self._normal @ solved)
        return solved * self._scale[:, None], all_known(columns)

    def price(self, gram: Gram) -> float:
        return float((gram.dense * self._inverse).sum())

    @cached_property
    def _inverse(self) -> Floats:
        return self._once(np.eye(len(self._scale))) * self._scale * self._scale[:, None]

    def _once(self, scaled: Floats) -> Floats:
        return solve_by_root(self._root, scaled)


class Span(LeastSquares):
    """A column is known if the span of a basis keeps it; `squares`: what the inverse divides by along the basis."""

    certain = False

    def __init__(self, basis: Floats, squares: Floats, scale: Floats) -> None:
        self._basis, self._squares, self._scale = basis, squares[:, None], scale[:, None]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        scaled = columns * self._scale
        met = self._basis @ scaled
        missed = np.linalg.norm(scaled - self._basis.T @ met, axis=0)
        outside = columns[self._scale[:, 0] == 0].any(axis=0)
        known = (missed <= KNOWN * np.linalg.norm(scaled, axis=0)) & ~outside
        return (self._basis.T @ (met / self._squares)) * self._scale, known

    def price(self, gram: Gram) -> float:
        scale = self._scale[:, 0]
        rows, asked = self._basis * scale, float((gram.diagonal * scale**2).sum())
        met = gram.times(rows) * rows
        if asked - float(met.sum()) > UNSEEN * asked or gram.diagonal[scale == 0].any():
            return np.inf
        return float((met / self._squares).sum())


def _cholesky(gram: Floats) -> Floats | None:
    """The lower root, or None where the matrix has no inverse to speak of."""
    try:
        root = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    return root if float(np.diagonal(root).min()) ** 2 > FIRM else None
