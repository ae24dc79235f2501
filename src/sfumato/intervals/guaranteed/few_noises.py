"""How far sums of a few noises reach, in standard errors, where a sum of many is taken as normal.

A normal distribution has shorter tails than Laplace's, and it has no steps: noise of which most is 0 has a standard
error of half a row, say, and misses by a whole one. Sums of more noises are nearer to the normal one in both.
"""

from __future__ import annotations

from functools import lru_cache
from math import sqrt

from sfumato.intervals.noise_sum import half_width
from sfumato.measurement import Noise

FEW = (1, 2, 3, 4, 6, 9)  # noises in a sum


@lru_cache(maxsize=256)
def longest_reach(noises: frozenset[Noise], confidence: float) -> float:
    """The most standard errors that a sum of a few noises of one kind keeps within, so sure.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> round(longest_reach(frozenset({Laplace(Fraction(50))}), 0.95), 2)
    2.12
    >>> round(longest_reach(frozenset({Laplace(Fraction(2, 5))}), 0.95), 2)
    2.62
    """
    return max((_reach(noise, many, confidence) for noise in noises for many in FEW), default=0.0)


@lru_cache(maxsize=256)
def longest_tail(noises: frozenset[Noise], confidence: float) -> tuple[Noise, int] | None:
    """The noise, and how many of it, whose sum reaches furthest in standard errors, so sure; None of no noises."""
    sums = ((noise, many) for noise in noises for many in FEW)
    return max(sums, key=lambda one: (_reach(*one, confidence), one[0].variance, -one[1]), default=None)


@lru_cache(maxsize=4096)
def _reach(noise: Noise, many: int, confidence: float) -> float:
    deviation = sqrt(noise.variance * many)
    return half_width([(1.0, noise, many)], confidence) / deviation if deviation > 0.0 else 0.0
