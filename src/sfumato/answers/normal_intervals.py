"""Intervals of linear answers in many groups at once, where all errors are normal.

What `linear_interval` (fieller.py) does for one group is done for all of them as arrays, to the same digits. A sum of
several normal errors is normal: its width is z standard errors. A single one keeps the width that noise_sum.py finds
on the lattice that stands for a normal distribution, so that an answer does not depend on how many groups are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import nan

import numpy as np

from sfumato.answers.fieller import NEGLIGIBLE, NORMAL, SMOOTH, Intervals, NormalErrors
from sfumato.answers.noise_sum import FINEST, cornish_fisher, half_width_of, moments_of
from sfumato.answers.noise_sum import NEGLIGIBLE as NO_NOISE
from sfumato.arrays import Codes, Floats

_VARIANCE, _SIGMA_SQUARED = moments_of(NORMAL)


def linear_intervals(answers: Sequence[Floats], errors: NormalErrors, confidence: float) -> Intervals:
    """Intervals [low - q_low, high + q_high] of linear answers; answers: value, low and high, (groups,) each."""
    value, low, high = answers
    noise, model = (_factors(covariance, errors.back) for covariance in (errors.noise, errors.model))
    by_noise, by_model = (np.sqrt((_VARIANCE * each[:, :, 0] ** 2).sum(axis=1)) for each in (noise, model))
    factors = np.concatenate([noise, model], axis=1)
    low_end = low - _widths(factors[:, :, 1], confidence)
    high_end = high + _widths(factors[:, :, 2], confidence)
    by_model = np.hypot(np.maximum(high - low, 0.0) / np.sqrt(12.0), by_model)
    parts = (value, np.hypot(by_noise, by_model), np.minimum(low_end, value), np.maximum(high_end, value), by_noise)
    if not errors.unknown.any():
        return Intervals(*parts, by_model)
    nothing = (nan, nan, -np.inf, np.inf, nan, 0.0)
    known = zip((*parts, by_model), nothing, strict=True)
    return Intervals(*(np.where(errors.unknown, none, part) for part, none in known))


def _factors(covariance: Floats, back: Codes) -> Floats:
    """Weights of independent normal errors with given covariances, (groups, errors, value, low and high).

    As `fieller.normal_terms`, which does it for one group; covariance: (groups, sums, sums).
    """
    if covariance.shape[1] == 1:
        return np.asarray((np.sqrt(np.maximum(covariance, 0.0)) / SMOOTH)[:, :, back[:3]])
    values, vectors = np.linalg.eigh(covariance)
    kept = values > NEGLIGIBLE * np.maximum(values.max(axis=1, keepdims=True), 0.0)
    factors = vectors * np.sqrt(np.where(kept, values, 0.0))[:, None, :] / SMOOTH
    return np.asarray(np.swapaxes(factors, 1, 2)[:, :, back[:3]])


def _widths(weights: Floats, confidence: float) -> Floats:
    """Smallest q with P(|weighted sum of normal errors| <= q) >= confidence; weights: (groups, errors)."""
    weights = -np.sort(-np.abs(weights), axis=1)
    unit = weights[:, 0].copy()
    weights = weights / np.where(unit > 0.0, unit, 1.0)[:, None]
    shares = _VARIANCE * weights**2
    shares = np.where(shares > NO_NOISE * shares.sum(axis=1, keepdims=True), shares, 0.0)
    deviation = np.sqrt(shares.sum(axis=1))
    widths = unit * (deviation * cornish_fisher(0.0, confidence))
    many = (shares > 0.0).sum(axis=1)
    alike = many == (weights == 1.0).sum(axis=1)  # one weight: on the lattice
    for number in np.unique(many[alike]).tolist():
        same = alike & (many == number)
        widths[same] = unit[same] * _width_of_equal(number, confidence)
    for group in np.flatnonzero(~alike & (deviation <= FINEST)).tolist():  # all but one are next to nothing
        some = weights[group][shares[group] > 0.0] * unit[group]
        widths[group] = _width(some, confidence)
    return np.asarray(widths)


@lru_cache(maxsize=256)
def _width_of_equal(number: int, confidence: float) -> float:
    """Width of the sum of some normal errors with weight 1."""
    return _width(np.ones(number), confidence)


def _width(weights: Floats, confidence: float) -> float:
    """Width of one sum of normal errors, (errors,)."""
    every = np.ones(len(weights))
    return half_width_of(weights, _VARIANCE * every, _SIGMA_SQUARED * every, every, confidence)
