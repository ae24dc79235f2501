"""How uneven a region is that was taken as even: what its error bars need besides the noise.

A share of the budget was spent on it: the sum over parts of regions of |true - estimated| is known, with noise. Where
noisy cells were measured, they show it themselves (inference/contrasts.py).
"""

from __future__ import annotations

from math import pi, sqrt

import numpy as np

from sfumato.arrays import Floats

ALLOWED = 1.0  # scales of its own noise that are added to a measured misfit: errors stay large enough in most releases
PATTERN = (
    1.38  # for a slope: its quarters are off by 1/4 of the spread on average, where normal ones are by 0.345 of it
)


def from_misfit(misfit: float, scale: float, parts: Floats, deviations: Floats, most: Floats) -> float:
    """The spread of regions, common to all of them, that explains how far parts of them are from being even.

    misfit: the sum over parts of regions of |true - estimated|, with noise of this scale. parts: what share of its
    region each part is; deviations: of the noise in the total of its region; most: the largest spread its region can
    have.

    For a normal unevenness of spread S and normal noise of deviation s in the total, a part p of a region is off by
    sqrt(2 / pi) sqrt(p (1 - p) S^2 + p^2 s^2) on average. A slope or a ridge is off by less there than its spread would
    say, which PATTERN makes good. One spread serves all, but where `most` caps it: a partition chosen by its deviations
    evens them out, and of no other difference between regions is anything known.
    """
    wanted = (misfit + ALLOWED * scale) / sqrt(2.0 / pi)

    def explained(spread: float) -> float:
        uneven = parts * (1.0 - parts) * np.minimum(spread, most) ** 2
        return float(np.sqrt(uneven + (parts * deviations) ** 2).sum())

    low, high = 0.0, float(most.max(initial=0.0))
    if explained(low) >= wanted:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if explained(middle) >= wanted else (middle, high)
    return PATTERN * high
