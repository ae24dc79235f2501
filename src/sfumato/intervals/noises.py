"""Independent noises side by side: what the answers of all groups with the same noises are worked out from.

A GROUP BY asks hundreds of questions of the same noises, each with weights of its own; a sum over thousands of cells
has thousands of them. As arrays they are weighed together, and what does not hang on the question is found once.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import frexp, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.intervals.noise_sum import check_confidence, half_width_of, moments_of
from sfumato.measurement import Noise

NEARLY = 0.05  # kurtosis up to which a width is guessed, before it is worked out: its square does not matter


class Noises:
    """Noises, each many times over, with the weights that they have in some sums: (noises, columns)."""

    def __init__(self, noises: Sequence[Noise], many: Floats, weights: Floats, model: Flags) -> None:
        first: dict[int, int] = {}
        which = [first.setdefault(id(noise), place) for place, noise in enumerate(noises)]
        known = {place: moments_of(noises[place]) for place in first.values()}
        self._moments = np.array([known[place] for place in which], dtype=np.float64).reshape(len(which), 2).T
        self.many, self.weights, self.model = many, weights, model
        self._widths: dict[tuple[int, float], float] = {}

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
        return half_width_of(weights, self._moments[0], self._moments[1], self.many, confidence)

    def nearly(self, weights: Floats, confidence: float) -> float | None:
        """About that width in standard errors, of a sum that is normal but for its fourth moment; None if it is not."""
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
