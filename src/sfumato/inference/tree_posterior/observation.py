"""One noisy observation of a number that is normal beforehand: how likely it is, and what is known afterwards.

With Laplace noise the density is a normal one tilted up to the observation and tilted down beyond it, so that what is
known afterwards is a mixture of two truncated normal distributions, in closed form.
"""

from __future__ import annotations

from math import log, pi

import numpy as np

from sfumato.arrays import Floats

LOG_2PI = log(2.0 * pi)
FLAT = 400.0  # times the squared scale: a variance beyond it leaves the noise's own distribution, by two moments


def log_normal(x: Floats | float, mean: Floats | float, variance: Floats | float) -> Floats:
    """The logarithm of the normal density."""
    return np.asarray(-0.5 * ((x - mean) ** 2 / variance + np.log(variance) + LOG_2PI))


def log_at_zero(answers: Floats, scales: Floats, *, laplace: bool) -> Floats:
    """The log-likelihood of noisy answers if the truth is zero; scales: of Laplace noise, or standard deviations."""
    if laplace:
        return np.asarray(-np.abs(answers) / scales - np.log(2.0 * scales))
    return log_normal(answers, 0.0, scales**2)


def observe(mean: Floats, variance: Floats, answer: Floats, scale: Floats, *, laplace: bool) -> tuple[Floats, ...]:
    """Log-likelihood of an answer, and mean and variance of the number given it."""
    noise = 2.0 * scale**2 if laplace else scale**2
    known = 1.0 / (1.0 / variance + 1.0 / noise)
    normal = log_normal(answer, mean, variance + noise), known * (mean / variance + answer / noise), known
    if not laplace:
        return normal
    deviation, apart = np.sqrt(variance), answer - mean
    below, above = (apart - variance / scale) / deviation, (-apart - variance / scale) / deviation
    tilt = variance / (2.0 * scale**2)
    log_below, hazard_below = _tail(below)
    log_above, hazard_above = _tail(above)
    log_below, log_above = log_below - apart / scale + tilt, log_above + apart / scale + tilt
    likely = np.logaddexp(log_below, log_above)
    share = np.exp(log_below - likely)
    low, high = mean + variance / scale - deviation * hazard_below, mean - variance / scale + deviation * hazard_above
    low_spread = np.maximum(1.0 - below * hazard_below - hazard_below**2, 1e-9)
    high_spread = np.maximum(1.0 - above * hazard_above - hazard_above**2, 1e-9)
    middle = share * low + (1.0 - share) * high
    spread = share * (variance * low_spread + (low - middle) ** 2)
    spread += (1.0 - share) * (variance * high_spread + (high - middle) ** 2)
    exact = likely - np.log(2.0 * scale), middle, np.maximum(spread, 1e-9 * known)
    wide = variance > FLAT * scale**2
    return tuple(np.where(wide, a, b) for a, b in zip(normal, exact, strict=True))


def _tail(place: Floats) -> tuple[Floats, Floats]:
    """log Phi(place) and phi(place) / Phi(place)."""
    from scipy.special import log_ndtr

    log_left = log_ndtr(place)
    return log_left, np.exp(-0.5 * place**2 - 0.5 * LOG_2PI - log_left)
