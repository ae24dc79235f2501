"""Blocks that are cut where rows are, by noisy counts of the blocks that there were.

A question that cuts through a block is answered by a share of it, and may be off by as many rows as the block holds. So
blocks should hold about equally many: where few cells hold most rows, single ones get blocks of their own.
"""

from __future__ import annotations

from math import prod

import numpy as np

from sfumato.arrays import Whole
from sfumato.domain.blocks import Blocks


def finer(blocks: Blocks, noisy: Whole, number: int) -> Blocks:
    """The blocks with the fullest run halved again and again, along whichever axis, up to so many blocks.

    noisy: counts of the blocks. Of halves that nobody has looked at each has half of the rows, by length.

    >>> from sfumato.domain import Axis, Domain
    >>> eight = Domain((Axis("x", "integer", np.arange(9.0)),))
    >>> finer(Blocks(eight, ((0, 4),)), np.array([5, 90]), 4).starts
    ((0, 4, 5, 6),)
    """
    counts = np.maximum(noisy, 0).reshape(blocks.shape)
    axes = range(counts.ndim)
    ends = [[*starts, size] for starts, size in zip(blocks.starts, blocks.domain.shape, strict=True)]
    rows = [counts.sum(axis=tuple(p for p in axes if p != place)).astype(float).tolist() for place in axes]
    while True:
        shape = [len(each) - 1 for each in ends]
        room = [place for place in axes if prod(shape) // shape[place] * (shape[place] + 1) <= number]
        halves = [
            (rows[place][run], ends[place][run + 1] - ends[place][run], -place, -run)
            for place in room
            for run in range(shape[place])
            if ends[place][run + 1] - ends[place][run] > 1
        ]
        if not halves:
            return Blocks(blocks.domain, tuple(tuple(each[:-1]) for each in ends))
        held, length, place, run = max(halves)  # of empty ones the longest
        place, run = -place, -run
        first = ends[place][run]
        ends[place].insert(run + 1, first + length // 2)
        rows[place][run : run + 1] = [held * (length // 2) / length, held * (length - length // 2) / length]
