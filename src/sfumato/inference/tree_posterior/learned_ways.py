"""How common each way is in which the rows of a region fall into its halves, learned from regions alike.

Regions of one level are alike if they hold about as many rows, to a factor of four. There may be few of them, so a
class starts from what all regions of its level do, and a level from all ways being as common.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.inference.tree_posterior.split_prior import FEW, FIRST_EMPTY, FIRST_FEW, SECOND_EMPTY, SECOND_FEW, WAYS

PRIOR_COUNT = 1.0  # regions' worth of belief in each way, on every level
LIKE_ALL = 4.0  # regions' worth of belief that regions with so many rows divide as all of the level do
PRIOR_FEW = 2.0  # halves' worth of belief that all sizes of few rows are as common
RAREST = 1e-4
CLASSES = 12  # of regions by their number of rows, a power of four each


def common_ways(learned: Floats, sizes: Floats) -> tuple[Floats, Floats]:
    """How common the ways are for regions of every class, and the sizes of few rows."""
    learned = learned.copy()
    for pair in ([FIRST_EMPTY, SECOND_EMPTY], [FIRST_FEW, SECOND_FEW]):
        learned[:, pair] = learned[:, pair].mean(axis=1, keepdims=True)
    everywhere = learned.sum(axis=0)
    common = (everywhere + PRIOR_COUNT) / (everywhere.sum() + WAYS * PRIOR_COUNT)
    near = learned.copy()  # classes are cut at round numbers, so that neighbours count half
    near[1:] += 0.5 * learned[:-1]
    near[:-1] += 0.5 * learned[1:]
    ways = (near + LIKE_ALL * common) / (near.sum(axis=1, keepdims=True) + LIKE_ALL)
    return np.maximum(ways, RAREST), (sizes + PRIOR_FEW / len(FEW)) / (sizes.sum() + PRIOR_FEW)


def row_class(rows: Floats) -> Codes:
    """The class of regions with so many rows: which power of four."""
    return np.clip(np.log2(np.maximum(rows, 1.0)) / 2, 0, CLASSES - 1).astype(np.int64)
