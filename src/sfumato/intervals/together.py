"""How far the largest of several normal errors reaches that have to do with each other.

Answers from the same measurements share noises. Where their covariance is known, so is the distribution of the largest
error in standard errors: intervals of that half-width hold together, and are narrower than if chances of missing were
added up. It is worked out on points that fill the space evenly (Sobol), always the same ones, and rounded up by what
so few points may be off by.
"""

from __future__ import annotations

from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from sfumato.arrays import Floats

POINTS = 2**14
SEED = 1  # of the scrambling: any does, and it must not change from one reading of a release to the next
ROUNDED_UP = 2.0  # standard errors of a share of so many points drawn at random; these are more even
NEGLIGIBLE = 1e-9  # of the largest eigenvalue


def joint_confidence(covariance: Floats, confidence: float) -> float:
    """The confidence of each of several normal errors, so that all keep within their own half-width together.

    >>> one = np.ones((1, 1))
    >>> round(joint_confidence(one, 0.95), 2), round(joint_confidence(np.ones((9, 9)), 0.95), 2)
    (0.95, 0.95)
    >>> 0.994 < joint_confidence(np.eye(9), 0.95) <= 1 - 0.05 / 9
    True
    """
    deviations = np.sqrt(np.diag(covariance))
    noisy = np.flatnonzero(deviations > 0.0)
    least = 1.0 - (1.0 - confidence) / max(1, len(deviations))  # no better than that is no use
    if len(noisy) < 2:
        return confidence
    alike = covariance[np.ix_(noisy, noisy)] / np.outer(deviations[noisy], deviations[noisy])
    values, vectors = np.linalg.eigh(alike)
    kept = values > NEGLIGIBLE * values.max()
    factors = vectors[:, kept] * np.sqrt(values[kept])
    points = qmc.Sobol(int(kept.sum()), scramble=True, seed=SEED).random(POINTS)
    largest = np.sort(np.abs(ndtri(np.clip(points, 1e-12, 1.0 - 1e-12)) @ factors.T).max(axis=1))
    beyond = ROUNDED_UP * sqrt(POINTS * confidence * (1.0 - confidence))
    place = min(ceil(POINTS * confidence + beyond), POINTS) - 1
    if len(np.unique(np.round(np.abs(alike), 9))) == 1:  # all the same error: nothing to round
        return confidence
    return min(least, 2.0 * NormalDist().cdf(float(largest[place])) - 1.0)
