"""By how much errors of a kind are larger than claimed, from a noisy sum of their sizes.

The sum over many questions of |true - answer| was measured. If errors had the deviations that are claimed for them
times a factor, the sum would be known; the noise of the measurement leaves the factor open, and so the one that is used
makes 95 % intervals hold 95 % of the time on average over what it may be.

A model that is wrong is not wrong everywhere alike. What variances have beyond those claimed is a positive number of
which nothing but the mean is known, and so it is taken to fall off evenly over questions (exponential, the least that
can be said of it): errors are then normal where the factor is 1, and near to Laplace's shape where it is large.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.model_error import COVERAGE, NORMAL_END, OF_NORMAL, crossing, erf_of
from sfumato.measurement import Laplace, Measurement

POSSIBLE = 2.0 ** np.linspace(-4.0, 8.0, 121)  # factors that are looked at
CLAIMED = int(np.argmin(np.abs(POSSIBLE - 1.0)))  # where the factor is what is claimed
HALVINGS = 24  # of twice the largest of them: the steps in which a factor is told
UNLIKELY = 1e-6  # of the likeliest factor: others change no figure
FAR = 4.0  # where the error function is 1 to eight digits


@lru_cache(maxsize=1)
def _beyond() -> tuple[Floats, Floats]:
    """Variances beyond those claimed, in their mean, and how often each is: the points of an integral."""
    points, weights = np.polynomial.laguerre.laggauss(8)
    return points, weights


def spread_out(factors: Floats) -> Floats:
    """Squares of the factors that single questions have, at the points of an integral; their mean is the factor's."""
    return np.asarray(
        np.minimum(factors, 1.0) ** 2 + np.multiply.outer(_beyond()[0], np.maximum(factors**2 - 1.0, 0.0))
    )


def expected_sizes(beside: Floats, model: Floats, noise: Floats | float = 0.0, *, peaked: bool = False) -> Floats:
    """For every possible factor on deviations of the model, the mean of |error|, over questions.

    beside: by how far the public target of each question lies from its answer, as targets are whole numbers. peaked:
    errors have the shape of a single Laplace noise, not of a sum of many: of the same deviation, they are smaller on
    average.
    """
    off = np.abs(beside)
    deviation = np.maximum(np.sqrt(np.multiply.outer(POSSIBLE**2, model) + noise), 1e-12)
    if peaked:
        scale = deviation / sqrt(2.0)
        return np.asarray((off + scale * np.exp(-np.minimum(off / scale, 700.0))).mean(axis=1))
    each = np.tensordot(
        _beyond()[1], np.sqrt(np.multiply.outer(spread_out(POSSIBLE), model) + noise), axes=1
    )  # on average
    far = np.minimum((off / deviation) ** 2 / 2.0, 700.0)
    return np.asarray((OF_NORMAL * each * np.exp(-far) + off * _ends_of(np.sqrt(far))).mean(axis=1))


def _ends_of(far: Floats) -> Floats:
    """The error function; 1 far out, so that it is worked out only where that tells."""
    found, near = np.ones(far.shape), far < FAR
    found[near] = erf_of(far[near])
    return found


def believed(log_likely: Floats) -> Floats:
    """How likely each possible factor is, from how likely it makes what was measured.

    Beforehand, twice as much as claimed is a quarter as likely as what is claimed, and as likely as half as much.
    """
    chance = np.exp(log_likely - log_likely.max()) / (1.0 + np.log2(POSSIBLE) ** 2) ** 2
    return np.asarray(chance / chance.sum())


def chances_of(measured: Measurement, place: int, expected: Floats) -> Floats:
    """How likely each possible factor is; expected: the sums that go with them."""
    answer, noise = float(measured.answers[place]), measured.noise
    off = np.abs(answer - expected)
    return believed(-off / float(noise.scale) if isinstance(noise, Laplace) else -(off**2) / (2.0 * noise.variance))


def factor_of(chances: Floats) -> float:
    """The factor with which 95 % intervals hold 95 % on average over the possible ones.

    chances: for each of several groups of questions, (groups, factors), or for one. Groups of a kind that differ make
    intervals wider, for a question may be like those of any of them.
    """
    each = np.atleast_2d(chances).mean(axis=0)
    likely = each > UNLIKELY * each.max()
    each, single = each[likely] / each[likely].sum(), np.sqrt(spread_out(POSSIBLE[likely]))
    near, weights = NORMAL_END / sqrt(2.0) / single, _beyond()[1]
    step = 2.0 * float(POSSIBLE[-1]) / 2**HALVINGS
    exact = crossing(lambda factor: float(weights @ _ends_of(factor * near) @ each) - COVERAGE, 2.0)
    return float(ceil(exact / step) * step)
