"""How wrong a model is, known only through a noisy misfit: the deviation that intervals need besides the noise.

A share of the budget was spent on the sum of |true - estimated| over many queries, or over parts of buckets that were
taken as even. Where noisy cells were measured, they show it themselves (models/partition/halvings.py).
"""

from __future__ import annotations

from collections.abc import Callable
from math import erf, pi, sqrt

import numpy as np

from sfumato.arrays import Floats

COVERAGE, NORMAL_END = 0.95, 1.959964
POINTS = 400  # of the grid of possible means
OF_NORMAL = sqrt(2 / pi)  # the mean size of a normal error, in deviations
CLOSE, STEPS = 2.0**-46, 200  # of a search for where a function passes 0: relative, and at most
QUICK = 2**12  # numbers, up to which Python's own function is done before a library is loaded


def erf_of(values: Floats) -> Floats:
    """The error function of every number."""
    if values.size > QUICK:
        from scipy.special import erf as of_many

        return np.asarray(of_many(values))
    return np.fromiter(map(erf, values.ravel().tolist()), np.float64, values.size).reshape(values.shape)


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
        return float(chance @ erf_of(NORMAL_END / sqrt(2) * reckoned / possible)) - COVERAGE

    return crossing(held, top)


def deviation_of_shape(mean: float, model: Floats, noise: Floats) -> float:
    """The s for which errors of variance s^2 model + noise have the given mean size, if normal; 0 where noise does.

    model, noise: variances of several queries.
    """

    def surplus(deviation: float) -> float:
        return float(OF_NORMAL * np.sqrt(deviation**2 * model + noise).mean()) - mean

    if surplus(0.0) >= 0 or not (model > 0).any():
        return 0.0
    return crossing(surplus, mean / float(np.sqrt(model).mean()) / OF_NORMAL)


def deviation_in_buckets(misfit: float, scale: float, parts: Floats, deviations: Floats, most: Floats) -> float:
    """The deviation within buckets, common to all of them, that explains how far parts of them are from being even.

    misfit: the sum over parts of buckets of |true - estimated|, with noise of this scale. parts: what share of its
    bucket each part is; deviations: of the noise in the total of its bucket; most: the largest deviation its bucket can
    have.

    For a normal unevenness of deviation S and normal noise of deviation s in the total, a part p of a bucket is off by
    sqrt(2 / pi) sqrt(p (1 - p) S^2 + p^2 s^2) on average. One deviation serves all, but where `most` caps it: a
    partition chosen by its deviations evens them out, and of no other difference between buckets is anything known.
    """
    wanted = (allow_for_noise(misfit, scale) if scale > 0.0 else misfit) / OF_NORMAL

    def surplus(deviation: float) -> float:
        uneven = parts * (1.0 - parts) * np.minimum(deviation, most) ** 2
        return float(np.sqrt(uneven + (parts * deviations) ** 2).sum()) - wanted

    top = float(most.max(initial=0.0))
    if surplus(0.0) >= 0:
        return 0.0
    return crossing(surplus, top) if surplus(top) >= 0 else top


def crossing(rising: Callable[[float], float], guess: float) -> float:
    """Where a rising function that is below 0 at 0 passes it: by doubling, then to the last digits but one or two.

    Chandrupatla 1997: a parabola through the last three points tells the next one where it can be trusted, and
    otherwise the middle does.

    >>> round(crossing(lambda x: x**3 - 2, 1.0), 12) == round(2 ** (1 / 3), 12)
    True
    """
    far, last = 0.0, guess
    of_far = rising(far)
    while (of_last := rising(last)) < 0:
        far, of_far, last = last, of_last, 2 * last
    share = 0.5
    for _ in range(STEPS):
        point = last + share * (far - last)
        value = rising(point)
        if (value < 0) == (of_last < 0):
            before, of_before = last, of_last
        else:
            before, of_before, far, of_far = far, of_far, last, of_last
        last, of_last = point, value
        least = CLOSE * max(far, last) / abs(far - last)
        if least > 0.5:
            break
        along, up = (last - far) / (before - far), (of_last - of_far) / (of_before - of_far)
        share = 0.5
        if 1.0 - sqrt(1.0 - along) < up < sqrt(along):
            first = of_last / (of_far - of_last) * of_before / (of_far - of_before)
            second = (before - last) / (far - last) * of_last / (of_before - of_last) * of_far / (of_before - of_far)
            share = min(max(first + second, least), 1.0 - least)
    return max(far, last)
