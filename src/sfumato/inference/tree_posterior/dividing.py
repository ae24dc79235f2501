"""Dividing the rows of regions between their halves, all ways weighed by what is known from above and from below."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.tree_posterior.observation import log_normal
from sfumato.inference.tree_posterior.split_prior import FIRST_EMPTY, SECOND_EMPTY, WAYS, Halves

LEAST = 1e-6  # a variance, in rows: below it nothing is gained and digits are lost
HARDLY = 1e-12  # a chance
# Of the variance between ways, in what is said of the error: chances rest on a prior that was learned from the same
# counts, so that they are surer of themselves than they should be. Chosen on made-up tables, with tree_fit.CAUTION.
DOUBT = 3.0


@dataclass(frozen=True, eq=False)
class Law:
    """A number of rows, normal: one for each of several regions, or for each way and region."""

    mean: Floats
    variance: Floats


@dataclass(frozen=True, eq=False)
class Divided:
    """Regions divided between their halves.

    chances: of each way. slope: how much of one row more the first half gets; variance: of the first half given the
    region's rows; leaning: see Halves. For both halves, (2, regions), lives: the chance that it is not empty; rows and
    spread: mean and variance of its rows if it is not.
    """

    chances: Floats
    slope: Floats
    variance: Floats
    leaning: Floats
    lives: Floats
    rows: Floats
    spread: Floats


def divided(halves: Halves, likely: Floats, states: Law, whole: Law, below: Law) -> Divided:
    """Divide regions of which the rows are known.

    likely, states: the log-likelihood of each way and the rows it makes likely. whole: the regions' rows by all that is
    known; below: by what the regions themselves and their parts say.
    """
    rows, mean, variance = whole.mean, states.mean, states.variance
    # What is known from elsewhere: the whole of what is known, less what the region itself says.
    precision = np.maximum(1.0 / whole.variance - 1.0 / below.variance, 0.0)
    helps = precision > 1e-9 / below.variance
    outer = 1.0 / np.where(helps, precision, 1.0)
    centre = outer * (rows / whole.variance - below.mean / below.variance)
    likely = np.where(helps, likely + log_normal(mean, centre, variance + outer), likely)
    chances = np.exp(likely - likely.max(axis=0))
    chances /= chances.sum(axis=0)
    known = np.where(helps, 1.0 / (1.0 / variance + 1.0 / outer), variance)
    state = np.where(helps, known * (mean / variance + centre / outer), mean)
    short = rows - (chances * state).sum(axis=0)  # a mixture of normal laws does not keep the mean to the last digit
    state = state + short * known / np.maximum((chances * known).sum(axis=0), HARDLY)
    first, slope, within = halves.divide(state)
    given = slope**2 * known + within, (1.0 - slope) ** 2 * known + within
    given[1][FIRST_EMPTY], given[1][SECOND_EMPTY] = known[FIRST_EMPTY], 0.0
    middle = (chances * first).sum(axis=0)
    spread_whole = (chances * (known + (state - rows) ** 2)).sum(axis=0)
    spread_first = (chances * (given[0] + (first - middle) ** 2)).sum(axis=0)
    together = (chances * (slope * known + (first - middle) * (state - rows))).sum(axis=0)
    regression = together / np.maximum(spread_whole, HARDLY)
    left = np.maximum(spread_first - regression**2 * spread_whole, 0.0)
    between = (chances * (first - middle - regression * (state - rows)) ** 2).sum(axis=0)
    left += (DOUBT - 1.0) * np.minimum(between, left)
    lives = np.maximum(1.0 - chances[[FIRST_EMPTY, SECOND_EMPTY]], HARDLY)
    held = np.stack([middle, rows - middle]) / lives
    spreads = []
    for half, values in enumerate((first, state - first)):
        there = np.delete(np.arange(WAYS), half)
        square = (chances[there] * (given[half][there] + values[there] ** 2)).sum(axis=0) / lives[half]
        spreads.append(np.maximum(square - held[half] ** 2, LEAST))
    return Divided(chances, regression, left, halves.leaning(chances, state), lives, held, np.stack(spreads))


def as_one(likely: Floats, states: Law) -> tuple[Law, Floats]:
    """A mixture over the ways as one normal law, and the logarithm of its weight."""
    most = likely.max(axis=0)
    chances = np.exp(likely - most)
    whole = chances.sum(axis=0)
    chances /= whole
    middle = (chances * states.mean).sum(axis=0)
    spread = (chances * (states.variance + (states.mean - middle) ** 2)).sum(axis=0)
    return Law(middle, np.maximum(spread, LEAST)), most + np.log(whole)
