"""Least squares by iteration, for strategies without a closed form: conjugate residuals.

Stiefel 1955. Where the queries determine a column, the residual falls to TOLERANCE of its size; where they do not, the
method comes to rest at the part of the column that they cannot see (conjugate gradients would run away), and the column
is reported as unknown. A preconditioner, any close guess of the inverse, makes for fewer rounds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import LeastSquares, NormalEquations
from sfumato.queries import Queries

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
