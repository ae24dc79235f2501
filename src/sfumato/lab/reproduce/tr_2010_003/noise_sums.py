"""The mean absolute size of a sum of discrete Laplace noises, exactly: what a simulation must come out at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def mean_absolute_sum(terms: Sequence[int] | NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    """E|Z_1 + ... + Z_k| for every k of `terms`, with independent discrete Laplace noises of one scale.

    For whole k, |k| is the integral of (1 - cos kt) / (1 - cos t) over t from 0 to pi, divided by pi; so the mean
    absolute value of a sum is that of (1 - phi(t)^k) / (1 - cos t), phi being the characteristic function of one noise.

    >>> [round(float(v), 4) for v in mean_absolute_sum([1, 2, 100], 1.0)]
    [0.8509, 1.3672, 10.8061]
    """
    t = np.geomspace(1e-7 / max(1.0, scale), np.pi, 6001)
    ratio = np.exp(-1.0 / scale)
    # 1 - 2 r cos t + r^2 = (1 - r)^2 + 4 r sin(t / 2)^2, which keeps its digits where t is small.
    half = 2.0 * np.sin(t / 2.0) ** 2
    log_phi = -np.log1p(2.0 * ratio * half / np.expm1(-1.0 / scale) ** 2)
    times = np.asarray(terms, dtype=np.float64)[:, None]
    inside = -np.expm1(times * log_phi) / half * t  # dt = t d(ln t)
    steps = np.diff(np.log(t))
    rest = inside[:, :1]  # below the first t the integrand is flat, so it adds its value times t, which `inside` holds
    return np.asarray((((inside[:, 1:] + inside[:, :-1]) / 2.0 * steps).sum(axis=1) + rest[:, 0]) / np.pi)
