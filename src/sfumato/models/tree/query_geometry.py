"""How the queries of a workload lie in a binary tree over the cells: what they cut, and what they take whole.

Queries spread evenly over the blocks of the workload stand for all of them, so that a million cells take no longer to
look through than the noise takes to draw.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats, distinct
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.queries import Workload
from sfumato.queries.workload import places_among

SAMPLED = 64  # queries that are looked at, or fewer where there are very many cells
MOST_NUMBERS = 2**24  # cells of all queries together that are looked at
AT_ONCE = 2**20  # and of those that are held at once


@dataclass(frozen=True, eq=False)
class Geometry:
    """For each level of a tree, how many regions a query cuts on average, and the chance that it takes one whole."""

    cut: Floats
    whole: Floats


@lru_cache(maxsize=4)  # a choice and the release that follows it look at the same
def geometry_of(workload: Workload, tree: BinaryTree) -> Geometry:
    """Look at how queries lie in a tree.

    >>> from sfumato.queries import Prefix
    >>> geometry_of(Workload(("p",), (Prefix(4),)), BinaryTree.line(4)).cut.tolist()
    [0.75, 0.5, 0.0]
    """
    cut, whole, queries = np.zeros(tree.height + 1), np.zeros(tree.height + 1), 0.0
    for rows, each in _written_out(workload):
        running = np.zeros((len(rows), len(tree.order) + 1), dtype=np.int32)
        np.cumsum(rows[:, tree.order] != 0, axis=1, out=running[:, 1:])
        queries += each * len(rows)
        for level, begins in enumerate(tree.begins):
            sizes, inside = np.diff(begins), np.diff(running[:, begins], axis=1)
            cut[level] += each * np.count_nonzero((inside > 0) & (inside < sizes))
            whole[level] += each * np.count_nonzero(inside == sizes) / len(sizes)
    return Geometry(cut / queries, whole / queries)


def _written_out(workload: Workload) -> Iterator[tuple[NDArray[np.int64] | Floats, float]]:
    """Some queries of every block, or of some blocks where these are many, a few at a time; and how each matters."""
    most = max(1, min(SAMPLED, MOST_NUMBERS // workload.columns))
    blocks = [(workload.blocks[place], workload.weights[place]) for place in _spread(len(workload.blocks), most)]
    at_once, alike = max(1, AT_ONCE // workload.columns), len(set(workload.weights)) == 1
    for block, matters in blocks:
        chosen = _spread(block.rows, max(1, most // len(blocks)))
        for start in range(0, len(chosen), at_once):
            yield block[chosen[start : start + at_once]].dense(), 1.0 if alike else matters / len(chosen)


def _spread(rows: int, count: int) -> Codes:
    """Some rows that stand for all; all of them where they are few."""
    if rows <= count:
        return np.arange(rows)
    return distinct(places_among(rows, count))
