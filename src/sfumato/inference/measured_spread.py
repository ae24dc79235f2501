"""From a measured mean misfit to the spread of a model: how wrong an estimate is, known only through noise."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt

import numpy as np

from sfumato.arrays import Floats

COVERAGE, NORMAL_END = 0.95, 1.959964
# Errors of many queries at once fall between normal ones and those of two-sided exponential tails. Of these a 95 %
# interval that fits the mean size of normal errors holds 91 %; made a tenth wider it holds 97 % and 93 % on average.
# But a model misses the same query in every release, so an average over queries hides single ones: with this much,
# the queries of the contract tests were held in 90 % of releases or more, where a tenth held one of them in 68 %.
ALLOWANCE = 1.4
POINTS = 400  # of the grid of possible means
_ERF = np.vectorize(erf, otypes=[np.float64])


def allow_for_noise(mean: float, scale: float) -> float:
    """The mean error to reckon with, when the true one was measured with Laplace noise of this scale.

    All means from 0 on are taken as equally likely beforehand; then 95 % intervals made from the result hold, averaged
    over what the mean may be, 95 %.

    >>> round(allow_for_noise(100.0, 0.1), 1), round(allow_for_noise(0.0, 1.0), 1)
    (100.0, 1.5)
    """
    top = max(mean, 0.0) + 20 * scale
    possible = (np.arange(POINTS) + 0.5) * top / POINTS
    if mean > 40 * scale:  # a finer grid, around what was measured
        possible = mean + (np.arange(POINTS) + 0.5 - POINTS / 2) * 40 * scale / POINTS
    chance = np.exp(-np.abs(possible - max(mean, 0.0)) / scale)
    chance /= chance.sum()

    def held(reckoned: float) -> float:
        return float(chance @ _ERF(NORMAL_END / sqrt(2) * reckoned / possible)) - COVERAGE

    return _crossing(held, top)


def spread_for(mean: float, model: Floats, noise: Floats) -> float:
    """The s for which errors of variance s^2 model + noise have the given mean size, if normal; 0 where noise does.

    model, noise: variances of several queries.
    """

    def surplus(spread: float) -> float:
        return float(np.sqrt(2 / pi) * np.sqrt(spread**2 * model + noise).mean()) - mean

    if surplus(0.0) >= 0 or not (model > 0).any():
        return 0.0
    return _crossing(surplus, mean / float(np.sqrt(model).mean()) * sqrt(pi / 2))


def _crossing(rising: Callable[[float], float], guess: float) -> float:
    """Where a rising function passes 0, by doubling and bisection."""
    low, high = 0.0, guess
    while rising(high) < 0:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return high
