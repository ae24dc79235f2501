"""Independent noises side by side: what the answers of all groups with the same noises are worked out from.

A GROUP BY asks hundreds of questions of the same noises, each with weights of its own; a sum over thousands of cells
has thousands of them. As arrays they are weighed together, and what does not hang on the question is found once.

What was assumed is taken as normal, as its variance is known on average over many cells. Of one cell it is not, and the
largest of many errors is where it is largest: a normal error whose variance has an inverse gamma law is Student's. Of
whole degrees of freedom three are the fewest that leave it the variance that was measured, so far out that is the law.
How far noise and model reach is then added in squares, which is exact for normal errors and too much for long tails
(public/comparison/difference.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from functools import cached_property, lru_cache
from math import frexp, hypot, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.answers.intervals.noise_sum import check_confidence, half_width_of, moments_of
from sfumato.arrays import Flags, Floats
from sfumato.measurement import Noise

DEGREES = 3  # of freedom, the fewest with a variance


NEARLY = 0.05  # kurtosis up to which a width is guessed, before it is worked out: its square does not matter


class Noises:
    """Noises, each many times over, with the weights that they have in some sums: (noises, columns).

    far: whether what was assumed has Student's law.
    """

    def __init__(
        self, noises: Sequence[Noise], many: Floats, weights: Floats, model: Flags, *, far: bool = False
    ) -> None:
        first: dict[int, int] = {}
        which = [first.setdefault(id(noise), place) for place, noise in enumerate(noises)]
        known = {place: moments_of(noises[place]) for place in first.values()}
        self._moments = np.array([known[place] for place in which], dtype=np.float64).reshape(len(which), 2).T
        self.many, self.weights, self.model, self.far = many, weights, model, far
        self._widths: dict[tuple[int, float], float] = {}

    def weighed(self, weights: Floats) -> Noises:
        """The same noises with other weights."""
        other = copy(self)
        other.weights, other._widths = weights, {}
        return other

    @cached_property
    def variances(self) -> Floats:
        """Of each noise, as often as it is there."""
        return np.asarray(self._moments[0] * self.many)

    def stderr(self, weights: Floats) -> tuple[float, float]:
        """The standard error of a weighted sum: what comes from noise, and what from assumptions."""
        parts = self.variances * weights**2
        assumed = float(parts[self.model].sum())
        return sqrt(float(parts[~self.model].sum())), sqrt(assumed)

    def width(self, weights: Floats, confidence: float) -> float:
        """The smallest q that a weighted sum keeps within, on either side, with this probability."""
        if not self.far:
            return half_width_of(weights, self._moments[0], self._moments[1], self.many, confidence)
        drawn, assumed = ~self.model, float(self.variances[self.model] @ weights[self.model] ** 2)
        variance, sigma_squared = self._moments[:, drawn]
        width = half_width_of(weights[drawn], variance, sigma_squared, self.many[drawn], confidence)
        return hypot(width, students_reach(confidence) * sqrt(assumed))

    def nearly(self, weights: Floats, confidence: float) -> float | None:
        """About that width in standard errors, of a sum that is normal but for its fourth moment; None if it is not."""
        if self.far:
            return None
        variance, sigma_squared = self._moments
        # In units of a power of two, which changes no digit: fourth powers of large weights are beyond all numbers.
        squares = np.ldexp(weights, -frexp(float(np.abs(weights).max(initial=0.0)))[1]) ** 2
        fourth = np.where(sigma_squared, 0.0, self.many * (variance + 3.0 * variance**2)) @ squares**2
        kurtosis = float(fourth) / max(float(self.variances @ squares) ** 2, 1e-300)
        if not kurtosis < NEARLY:
            return None
        z = -NormalDist().inv_cdf((1.0 - confidence) / 2.0)
        return z + kurtosis * (z**3 - 3.0 * z) / 24.0

    def surely_within(self, column: int, least: float, confidence: float) -> bool:
        """Whether the sum of one column keeps within a distance, on either side, with this probability."""
        check_confidence(confidence)
        spread = sqrt(float(self.variances @ self.weights[:, column] ** 2))
        # By Chebyshev's inequality; most often that is enough, and takes no distribution.
        return least > spread / sqrt(1.0 - confidence) or least > self.width_along(column, confidence)

    def width_along(self, column: int, confidence: float) -> float:
        """The same with the weights of one column, remembered."""
        if (column, confidence) not in self._widths:
            self._widths[column, confidence] = self.width(self.weights[:, column], confidence)
        return self._widths[column, confidence]


@lru_cache(maxsize=256)
def students_reach(confidence: float) -> float:
    """What Student's law keeps within, in standard deviations, or the normal one where that is further: up to 97 %.

    >>> round(students_reach(0.95), 2), round(students_reach(0.999), 2)
    (1.96, 7.46)
    """
    from scipy.special import stdtrit

    tail = (1.0 - confidence) / 2.0
    students = -float(stdtrit(DEGREES, tail)) * sqrt((DEGREES - 2) / DEGREES)
    return max(students, -NormalDist().inv_cdf(tail))
