"""How uneven a region is that was taken as even: what its error bars need besides the noise.

Two sources. Where a share of the budget was spent on it, the sum over parts of regions of |true - estimated| is
known, with noise (`from_misfit`). Where noisy cells were measured, they show how far cells of a region lie apart beyond
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
PATTERN = (
    1.38  # for a slope: its quarters are off by 1/4 of the spread on average, where normal ones are by 0.345 of it
)
POOLED = 16.0  # cells' worth of the common unevenness in the estimate for each region
UNSEEN = 0.25  # of the variance of the noise in a half, which may hide unevenness of about that size

WALSH = np.array([[True, True, False, False], [False, True, True, False], [True, False, True, False]])  # halves


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


@dataclass(frozen=True, eq=False)
class Unevenness:
    """For each region: the variance between its cells beyond the noise, and the size of its unevenness as a whole."""

    between: Floats
    spread: Floats


def from_cells(noisy: Floats, places: Sequence[Codes], labels: Codes, variance: float) -> Unevenness:
    """The unevenness of regions, from noisy cells.

    places: for each ordered axis, where each cell lies on it. Cells of a region that differ without any pattern have a
    spread of sqrt(size) times their deviation; one that has a pattern along an axis, to one side or in the middle,
    shows it between halves made of quarters, and the largest counts.
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
