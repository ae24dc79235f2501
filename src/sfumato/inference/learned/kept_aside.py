"""Questions made of answers that were kept aside: every box of neighbouring tiles."""

from __future__ import annotations

from functools import lru_cache
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.blocks import Blocks, along_runs

MOST_BOXES = 600  # evenly from all of them
MOST_TILES = (32, 64)  # along one attribute, and along several


@lru_cache(maxsize=16)
def boxes_of_tiles(blocks: Blocks, tiles: Blocks) -> tuple[Floats, Floats]:
    """Features of the boxes, and which tiles each is the sum of."""
    runs = [[(first, last) for first in range(size) for last in range(first, size)] for size in tiles.shape]
    number = prod(len(each) for each in runs)
    kept = np.unique(np.linspace(0, number - 1, min(number, MOST_BOXES)).astype(np.int64))
    shape = [len(each) for each in runs]
    rows, sums = [], []
    for places in zip(*np.unravel_index(kept, shape), strict=True):
        box = [each[place] for each, place in zip(runs, places, strict=True)]
        rows.append(blocks.of_boxes([along_runs(tiles, [a for a, _ in box], [b for _, b in box])]))
        inside = np.zeros(tiles.shape)
        inside[tuple(slice(a, b + 1) for a, b in box)] = 1.0
        sums.append(inside.reshape(-1))
    return np.array(rows), np.array(sums)


def tiles_beside(blocks: Blocks) -> Blocks:
    """The tiles whose counts are kept aside for a model of these blocks."""
    return blocks.uneven(MOST_TILES[len(blocks.shape) > 1])
