"""Least squares for strategies without a closed form: dense factors, or preconditioned conjugate residuals.

Dense: Cholesky of the scaled normal matrix, its eigenvectors where it is singular (`of_few_cells`), or the singular
values of P^1/2 A (`of_few_rows`). Iterative: conjugate residuals (Stiefel 1955), many columns at a time. Where a column
is estimable, the residual falls to TOLERANCE of its size; where not, the method comes to rest at the component outside
the row space (conjugate gradients would diverge), and the column is reported as not estimable.
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
    """Dense solver of A^T P A: Cholesky where it is regular, eigenvectors where not."""
    return of_normal(NormalEquations(queries, precisions).written())


def of_normal(normal: Floats) -> LeastSquares:
    """Dense solver of a normal matrix, which is overwritten."""
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
    """(L L^T)^-1 times columns, for a lower Cholesky factor L."""
    if (
        len(root) <= FEW_ROWS
    ):  # the library that knows L to be a triangle takes longer to load than not knowing it costs
        return np.asarray(np.linalg.solve(root.T, np.linalg.solve(root, columns)))
    from scipy.linalg import cho_solve

    # The transpose lies in memory as the library wants it; the root itself would be copied for every question.
    return np.asarray(cho_solve((root.T, False), columns, check_finite=False))


def of_few_rows(queries: Queries, precisions: Floats) -> LeastSquares:
    """Pseudo-inverse of few rows: with P^1/2 A = U S V^T, (A^T P A)^+ is V S^-2 V^T."""
    written = np.sqrt(precisions)[:, None] * queries.dense()
    _, sizes, basis = np.linalg.svd(written, full_matrices=False)
    firm = sizes**2 > FIRM * sizes.max(initial=0.0) ** 2
    return Span(basis[firm], sizes[firm] ** 2, np.ones(queries.columns))


class Dense(LeastSquares):
    """Cholesky solver: A^T P A with rows and columns scaled to a unit diagonal, and its lower factor."""

    def __init__(self, normal: Floats, root: Floats, scale: Floats) -> None:
        self._normal, self._root, self._scale = normal, root, scale

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Cholesky solution with one step of iterative refinement."""
        scaled = columns * self._scale[:, None]
        solved = self._once(scaled)
        solved += self._once(scaled - self._normal @ solved)
        return solved * self._scale[:, None], all_known(columns)

    def price(self, gram: Gram) -> float:
        return float((gram.dense * self._inverse).sum())

    @cached_property
    def _inverse(self) -> Floats:
        """(A^T P A)^-1 as a dense matrix."""
        return self._once(np.eye(len(self._scale))) * self._scale * self._scale[:, None]

    def _once(self, scaled: Floats) -> Floats:
        """Cholesky solution without refinement."""
        return solve_by_root(self._root, scaled)


class Span(LeastSquares):
    """Pseudo-inverse in an orthonormal basis of the row space; columns outside its span are not estimable.

    basis: (rank, cells). squares: eigenvalues along it, (rank,). scale: of the cells, (cells,).
    """

    certain = False

    def __init__(self, basis: Floats, squares: Floats, scale: Floats) -> None:
        self._basis, self._squares, self._scale = basis, squares[:, None], scale[:, None]

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Pseudo-inverse times columns, and whether each lies in the row space."""
        scaled = columns * self._scale
        coordinates = self._basis @ scaled
        residual = np.linalg.norm(scaled - self._basis.T @ coordinates, axis=0)
        outside = columns[self._scale[:, 0] == 0].any(axis=0)
        estimable = (residual <= KNOWN * np.linalg.norm(scaled, axis=0)) & ~outside
        return (self._basis.T @ (coordinates / self._squares)) * self._scale, estimable

    def price(self, gram: Gram) -> float:
        """Trace over the row space; infinite where the workload reaches outside it."""
        scale = self._scale[:, 0]
        rows, asked = self._basis * scale, float((gram.diagonal * scale**2).sum())
        met = gram.times(rows) * rows
        if asked - float(met.sum()) > UNSEEN * asked or gram.diagonal[scale == 0].any():
            return np.inf
        return float((met / self._squares).sum())


def _cholesky(gram: Floats) -> Floats | None:
    """Lower Cholesky factor, or None where the matrix is numerically singular."""
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
    """(A^T P A)^-1 by preconditioned conjugate residuals; guess: preconditioner, by default the inverse diagonal.

    possible: flags of the cells that are no structural zeros, (cells,). Then A has the columns of these alone, and
    solutions are 0 in the others.
    """

    certain = closed = False

    def __init__(
        self,
        queries: Queries,
        precisions: Floats,
        guess: Guess | None = None,
        *,
        tolerance: float = TOLERANCE,
        rounds: int = ROUNDS,
        possible: Flags | None = None,
    ) -> None:
        self._normal, self._tolerance, self._most = NormalEquations(queries, precisions, possible), tolerance, rounds
        if guess is None:
            diagonal = self._normal.diagonal()
            inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=diagonal > 0)[:, None]
            guess = lambda columns: columns * inverse  # noqa: E731
        self._guess = guess

    def roughly(self, tolerance: float, rounds: int) -> Iterative:
        """Copy of the solver with another tolerance and limit on rounds."""
        return self._with(tolerance=tolerance, rounds=rounds)

    def given_zeros(self, possible: Flags) -> Iterative:
        """Solver on possible cells alone, with the same preconditioner."""
        return self._with(tolerance=self._tolerance, rounds=self._most, possible=possible)

    def _with(self, *, tolerance: float, rounds: int, possible: Flags | None = None) -> Iterative:
        """Copy of the solver with other limits."""
        normal, kept = self._normal, self._normal.possible if possible is None else possible
        return Iterative(
            normal.queries, normal.precisions, self._guess, tolerance=tolerance, rounds=rounds, possible=kept
        )

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Solve columns in chunks; a column that has converged is left alone."""
        columns = self._normal.among_possible(columns)
        solved = np.zeros_like(columns)
        step = max(1, AT_ONCE // len(columns))
        for start in range(0, columns.shape[1], step):
            part = columns[:, start : start + step]
            solved[:, start : start + step] = self._rounds(part)
        return solved, self._normal.met(solved, columns)

    def squares(self, columns: Floats) -> Floats:
        """c^T (A^T P A)^-1 c of estimable columns, with an error quadratic in the residual."""
        columns = self._normal.among_possible(columns)
        solved = self.solve(columns)[0]
        return np.asarray(_dots(solved, 2.0 * columns - self._normal @ solved))

    def _rounds(self, columns: Floats) -> Floats:
        """Conjugate residuals for columns (cells, k)."""
        solved, active = np.zeros_like(columns), np.arange(columns.shape[1])
        among = self._normal.among_possible
        residual = among(self._guess(columns))  # as the preconditioner sees it, here and below
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
            guessed = among(self._guess(along))
            length = sight / _dots(along, guessed)
            solved[:, active] += length * direction
            residual = residual - length * guessed
            plain = plain - length * along
            moved = self._normal @ residual
            before, sight = sight, _dots(residual, moved)
            direction = residual + (sight / before) * direction
            along = moved + (sight / before) * along
        return solved


def _dots(first: Floats, second: Floats) -> Floats:
    """Inner products of corresponding columns, (k,)."""
    return np.asarray(np.einsum("ij,ij->j", first, second))
