"""How much of the contrasts inside buckets is kept, and how large they are: found in the noisy cells themselves.

With noise of variance v and contrasts of variance t, the posterior mean keeps 1 - B of a noisy contrast, with
B = v / (v + t). B is not known. Either a family of halvings is even, B = 1; or B may be anything between 0 and 1 alike
(the uniform shrinkage prior). Given k noisy contrasts whose squares sum to Q v, the posterior is a gamma distribution
cut at 1 beside a point at 1, and all that is needed has a closed form. Halves of what is even are likely even,
others seldom are; so an even area is evened out at all depths, and a slope is kept down to where noise hides it. The
constants were set by judgement; no search over them is on record.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.halvings import Halvings

POOLED = 2.0  # contrasts' worth of what all halvings of the same size show, in the estimate for each family
EVEN = 0.25  # chance that a bucket is even before its cells are measured
EVEN_IN_EVEN = 0.9  # the same for the halves of an even part
EVEN_IN_UNEVEN = 0.02  # and of an uneven one
# Halves on a slope lean the same way, so what is left out of them adds up along the edge of a query where noise does
# not: less is left out than would be best for each by itself.
CAUTION = 0.5
UNSEEN = 0.5  # of the noise's variance, over the root of the contrasts: unevenness of that size may go unseen


def kept_and_deviation(halvings: Halvings, noisy: Floats, variance: float) -> tuple[Floats, Floats]:
    """For every family of halvings, the part of its contrasts to keep and the deviation of the true ones.

    noisy: the cells in order, whose noise has this variance.
    """
    families = len(halvings.above)
    if variance <= 0.0 or not families:
        return np.ones(families), np.zeros(families)
    squares = halvings.contrasts(noisy[:, None])[:, 0] ** 2 / variance
    members = np.bincount(halvings.family).astype(np.float64)
    height = np.zeros(families, dtype=np.int64)
    height[halvings.family] = halvings.heights
    alike = np.bincount(halvings.heights, weights=squares) / np.maximum(np.bincount(halvings.heights), 1)
    count = members + POOLED
    total = np.maximum(np.bincount(halvings.family, weights=squares) + POOLED * alike[height], 1e-9)
    log_even, mean, square = _noise_part(count, total)
    even = _evenness(halvings, log_even)
    best = (1.0 - even) * (1.0 - mean)  # for a contrast by itself
    # A true contrast given its noisy one has the variance v (1 - B) for a given B, and B varies.
    varies = np.maximum(even + (1.0 - even) * square - (1.0 - best) ** 2, 0.0)
    deviation_squared = (best * (1.0 - best) + varies * total / count) / np.maximum(1.0 - best, 1e-6) ** 2
    deviation = np.sqrt(variance * np.maximum(deviation_squared, UNSEEN / np.sqrt(members)))
    return (1.0 - even) * (1.0 - mean) ** CAUTION, deviation


def _evenness(halvings: Halvings, log_even: Floats) -> Floats:
    """The chance that each family is even, from the top down; `log_even`: how much its contrasts speak for it."""
    chance = np.full(len(log_even), EVEN)
    for depth in range(int(halvings.depth.max()) + 1):
        here = halvings.depth == depth
        prior = chance[here]
        if depth:
            prior = EVEN_IN_UNEVEN + (EVEN_IN_EVEN - EVEN_IN_UNEVEN) * chance[halvings.above[here]]
        odds = np.exp(np.clip(log_even[here], -500.0, 500.0)) * prior / (1.0 - prior)
        chance[here] = odds / (1.0 + odds)
    return chance


def _noise_part(count: Floats, squares: Floats) -> tuple[Floats, Floats, Floats]:
    """For so many contrasts with this sum of squares: the log of the odds of B = 1, and the means of B and B^2 else."""
    from scipy.special import gammainc, gammaln

    shape, rate = count / 2.0 + 1.0, squares / 2.0
    below = gammainc(shape, rate)
    # Where the cells lie closer than their noise should let them, all of the distribution leans against 1.
    usual = below > 1e-250
    below = np.where(usual, below, 1.0)
    mean = np.where(usual, gammainc(shape + 1.0, rate) / below * shape / rate, shape / (shape + 1.0))
    square = gammainc(shape + 2.0, rate) / below * shape * (shape + 1.0) / rate**2
    square = np.where(usual, square, shape / (shape + 2.0))
    otherwise = np.where(usual, np.log(below) + gammaln(shape) - shape * np.log(rate), -np.log(shape) - rate)
    return -rate - otherwise, mean, square
