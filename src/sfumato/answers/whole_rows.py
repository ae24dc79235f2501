"""The interval of a count that a model has a say in: it ends at whole rows, and is no bell where few rows are expected.

Rows that a model does not know of come in clusters. A count with mean m and variance m d, d being how many rows come
together, has a long tail to the right: the gamma law of that mean and variance. And a cell of which next to no rows are
expected, but which has some, has as many as a cluster has: Fisher's logarithmic law (1943), whatever m is. People ask
about cells that hold rows, so the high end leaves room for that.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import ceil, floor, inf, isfinite, isinf, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.answers.intervals.fieller import Interval

RULE_OF_THREE = 3  # none that were seen may be three (Hanley, Lippman-Hand 1983), which no variance tells
LARGEST_CLUSTER = 2**12  # rows that come together, beyond which a normal law says as much


def of_whole_rows(found: Interval, confidence: float) -> Interval:
    """The interval of a count, widened by what comes in clusters, and ending at wholes."""
    few, tail = 0.0, -inf
    if 0.0 < found.model < inf and isfinite(found.value):
        # A mean that is small beside its deviation is not known to be so small.
        together = found.model * (found.model / max(found.value, found.model / 2.0))
        few = max(RULE_OF_THREE, cluster(round(min(together, LARGEST_CLUSTER), 1), confidence))
        if found.value > 0.0:
            tail = long_tail(found.value, found.stderr * (found.stderr / found.value), confidence)
    low, high = min(found.low, found.value - RULE_OF_THREE * (few > 0)), max(found.high, found.value + few, tail)
    low, high = (low if isinf(low) else floor(low)), (high if isinf(high) else ceil(high))
    return replace(found, low=max(0, low), high=high)


def long_tail(mean: float, together: float, confidence: float) -> float:
    """The upper end of a gamma law with this mean and a variance of `together` times it (Wilson and Hilferty 1931)."""
    shape = mean / together if together > 0.0 else inf
    if shape == 0.0:  # so few rows, in clusters so large, that the law is all but a point at none
        return 0.0
    root = 1.0 - 1.0 / (9.0 * shape) + NormalDist().inv_cdf((1.0 + confidence) / 2.0) / (3.0 * sqrt(shape))
    return mean * max(root, 0.0) ** 3


@lru_cache(maxsize=1024)
def cluster(together: float, confidence: float) -> int:
    """How many rows a cluster has at most, so sure; `together`: the rows that come with a row, on average.

    >>> [cluster(each, 0.95) for each in (0.5, 1.0, 5.0, 20.0)]
    [2, 3, 9, 25]
    """
    share = together / (1.0 + together)
    rows = np.arange(1, ceil(20.0 * together) + 20)
    mass = share**rows / rows
    return int(np.searchsorted(np.cumsum(mass) / mass.sum(), confidence) + 1) if together > 0.0 else 1
