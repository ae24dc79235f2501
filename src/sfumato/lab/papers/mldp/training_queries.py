"""Choose training queries by coverage and independence, before any data is read.

A candidate is a set of blocks; candidates come in layers, from everything to single blocks. Queries are taken one by
one: *independence* first, so that no block is asked about more often than need be, then *coverage* of blocks that were
asked about least. The largest number of queries that cover one block is the sensitivity of the set.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import combinations
from math import ceil, prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.blocks import GOLDEN
from sfumato.lab.papers.mldp.blocks import Blocks

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
    """Layers of ever more sets of scattered blocks, dealt by a golden-section sequence."""
    size, parts, layer = prod(shape), 1, 0
    while True:
        order = np.argsort((np.arange(1, size + 1) * GOLDEN + layer * GOLDEN**2) * (1 + layer) % 1.0, kind="stable")
        label = np.empty(size, dtype=np.int64)
        label[order] = np.arange(size) * min(parts, size) // size
        yield label
        if parts >= size and (not further or layer > FURTHER_LAYERS):
            return
        layer, parts = layer + 1, parts * BRANCHING if parts < size else max(2, size // 2)
