"""ISPE's estimation as printed: every cell's posterior mean from itself, its region and its neighbours.

Xiao, Xiong, Yuan, TR-2011-005, algorithms 3 and 4. A neighbour in the same region counts as an observation of the cell
itself, all observations count as independent, and ranges add up their cells. Laws of summed noise are exact here. What
this leaves out, how far apart neighbours really are and which noises are shared, is why the product does it otherwise.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.arrays import Floats, Whole

REACH = 15.0  # scales of the cells' noise on either side of a noisy cell within which its count is sought
FINENESS = 8  # steps of the grid in one scale


def neighbourhood_means(noisy: Floats, labels: Whole, totals: Floats, scales: tuple[float, float]) -> Floats:
    """The posterior mean of every cell of a grid.

    labels: the region of each cell. totals: the noisy counts of the regions. scales: of the noise of cells and regions.
    """
    step = max(1, round(scales[0] / FINENESS))
    around = step * np.arange(-int(REACH * scales[0] / step), int(REACH * scales[0] / step) + 1)
    log_mass = np.broadcast_to(-np.abs(around) / scales[0], (*noisy.shape, len(around))).copy()
    for axis in (0, 1):
        for turn in (1, -1):
            inside = np.ones_like(labels, dtype=bool)
            np.moveaxis(inside, axis, 0)[0 if turn == 1 else -1] = False  # no neighbour beyond the edge
            same = inside & (np.roll(labels, turn, axis) == labels)
            apart = np.roll(noisy, turn, axis) - noisy
            log_mass -= same[..., None] * np.abs(apart[..., None] - around) / scales[0]
    sizes = np.bincount(labels.ravel())
    missing = np.rint(totals - np.bincount(labels.ravel(), weights=noisy.ravel())).astype(np.int64)
    by_region = np.empty((len(sizes), len(around)))
    for region, (size, lacks) in enumerate(zip(sizes.tolist(), missing.tolist(), strict=True)):
        distribution = _log_law(size - 1, *scales)
        by_region[region] = distribution[np.minimum(np.abs(lacks - around), len(distribution) - 1)]
    log_mass += by_region[labels]
    mass = np.exp(log_mass - log_mass.max(axis=-1, keepdims=True))
    return np.asarray(noisy + (mass @ around) / mass.sum(axis=-1), dtype=np.float64)


@lru_cache(maxsize=4096)
def _log_law(siblings: int, cell_scale: float, region_scale: float) -> Floats:
    """The logarithm of the distribution of a region's noise less that of some of its cells, for 0, 1, 2 and so on.

    Characteristic functions multiply. Beyond what a Fourier transform can tell the distribution is taken as level.
    """
    deviation = (2 * siblings * cell_scale**2 + 2 * region_scale**2) ** 0.5
    length = 2 ** int(np.ceil(np.log2(2 * (10 * deviation + 30 * max(cell_scale, region_scale)))))
    turn = 2 * np.pi * np.arange(length // 2 + 1) / length
    phi = _characteristic(turn, cell_scale) ** siblings * _characteristic(turn, region_scale)
    return np.asarray(np.log(np.maximum(np.fft.irfft(phi, length)[: length // 2], 1e-15)), dtype=np.float64)


def _characteristic(turn: Floats, scale: float) -> Floats:
    ratio = np.exp(-1.0 / scale)
    return np.asarray((1 - ratio) ** 2 / (1 - 2 * ratio * np.cos(turn) + ratio**2), dtype=np.float64)
