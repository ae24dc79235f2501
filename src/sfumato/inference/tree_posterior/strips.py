"""In which proportion the regions of a strip divide, learned from all of them together.

The regions of a strip cover the same values of the attribute that is cut. Each says, noisily, which share of its rows
lies in its first half. A strip's share is the mean of what its regions say, each weighed by the inverse of two
variances together, that of its noise and that of how differently regions divide; it is then drawn towards the share of
the cells, the more the less strips differ from it at all. On tables whose attributes have nothing to do with each other
all regions of a strip do divide alike, and what no single region shows above its noise, all of them show together.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Floats

LEAST_UNEVEN = 1e-6  # the variance of a region's share: no two regions divide exactly alike
ANY_SHARE = 1 / 12  # the variance of a share that may be anything


def strip_shares(strips: Codes, even: Floats, mean: Floats, variance: Floats, count: int) -> tuple[Floats, Floats]:
    """For each of so many strips, by how much its share differs from that of the cells, and how unsure that is.

    For regions of which both halves were measured: their strips, the share of cells (even), and what is known of both
    halves' rows (mean, variance, (2, regions)).
    """
    both = mean.sum(axis=0)
    rows = np.maximum(both, np.sqrt(variance.sum(axis=0)))
    off = (mean[0] - even * both) / rows
    noise = ((1.0 - even) ** 2 * variance[0] + even**2 * variance[1]) / rows**2
    weight = 1.0 / (_unevenness(strips, off, noise, count) + noise)
    whole = np.bincount(strips, weights=weight, minlength=count)
    shift, unsure = np.zeros(count), np.zeros(count)
    there = whole > 0
    if not there.any():
        return shift, unsure
    precision = whole[there]
    middle = np.bincount(strips, weights=weight * off, minlength=count)[there] / precision
    differ = max(float(precision @ (middle**2 - 1.0 / precision) / precision.sum()), 0.0)
    shift[there] = middle * differ * precision / (differ * precision + 1.0)
    unsure[there] = np.sqrt(differ / (differ * precision + 1.0))
    return shift, unsure


def _unevenness(strips: Codes, off: Floats, noise: Floats, count: int) -> float:
    """The variance with which regions differ from their strip, beyond noise: by moments (DerSimonian, Laird 1986)."""
    weight = 1.0 / np.maximum(noise, LEAST_UNEVEN)
    whole, squares = (np.bincount(strips, weights=power, minlength=count) for power in (weight, weight**2))
    there = whole > 0
    middle = np.bincount(strips, weights=weight * off, minlength=count) / np.where(there, whole, 1.0)
    spare = len(strips) - int(there.sum())
    if spare == 0:
        return ANY_SHARE
    beyond = float(weight @ (off - middle[strips]) ** 2) - spare
    known = float((whole[there] - squares[there] / whole[there]).sum())
    return max(beyond / known, LEAST_UNEVEN) if known > 0.0 else ANY_SHARE
