"""Features of a query in terms of blocks of neighbouring cells.

A query becomes a row of numbers: the share of every block that it covers, its first and last place along every axis,
and the share of all cells that it covers. These are functions of the query and of the public domain alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.domain import blocks as plain
from sfumato.domain.predicates import Box, Part, cover

Along = Sequence[Floats]  # for each axis, the share of every cell of it that a box covers


class Blocks(plain.Blocks):
    """Blocks of cells, with the feature vector of a query."""

    @property
    def features(self) -> int:
        """The number of features of a query."""
        return self.size + 2 * len(self.starts) + 1

    @cached_property
    def lengths(self) -> list[Floats]:
        """Cells in every run, axis by axis."""
        sizes = zip(self.starts, self.domain.shape, strict=True)
        return [np.diff([*starts, size]).astype(np.float64) for starts, size in sizes]

    def of_boxes(self, boxes: Sequence[Along]) -> Floats:
        """Feature vector of a query that is a union of disjoint boxes, (features,)."""
        shares, ends, covered = np.zeros(self.shape), self._nowhere(), 0.0
        for along in boxes:
            share = np.ones(())
            for each, starts, length in zip(along, self.starts, self.lengths, strict=True):
                share = np.multiply.outer(share, np.add.reduceat(each, starts) / length)
            shares += share
            covered += prod(float(each.mean()) for each in along)
            ends = _wider(ends, [_ends(each) for each in along])
        return np.array([*shares.reshape(-1), *ends.reshape(-1), covered])

    def of_sets(self, masks: Floats) -> Floats:
        """Feature vectors of queries that are unions of blocks, (queries, features). masks: (queries, blocks)."""
        volume = np.ones(())
        for length in self.lengths:
            volume = np.multiply.outer(volume, length)
        found = []
        for mask in masks.reshape(-1, *self.shape):
            ends = []
            for place, (starts, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
                others = tuple(p for p in range(len(self.starts)) if p != place)
                along = np.repeat(mask.max(axis=others, initial=0.0), length.astype(np.int64))
                ends.append(_ends(along) if starts else (0.0, 0.0))
            covered = float((mask * volume).sum() / volume.sum())
            found.append(np.array([*mask.reshape(-1), *np.array(ends).reshape(-1), covered]))
        return np.array(found).reshape(-1, self.features)

    def _nowhere(self) -> Floats:
        return np.array([[1.0, 0.0]] * len(self.starts))


def along_axes(domain: Domain, box: Box, fixed: Mapping[str, int] | None = None, part: Part = "share") -> list[Floats]:
    """Cover of each axis's cells by a box; fixed: attributes restricted to one cell."""
    found = []
    for axis in domain:
        share = np.asarray(getattr(cover(axis, box[axis.name]), part), dtype=np.float64)
        if fixed and axis.name in fixed:
            share = share * (np.arange(axis.size) == fixed[axis.name])
        found.append(share)
    return found


def along_runs(blocks: plain.Blocks, first: Sequence[int], last: Sequence[int]) -> list[Floats]:
    """Indicator of each axis's cells in the box from run `first` to run `last`."""
    found = []
    for starts, low, high, size in zip(blocks.starts, first, last, blocks.domain.shape, strict=True):
        ends = [*starts, size]
        cells = np.arange(size)
        found.append(((cells >= ends[low]) & (cells < ends[high + 1])).astype(np.float64))
    return found


def _ends(share: Floats) -> tuple[float, float]:
    """Start and end of the covered part of an axis, as fractions of its length; 1 and 0 if nothing is covered."""
    covered = np.flatnonzero(share > 0.0)
    return (float(covered[0]) / len(share), float(covered[-1] + 1) / len(share)) if len(covered) else (1.0, 0.0)


def _wider(ends: Floats, others: Sequence[tuple[float, float]]) -> Floats:
    more = np.array(others)
    return np.stack([np.minimum(ends[:, 0], more[:, 0]), np.maximum(ends[:, 1], more[:, 1])], axis=1)
