"""Least squares from far fewer queries than cells: what they determine is the span of their rows, and no more."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import KNOWN
from sfumato.queries import Queries

FIRM = 1e-11  # of the largest squared singular value: what is smaller is taken for 0


class FewRowsSolver:
    """With B = P^1/2 A = U S V^T written out, (A^T P A)^+ is V S^-2 V^T, and a column is known if V V^T keeps it."""

    certain = False  # fewer rows than cells cannot determine all of them

    def __init__(self, queries: Queries, precisions: Floats) -> None:
        written = np.sqrt(precisions)[:, None] * queries.dense()
        _, sizes, basis = np.linalg.svd(written, full_matrices=False)
        firm = sizes**2 > FIRM * sizes.max(initial=0.0) ** 2
        self._squares, self._basis = sizes[firm] ** 2, basis[firm]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        met = self._basis @ columns
        missed = np.linalg.norm(columns - self._basis.T @ met, axis=0)
        return self._basis.T @ (met / self._squares[:, None]), missed <= KNOWN * np.linalg.norm(columns, axis=0)
