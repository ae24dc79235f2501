"""How uneven a region is that was taken as even: what its error bars need besides the noise.

Two sources. Where a share of the budget was spent on it, the sum over all halves of regions of |true - estimated| is
known, with noise (`half_error`). Where noisy cells were measured, they show how far cells of a region lie apart beyond
their noise, and how far its halves do (`from_cells`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import pi, sqrt

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes

Floats = NDArray[np.float64]

ALLOWED = 1.0  # scales of its own noise that are added to a measured misfit: errors stay large enough in most releases
POOLED = 16.0  # cells' worth of the common unevenness in the estimate for each region
UNSEEN = 0.25  # of the variance of the noise in a half, which may hide unevenness of about that size

WALSH = np.array([[True, True, False, False], [False, True, True, False], [True, False, True, False]])  # halves


def half_error(misfit: float, scale: float, deviations: Floats, most: Floats) -> Floats:
    """For each region the standard error of half of it, if the region is taken as even.

    misfit: the sum over both halves of all regions of |true - estimated|, with noise of this scale. deviations: of the
    noise in the regions' estimated totals. most: what no region's error can exceed.

    With d by which one half exceeds the other half's, and e the noise in the total, a region's two halves are off by
    |d - e / 2| + |d + e / 2| = 2 max(|d|, |e| / 2). For normal d and e of deviations D and s its mean is
    2 sqrt(2 / pi) sqrt(D^2 + s^2 / 4), exactly. D is the same for all regions but where `most` caps it: a partition that
    was chosen by its deviations evens them out, and of no other difference between regions is anything known.
    """
    wanted = (misfit + ALLOWED * scale) / (2.0 * sqrt(2.0 / pi))

    def explained(common: float) -> float:
        return float(np.sqrt(np.minimum(common, most) ** 2 + deviations**2 / 4.0).sum())

    low, high = 0.0, float(most.max(initial=0.0))
    if explained(low) >= wanted:
        return np.zeros(len(most))
    for _ in range(60):
        middle = (low + high) / 2.0
        low, high = (low, middle) if explained(middle) >= wanted else (middle, high)
    return np.minimum(high, most)


@dataclass(frozen=True, eq=False)
class Unevenness:
    """For each region: the variance between its cells beyond the noise, and the size of its unevenness as a whole."""

    between: Floats
    spread: Floats


def from_cells(noisy: Floats, places: Sequence[Codes], labels: Codes, variance: float) -> Unevenness:
    """The unevenness of regions, from noisy cells.

    places: for each ordered axis, where each cell lies on it. Cells of a region that differ without any pattern have a
    spread of sqrt(size) times their deviation; one that has a pattern along an axis, to one side or in the middle, shows
    it between halves made of quarters, and the largest counts.
    """
    sizes = np.bincount(labels).astype(np.float64)
    apart = noisy - (np.bincount(labels, weights=noisy) / sizes)[labels]
    squares = np.bincount(labels, weights=apart**2)
    beyond = squares - (sizes - 1.0) * variance
    freedom = sizes - 1.0
    common = max(0.0, float(beyond.sum()) / max(1.0, float(freedom.sum())))
    between = np.maximum(0.0, (beyond + POOLED * common) / (freedom + POOLED))
    between[sizes == 1.0] = common
    spread_squared = sizes * between
    for place in places:
        quarter = _quarters(place, labels, sizes)
        for signs in WALSH:
            upper = signs[quarter]
            half = np.bincount(labels[upper], minlength=len(sizes)).astype(np.float64)
            excess = np.bincount(labels[upper], weights=apart[upper], minlength=len(sizes))
            shared = half * (sizes - half) / sizes  # of variance v per cell, the variance of the excess is v times this
            noise = variance * shared
            leaning = np.maximum(excess**2 - noise, UNSEEN * noise)
            whole = np.divide(sizes * leaning, shared, out=np.zeros_like(sizes), where=shared > 0)
            spread_squared = np.maximum(spread_squared, whole)
    return Unevenness(between, np.sqrt(np.where(sizes > 1.0, spread_squared, 0.0)))


def _quarters(place: Codes, labels: Codes, sizes: Floats) -> Codes:
    """In which quarter of its region, along one axis, each cell lies."""
    low = np.full(len(sizes), np.iinfo(np.int64).max)
    high = np.zeros(len(sizes), dtype=np.int64)
    np.minimum.at(low, labels, place)
    np.maximum.at(high, labels, place)
    return np.asarray(((place - low[labels]) * 4) // (high - low + 1)[labels], dtype=np.int64)
