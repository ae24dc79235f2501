"""Choose training queries by coverage and independence, before any data is read.

A candidate is a set of blocks; candidates come in layers, from everything to single blocks. Queries are taken one by
one: *independence* first, so that no block is asked about more often than need be, then *coverage* of blocks that were
asked about least. The largest number of queries that cover one block is the sensitivity of the set.

Features of a query in terms of blocks of neighbouring cells.

A query becomes a row of numbers: the share of every block that it covers, its first and last place along every axis,
and the share of all cells that it covers. These are functions of the query and of the public domain alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import combinations
from math import ceil, prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.domain import binary_tree as plain
from sfumato.domain.binary_tree import GOLDEN
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
    """Cover of each axis's cells by a box, of the kind `part` (`Cover`). fixed: attributes restricted to one cell."""
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


# -- training queries

BRANCHING = 4  # parts that a set of a layer falls into in the next
FURTHER_LAYERS = 8  # turns of candidates, the first one included, where a number of queries is stated


def training_sets(blocks: Blocks, kind: str, number: int) -> Floats:
    """Chosen training queries, (queries, blocks); number: how many, or 0 for as many as cover every block by itself.

    They depend on how many blocks there are along every axis, not on where these lie.
    """
    return _sets(blocks.shape, kind, number)


@lru_cache(maxsize=32)
def _sets(shape: tuple[int, ...], kind: str, number: int) -> Floats:
    first = candidates(shape, kind)
    chosen = choose(first, number or len(first))
    if number > len(first):
        more = candidates(shape, kind, further=True)[len(first) :]
        chosen = np.concatenate([chosen, choose(more, number - len(first))]) if len(more) else chosen
    chosen.setflags(write=False)
    return chosen


def candidates(shape: tuple[int, ...], kind: str, *, further: bool = False) -> Floats:
    """Candidate queries, (queries, blocks), widest layers first; each layer partitions the blocks."""
    layers = {"ranges": _ranges, "predicates": _predicates, "subsets": _subsets}[kind](shape, further)
    rows = np.concatenate([layer[None, :] == np.arange(layer.max() + 1)[:, None] for layer in layers])
    _, first = np.unique(rows, axis=0, return_index=True)
    return rows[np.sort(first)].astype(np.float64)


def choose(pool: Floats, number: int) -> Floats:
    """Choose queries greedily: first those that avoid the most-covered blocks, then those with most new blocks.

    >>> pool = np.array([[1, 1, 1, 1], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]])
    >>> choose(pool, 3).tolist()
    [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 1.0]]
    """
    pool = np.asarray(pool, dtype=np.float64)
    load, left = np.zeros(pool.shape[1]), np.ones(len(pool), dtype=bool)
    taken: list[int] = []
    while len(taken) < min(number, len(pool)):
        fullest = load == load.max()
        crowded = pool @ fullest if not fullest.all() else np.zeros(len(pool))
        gain = pool @ (load == load.min())
        score = np.where(left, gain - pool.shape[1] * (crowded > 0), -np.inf)
        best = int(score.argmax())
        taken.append(best)
        left[best] = False
        load += pool[best]
    return pool[taken]


def fullest(sets: Floats) -> int:
    """Sensitivity of the queries: the largest number that cover one block."""
    return int(np.asarray(sets).sum(axis=0).max())


def _ranges(shape: tuple[int, ...], further: bool) -> Iterator[Codes]:
    """Layers of boxes of neighbouring blocks, ever shorter; further: shifted copies of these layers."""
    for turn in range(FURTHER_LAYERS if further else 1):
        for runs in _ever_shorter(shape):
            label, axes = np.zeros(shape, dtype=np.int64), len(runs)
            for place, (run, size) in enumerate(zip(runs, shape, strict=True)):
                length = ceil(size / run)
                offset = int(length * ((turn * GOLDEN + place * GOLDEN**2) % 1.0)) if turn else 0
                along = (np.arange(size) + offset) // length
                label = label * (int(along.max()) + 1) + along.reshape([-1 if p == place else 1 for p in range(axes)])
            yield np.unique(label.reshape(-1), return_inverse=True)[1].reshape(-1)


def _ever_shorter(shape: tuple[int, ...]) -> Iterator[list[int]]:
    """Number of runs on each axis, by layer: about `BRANCHING` times as many boxes from layer to layer."""
    runs = [1] * len(shape)
    while True:
        yield list(runs)
        if runs == list(shape):
            return
        wanted = BRANCHING * prod(runs)
        while prod(runs) < wanted and runs != list(shape):
            longest = max(range(len(shape)), key=lambda place: shape[place] / runs[place])
            runs[longest] = min(2 * runs[longest], shape[longest])


def _predicates(shape: tuple[int, ...], further: bool) -> Iterator[Codes]:
    """Layers by values of attributes: of none, of one, of two, and of all."""
    axes = range(len(shape))
    for order in range(len(shape) + 1):
        for chosen in combinations(axes, order):
            if 2 < order < len(shape):
                continue
            label = np.zeros(shape, dtype=np.int64)
            for place in chosen:
                along = np.arange(shape[place]).reshape([-1 if p == place else 1 for p in axes])
                label = label * shape[place] + along
            yield label.reshape(-1)


def _subsets(shape: tuple[int, ...], further: bool) -> Iterator[Codes]:
    """Layers that partition the blocks into ever more scattered sets, by a golden-section sequence."""
    size, parts, layer = prod(shape), 1, 0
    while True:
        order = np.argsort((np.arange(1, size + 1) * GOLDEN + layer * GOLDEN**2) * (1 + layer) % 1.0, kind="stable")
        label = np.empty(size, dtype=np.int64)
        label[order] = np.arange(size) * min(parts, size) // size
        yield label
        if parts >= size and (not further or layer > FURTHER_LAYERS):
            return
        layer, parts = layer + 1, parts * BRANCHING if parts < size else max(2, size // 2)
