"""Intervals for functions of several linear answers, such as the difference of two averages.

Fieller's interval of a ratio holds every r that some true sums give which lie within q standard errors of the noisy
ones, in the metric of the noise. Said so it needs no ratio: the interval of f holds every value that f takes there. Its
upper end is f at the point

    x = x_hat + q * C g / sqrt(g^T C g),   g the gradient of f at x,

with C the covariance of the noises, and q standard errors the exact quantile of the noise of g . x. It is found by
going there again and again. For f = N / D the gradient is along (1, -f), and the end is Fieller's to the digit; for a
linear f it is the linear interval. Noise that sums share is accounted for, because all of them are moved together.

Where a sum is known between two ends only, the end is taken that lets f go further.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import hypot, isfinite, sqrt

import numpy as np

from sfumato.answers.fieller import Functional, Interval, Noises, Term, side_by_side
from sfumato.arrays import Floats

Function = Callable[[Floats], tuple[float, Floats]]  # value and gradient at some sums

ROUNDS = 60  # in which an end is found, or it is not
CLOSE = 1e-4  # of the distance from value to end: moves that no longer matter
HALF_SPEED = 8  # rounds after which only half of each move is made, so that swings die out


def function_interval(
    function: Function,
    divisors: Sequence[Function],
    sums: Sequence[Functional],
    terms: Sequence[Term] | Noises,
    confidence: float,
) -> Interval | None:
    """The interval of a function of noisy sums; None where one of its divisors may be zero, or no end is found.

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
    """Several sums with their noises, side by side as arrays."""

    def __init__(self, sums: Sequence[Functional], noises: Noises, confidence: float) -> None:
        self.value = np.array([one.value for one in sums], dtype=np.float64)
        self.ends = np.array([[one.low, one.high] for one in sums], dtype=np.float64)
        self.noises, self.confidence = noises, confidence
        weights = np.zeros((len(noises.many), 3 * len(sums)))
        weights[:, : noises.weights.shape[1]] = noises.weights[:, : 3 * len(sums)]
        self.weights = weights.reshape(len(weights), len(sums), 3)
        self.variances = noises.variances

    def stderr(self, gradient: Floats) -> tuple[float, float]:
        """The standard error along a gradient: what comes from noise, and what from assumptions."""
        return self.noises.stderr(np.asarray(self.weights[:, :, 0] @ gradient))

    def end(self, function: Function, sign: float) -> float | None:
        """How far the function goes up, or down with sign -1; None where no such point is found."""
        start, gradient = function(self.value)
        if not isfinite(start) or not np.isfinite(gradient).all():
            return None
        place, found, reach = self._farthest(sign * gradient, None), start, None
        for count in range(ROUNDS):
            value, gradient = function(place)
            if not isfinite(value) or not np.isfinite(gradient).all():
                return None
            settled = abs(value - found) <= CLOSE * abs(value - start)
            if settled and reach is not None:
                return value
            # How many standard errors the quantile is hangs little on the direction: worked out anew when settled.
            reach = self._reach(sign * gradient) if settled or reach is None else reach
            onward = self._farthest(sign * gradient, reach)
            place, found = onward if count < HALF_SPEED else (place + onward) / 2.0, value
        return None

    def _chosen(self, gradient: Floats) -> tuple[Floats, Floats]:
        """The ends of the sums that let a function with this gradient grow, and the weights of their noises."""
        up = gradient > 0.0
        return np.where(up, self.ends[:, 1], self.ends[:, 0]), np.where(
            up, self.weights[:, :, 2], self.weights[:, :, 1]
        )

    def _reach(self, gradient: Floats) -> float:
        """The quantile of the noise along a gradient, in standard errors."""
        along = self._chosen(gradient)[1] @ gradient
        error = sqrt(float((self.variances * along**2).sum()))
        return self.noises.width(along, self.confidence) / error if error > 0.0 else 0.0

    def _farthest(self, gradient: Floats, reach: float | None) -> Floats:
        """Where a linear function with this gradient is greatest among the sums that are compatible."""
        centre, weights = self._chosen(gradient)
        along = weights @ gradient
        error = sqrt(float((self.variances * along**2).sum()))
        if not error > 0.0:
            return centre
        reach = self._reach(gradient) if reach is None else reach
        return np.asarray(centre + reach * (weights.T @ (self.variances * along)) / error)
