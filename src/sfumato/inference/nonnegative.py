"""Least squares among the estimates that are possible: no cell below 0, and the total as given.

Gradient projection with conjugate gradients on the free cells: More, Toraldo, SIAM J. Optimization 1991. A projected
step decides which cells are 0; conjugate gradients then minimise over the others; no step leads up.
Cells are scaled so that the equations have ones on the diagonal. Estimates are biased where the bounds bind; their
errors are not those of plain least squares.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.inference.solvers import Normal
from sfumato.queries import Queries

TOLERANCE = 1e-9  # of the projected gradient, relative to the gradient at the start, both after scaling
ROUNDING = 4e-15  # a gain of less, relative to its terms, is none
PATIENCE = 5  # steps without gain after which rounding is taken to have the last word
STEPS = 2000
INNER = 200  # rounds of conjugate gradients between two projections


def non_negative(queries: Queries, answers: Floats, variances: Floats, *, total: float | None = None) -> Floats:
    """The x >= 0 of least sum of (A x - answers)^2 / variances, and of this total if one is given.

    >>> from sfumato.queries import Identity
    >>> non_negative(Identity(3), np.array([4.0, -2.0, 1.0]), np.ones(3)).tolist()
    [4.0, 0.0, 1.0]
    >>> non_negative(Identity(3), np.array([4.0, -2.0, 1.0]), np.ones(3), total=3.0).tolist()
    [3.0, 0.0, 0.0]
    """
    answers, variances = (np.asarray(given, dtype=np.float64) for given in (answers, variances))
    if answers.shape != (queries.rows,) or variances.shape != (queries.rows,) or not (variances > 0).all():
        raise QueryError(f"least squares needs an answer and a variance above 0 for each of the {queries.rows} rows")
    if total is not None and not 0 <= total < np.inf:
        raise QueryError("cells that are not negative have a total that is not negative: give one, or none")
    normal = Normal(queries, 1.0 / variances)
    diagonal = normal.diagonal()
    scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, diagonal.max()))
    problem = _Problem(normal, scale, scale * (queries.T @ (answers / variances)), total)
    return problem.minimise() * scale


@dataclass(frozen=True, eq=False)
class _Problem:
    """Minimise z H z / 2 - b z for z >= 0 with scale . z = total, where H = scale (A^T P A) scale."""

    normal: Normal
    scale: Floats
    b: Floats
    total: float | None

    def _h(self, z: Floats) -> Floats:
        return np.asarray(self.scale * (self.normal @ (self.scale * z)[:, None])[:, 0])

    def minimise(self) -> Floats:
        z = self._possible(np.zeros_like(self.b))
        gradient = self._h(z) - self.b
        size = float(np.linalg.norm(self.b) + np.linalg.norm(gradient))
        step, stalled = 1.0 / self._stiffest(), 0
        for _ in range(STEPS):
            moved = self._possible(z - step * gradient)
            slope = self._h(moved) - self.b
            rise = self._rise(moved - z, gradient + slope)
            noise = ROUNDING * float(np.linalg.norm(moved) * np.linalg.norm(gradient + slope))
            stalled = stalled + 1 if abs(rise) <= noise else 0
            if np.linalg.norm(moved - z) <= TOLERANCE * step * size or stalled > PATIENCE:
                return moved  # not z: here the cells that are 0 are so without rounding
            if rise > noise:  # the step was too long
                step /= 2.0
                continue
            z, gradient = self._down(moved, slope)
        return z

    def _rise(self, move: Floats, slopes: Floats) -> float:
        """Twice what a move changes, from the slopes at both its ends."""
        if self.total is not None:  # rounding of the total is no move, and the slope that way may be steep
            move = move - self.scale * ((self.scale @ move) / (self.scale @ self.scale))
        return float(move @ slopes)

    def _down(self, z: Floats, gradient: Floats) -> tuple[Floats, Floats]:
        """The best point found on the way to the minimum over the cells that are free at z."""
        direction = self._face_minimum(z > 0, gradient)
        for _ in range(12):
            moved = self._possible(z + direction)
            slope = self._h(moved) - self.b
            if self._rise(moved - z, gradient + slope) < 0:
                return moved, slope
            direction = direction / 2.0
        return z, gradient

    def _face_minimum(self, free: np.ndarray, gradient: Floats) -> Floats:
        """Conjugate gradients among the moves of the free cells that keep the total."""
        weights = np.where(free, self.scale, 0.0)

        def on_face(move: Floats) -> Floats:
            kept = np.where(free, move, 0.0)
            if self.total is None or not free.any():
                return kept
            return np.asarray(kept - weights * ((weights @ kept) / (weights @ weights)))

        found = np.zeros_like(gradient)
        residual = direction = on_face(-gradient)
        first = size = float(residual @ residual)
        for _ in range(INNER):
            if size <= 1e-6 * first or size == 0.0:
                break
            along = on_face(self._h(direction))
            curvature = float(direction @ along)
            if curvature <= 1e-14 * float(direction @ direction):  # a move that no query sees
                break
            found = found + (size / curvature) * direction
            residual = residual - (size / curvature) * along
            before, size = size, float(residual @ residual)
            direction = residual + (size / before) * direction
        return found

    def _possible(self, z: Floats) -> Floats:
        """The nearest point that obeys the bounds: max(0, z - shift * scale), the shift chosen to give the total."""
        if self.total is None:
            return np.maximum(z, 0.0)
        ratios = z / self.scale
        order = np.argsort(-ratios)
        sums, squares = np.cumsum((self.scale * z)[order]), np.cumsum(np.square(self.scale)[order])
        shifts = (sums - self.total) / squares
        last = int(np.flatnonzero(ratios[order] >= shifts)[-1]) if self.total > 0 else 0
        return np.asarray(np.maximum(z - shifts[last] * self.scale, 0.0))

    def _stiffest(self) -> float:
        """About the largest eigenvalue of H, by the power method; a step that proves too long is halved later."""
        z = np.ones_like(self.b)
        value = 1.0
        for _ in range(20):
            z = self._h(z / np.linalg.norm(z))
            value = float(np.linalg.norm(z))
        return 1.1 * value
