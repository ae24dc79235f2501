"""Intervals of functions f of several noisy sums (generalised Fieller), such as the difference of two averages.

The upper end is f at the point

    x = x_hat + q * C g / sqrt(g^T C g),   g the gradient of f at x, C the covariance of the noise,

with q standard errors the exact quantile of the noise of g . x, found by fixed-point iteration. For f = N / D it is
Fieller's end, for a linear f the linear interval. Where a sum is known between two ends only, the end that moves f
further is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot, isfinite, nan, sqrt

import numpy as np

from sfumato.answers.fieller import Functional, Interval, Noises, Term, side_by_side
from sfumato.arrays import Floats
from sfumato.frozen import dataclass

Function = Callable[[Floats], tuple[float, Floats]]  # value and gradient at some sums

ROUNDS = 60  # in which an end is found, or it is not
CLOSE = 1e-4  # of the distance from value to end: moves that no longer matter
HALF_SPEED = 8  # rounds after which only half of each move is made, so that swings die out


@dataclass(frozen=True, eq=False)
class Dual:
    """Dual number: a value and its gradient with respect to some sums, (sums,)."""

    value: float
    slope: Floats

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.slope * other.value + other.slope * self.value)

    def __truediv__(self, other: Dual) -> Dual:
        if other.value == 0.0:
            return Dual(nan, np.full_like(self.slope, nan))
        value = self.value / other.value
        return Dual(value, (self.slope - value * other.slope) / other.value)

    def root(self) -> Dual:
        """Square root; NaN where it is not positive."""
        value = sqrt(self.value) if self.value > 0.0 else nan
        return Dual(value, self.slope / (2.0 * value))


def function_interval(
    function: Function,
    divisors: Sequence[Function],
    sums: Sequence[Functional],
    terms: Sequence[Term] | Noises,
    confidence: float,
) -> Interval | None:
    """Interval of a function of noisy sums; None where a divisor may be zero or the iteration does not converge.

    function, divisors: value and gradient at sums x, (sums,).

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> terms = [Term.of(Laplace(Fraction(1)), 1, 1, 1, 1, 1, 1, 1), Term.of(Laplace(Fraction(1)), 1, 0, 0, 0, 1, 1, 1)]
    >>> share = lambda x: (float(x[0] / x[1]), np.array([1 / x[1], -x[0] / x[1] ** 2]))
    >>> whole = lambda x: (float(x[1]), np.array([0.0, 1.0]))
    >>> found = function_interval(share, [whole], [Functional(30, 30, 30), Functional(100, 100, 100)], terms, 0.95)
    >>> round(found.value, 3), round(found.low, 2), round(found.high, 2)
    (0.3, 0.28, 0.32)
    """
    noisy = _Noisy(sums, side_by_side(terms), confidence)
    for divisor in divisors:
        value = divisor(noisy.value)[0]
        nearest = noisy.end(divisor, -1.0 if value > 0.0 else 1.0)
        if nearest is None or not nearest * value > 0.0:
            return None
    value, gradient = function(noisy.value)
    ends = [noisy.end(function, sign) for sign in (-1.0, 1.0)]
    low, high = ends
    if low is None or high is None:
        return None
    noise, assumed = noisy.stderr(gradient)
    width = sum(abs(g) * max(s.high - s.low, 0.0) for g, s in zip(gradient, sums, strict=True))
    model = hypot(width / sqrt(12.0), assumed)
    return Interval(value, hypot(noise, model), min(low, value), max(high, value), noise, model)


class _Noisy:
    """Noisy sums as arrays: value, (sums,); ends, (sums, 2); weights of the noises, (noises, sums, 3)."""

    def __init__(self, sums: Sequence[Functional], noises: Noises, confidence: float) -> None:
        self.value = np.array([one.value for one in sums], dtype=np.float64)
        self.ends = np.array([[one.low, one.high] for one in sums], dtype=np.float64)
        self.noises, self.confidence = noises, confidence
        weights = np.zeros((len(noises.many), 3 * len(sums)))
        weights[:, : noises.weights.shape[1]] = noises.weights[:, : 3 * len(sums)]
        self.weights = weights.reshape(len(weights), len(sums), 3)
        self.variances = noises.variances

    def stderr(self, gradient: Floats) -> tuple[float, float]:
        """Standard errors along a gradient, from noise and from model."""
        return self.noises.stderr(np.asarray(self.weights[:, :, 0] @ gradient))

    def end(self, function: Function, sign: float) -> float | None:
        """Upper end of a function's interval, or the lower one with sign -1; None where the iteration fails."""
        start, gradient = function(self.value)
        if not isfinite(start) or not np.isfinite(gradient).all():
            return None
        point, previous, reach = self._farthest(sign * gradient, None), start, None
        for count in range(ROUNDS):
            value, gradient = function(point)
            if not isfinite(value) or not np.isfinite(gradient).all():
                return None
            settled = abs(value - previous) <= CLOSE * abs(value - start)
            if settled and reach is not None:
                return value
            # How many standard errors the quantile is hangs little on the direction: worked out anew when settled.
            reach = self._reach(sign * gradient) if settled or reach is None else reach
            onward = self._farthest(sign * gradient, reach)
            point, previous = onward if count < HALF_SPEED else (point + onward) / 2.0, value
        return None

    def _chosen(self, gradient: Floats) -> tuple[Floats, Floats]:
        """Ends of the sums that increase a function with this gradient, and the weights of their noises."""
        up = gradient > 0.0
        return np.where(up, self.ends[:, 1], self.ends[:, 0]), np.where(
            up, self.weights[:, :, 2], self.weights[:, :, 1]
        )

    def _reach(self, gradient: Floats) -> float:
        """Quantile of the noise along a gradient, in standard errors."""
        along = self._chosen(gradient)[1] @ gradient
        error = sqrt(float((self.variances * along**2).sum()))
        return self.noises.width(along, self.confidence) / error if error > 0.0 else 0.0

    def _farthest(self, gradient: Floats, reach: float | None) -> Floats:
        """Maximiser of g . x over the sums within `reach` standard errors: centre + reach * C g / sqrt(g^T C g)."""
        centre, weights = self._chosen(gradient)
        along = weights @ gradient
        error = sqrt(float((self.variances * along**2).sum()))
        if not error > 0.0:
            return centre
        reach = self._reach(gradient) if reach is None else reach
        return np.asarray(centre + reach * (weights.T @ (self.variances * along)) / error)
