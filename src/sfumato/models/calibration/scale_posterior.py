"""Posterior of errors at one scale: how large they are is learned from noisy contrasts (empirical Bayes).

A contrast of an estimate is off by an error of unknown size, and was measured with noise. Sizes are multiples of what
is claimed of the error's variance, on a grid; families of contrasts teach each other which of them are likely.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Floats

SIZES = np.exp(np.arange(-4.0, 9.0, 0.5))  # of errors' variances at a scale, over what is claimed
SOME = 0.1  # contrasts' families' worth of belief in each size, before any is seen
LEARNING = 30  # rounds in which all families teach each other how large errors are
WIDER = 1.4  # times the deviations that are left, as errors have longer tails than normal ones
LEAST = 1e-9


def learned_sizes(items: Sequence[tuple[Floats, Floats, float]]) -> list[Floats]:
    """For each family of contrasts, how likely each of `SIZES` is, with a prior that all of them teach each other.

    items: what each contrast is off by, the variance claimed of it, and that of its noise.
    """
    if not items:
        return []
    logs = []
    for off, claimed, variance in items:
        expected = SIZES[:, None] * claimed.reshape(-1) + variance
        logs.append(-0.5 * (np.log(expected) + off.reshape(-1) ** 2 / expected).sum(axis=1))
    likely = np.exp([each - each.max() for each in logs])
    prior = np.full(len(SIZES), 1.0 / len(SIZES))
    for _ in range(LEARNING):
        belief = likely * prior
        belief /= belief.sum(axis=1, keepdims=True)
        prior = belief.sum(axis=0) + SOME
        prior = prior / prior.sum()
    belief = likely * prior
    return list(belief / belief.sum(axis=1, keepdims=True))


def posterior(off: Floats, claimed: Floats, variance: float, sizes: Floats) -> tuple[Floats, Floats, Floats]:
    """The posterior mean of errors, the variance that is left, and which part of that is the noise's."""
    prior = SIZES[:, None] * claimed
    kept = prior / (prior + variance)
    trust = sizes @ kept
    left = trust * variance + np.maximum(sizes @ kept**2 - trust**2, 0.0) * off**2
    return trust * off, left, np.minimum(trust**2 * variance, left)
