"""Least squares with a matrix written out: for strategies of few cells or few rows that have no shorter form.

Least squares by iteration, for strategies without a closed form: conjugate residuals.

Stiefel 1955. Where the queries determine a column, the residual falls to TOLERANCE of its size; where they do not, the
method comes to rest at the part of the column that they cannot see (conjugate gradients would run away), and the column
is reported as unknown. A preconditioner, any close guess of the inverse, makes for fewer rounds.
"""

from __future__ import annotations

from collections.abc import Callable
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


TOLERANCE = 1e-10  # of the size of the column, both measured by the preconditioner
ROUNDS = 5000  # at most; usual strategies need some ten to a few hundred
AT_REST = 1e-13  # of the largest stiffness seen: a residual of less is one that no query sees
AT_ONCE = 2**24  # numbers in the columns that are solved together

Guess = Callable[[Floats], Floats]


class Iterative(LeastSquares):
    """(A^T P A)^-1 by conjugate residuals. guess: solves similar equations with the same unknowns, or nearly."""

    certain = closed = False

    def __init__(
        self,
        queries: Queries,
        precisions: Floats,
        guess: Guess | None = None,
        *,
        tolerance: float = TOLERANCE,
        rounds: int = ROUNDS,
    ) -> None:
        self._normal, self._tolerance, self._most = NormalEquations(queries, precisions), tolerance, rounds
        if guess is None:
            diagonal = self._normal.diagonal()
            inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, None]
            guess = lambda columns: columns * inverse  # noqa: E731
        self._guess = guess

    def roughly(self, tolerance: float, rounds: int) -> Iterative:
        """The same equations and guess, solved less closely."""
        return Iterative(self._normal.queries, self._normal.precisions, self._guess, tolerance=tolerance, rounds=rounds)

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Some columns at a time; a column that has come to rest is left alone."""
        solved = np.zeros_like(columns)
        step = max(1, AT_ONCE // len(columns))
        for start in range(0, columns.shape[1], step):
            part = columns[:, start : start + step]
            solved[:, start : start + step] = self._rounds(part)
        return solved, self._normal.met(solved, columns)

    def squares(self, columns: Floats) -> Floats:
        """Of columns that are determined; what the solution leaves over counts only squared."""
        solved = self.solve(columns)[0]
        return np.asarray(_dots(solved, 2.0 * columns - self._normal @ solved))

    def _rounds(self, columns: Floats) -> Floats:
        solved, active = np.zeros_like(columns), np.arange(columns.shape[1])
        residual = self._guess(columns)  # as the preconditioner sees it, here and below
        plain, moved = columns.copy(), self._normal @ residual
        direction, along = residual, moved
        first = _dots(residual, plain)
        stiffness, sight = np.zeros_like(first), _dots(residual, moved)
        for _ in range(self._most):
            size = _dots(residual, plain)
            stiffness = np.maximum(stiffness, np.divide(sight, size, out=np.zeros_like(size), where=size > 0))
            going = (size > self._tolerance**2 * first) & (sight > AT_REST * stiffness * size)
            if not going.all():
                active, first, stiffness, sight = active[going], first[going], stiffness[going], sight[going]
                residual, plain, moved = residual[:, going], plain[:, going], moved[:, going]
                direction, along = direction[:, going], along[:, going]
                if not len(active):
                    break
            guessed = self._guess(along)
            length = sight / _dots(along, guessed)
            solved[:, active] += length * direction
            residual = residual - length * guessed
            plain = plain - length * along
            moved = self._normal @ residual
            before, sight = sight, _dots(residual, moved)
            direction = residual + (sight / before) * direction
            along = moved + (sight / before) * along
        return solved


def _dots(one: Floats, other: Floats) -> Floats:
    return np.asarray(np.einsum("ij,ij->j", one, other))
