"""The characteristic function of a sum of noises on a lattice, at the frequencies of an FFT.

Factors are multiplied one after another, as sums of logarithms. No factor is more than 1, so where the product is lost
in the rounding of the FFT already the others are left out: of a smooth sum a few hundred frequencies in thousands stay.
"""

from __future__ import annotations

from functools import lru_cache
from math import ceil, exp, pi, sqrt

import numpy as np

from sfumato.arrays import Floats

GONE = -45.0  # the logarithm of what no FFT of numbers around 1 keeps


def log_characteristic(pieces: Floats, length: int) -> Floats:
    """The logarithm of the sum's characteristic function at the frequencies of an FFT, or anything below GONE.

    pieces: a column for each kind of noise, of whole steps, size, share and how many (noise_sum.py).
    """
    total = np.zeros(length // 2 + 1)
    left = np.arange(length // 2 + 1)
    fall = pieces[3] * np.log1p(2.0 * pieces[1])  # those that leave the fewest frequencies come first
    for steps, size, share, many in pieces[:, np.argsort(-fall)].T:
        places = left * int(steps) % length
        if share == 0.0:
            total[left] -= many * np.log1p((2.0 * size) * _squared_sines(length)[places])
        else:
            drop = _gaussian_drop(size, np.asarray(places * (pi / length), dtype=np.float64))
            total[left] += many * np.log(np.maximum(1.0 - share * drop, 1e-300))
        left = left[total[left] > GONE]
    return total


@lru_cache(maxsize=16)
def _squared_sines(length: int) -> Floats:
    return np.asarray(np.sin(np.arange(length) * (pi / length)) ** 2)


def _gaussian_drop(sigma_squared: float, half_angle: Floats) -> Floats:
    """1 minus the characteristic function of the discrete Gaussian distribution."""
    if sigma_squared < 1.0:
        z = np.arange(1.0, ceil(sqrt(72.0 * sigma_squared)) + 1.0)  # the mass beyond is under exp(-36)
        mass = np.exp(-(z**2) / (2.0 * sigma_squared))
        return np.asarray((4.0 / (1.0 + 2.0 * mass.sum())) * (np.sin(half_angle[:, None] * z) ** 2 @ mass))
    angle = 2.0 * (half_angle - pi * np.rint(half_angle / pi))  # within -pi and pi; Poisson summation around it
    waves = sum(np.exp(-sigma_squared * (angle + turn) ** 2 / 2.0) for turn in (-2.0 * pi, 0.0, 2.0 * pi))
    return np.asarray(1.0 - waves / (1.0 + 2.0 * exp(-2.0 * pi * pi * sigma_squared)))
