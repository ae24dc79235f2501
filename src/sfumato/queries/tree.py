"""Hierarchical queries: counts of all nodes of a tree of ranges over ordered cells, root to cells.

Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through consistency", VLDB
2010. There the number of cells is a power of the branching; here it is any, and each level has its own branching.

Every level divides the axis into ranges nested in those of the level above. A node that is not divided further, because
it is a single cell, is asked once: with the cells, which are the last level and always complete.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, codes, frozen, listable, size
from sfumato.queries.base import Form, Indicators, Queries
from sfumato.queries.ranges import Ranges


def _levels(columns: int, children: Sequence[Codes]) -> list[Codes]:
    """Boundaries of each level, from the numbers of the first children."""
    cuts = [np.arange(columns + 1, dtype=np.int64)]
    for first in reversed(children):
        cuts.append(cuts[-1][first])
    return cuts[::-1]


def _again(columns: int, children: list[Codes]) -> Tree:
    """Rebuild a Tree from a file's arrays, checked."""
    if any(first.size < 2 or first.min() < 0 for first in children):  # a negative place would count from the end
        raise QueryError("every level of a tree has two ends, and no node's first child has a negative number")
    return Tree.of_levels(_levels(columns, children))


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tree(Indicators):
    """All nodes of a tree over n ordered cells, level by level from the root, each level from left to right.

    branching: number of children of a node of each level, the root's first; one number stands for all levels. Where the
    cells do not divide evenly, the nodes of one level differ by at most one cell.

    >>> (Tree(4, 2) @ [1, 2, 3, 4]).tolist(), Tree(4, 2).row_level.tolist()
    ([10, 3, 7, 1, 2, 3, 4], [0, 1, 1, 2, 2, 2, 2])
    >>> (Tree(3, 2) @ [1, 2, 3]).tolist(), [level.tolist() for level in Tree(3, 2).levels]
    ([6, 5, 1, 2, 3], [[0, 3], [0, 1, 3], [0, 1, 2, 3]])
    """

    children: tuple[Codes, ...]  # per level but the last: the number, on the next level, of each node's first child

    form = Form("tree", arrays=("children",), make=_again)

    def __init__(self, n: int, branching: int | Sequence[int]) -> None:
        columns = size(n, "Tree")
        listable(columns, "a tree's cells", "use fewer cells, or coarser ones")
        widths = np.cumprod([1, *_branching(branching, columns)], dtype=np.int64)
        self._grow([_even(columns, int(width)) for width in widths])

    @classmethod
    def of_levels(cls, levels: Iterable[object]) -> Tree:
        """Tree from the boundaries of each level: increasing numbers from 0 to n, the last level every one of them.

        The first level may have several nodes: then there is no root.

        >>> Tree.of_levels([[0, 1, 4], [0, 1, 2, 3, 4]]).dense().tolist()[0]
        [0, 1, 1, 1]
        """
        tree = cls.__new__(cls)
        listed = [codes(level, 2**62, "Tree") for level in levels]
        if not listed or any(len(cuts) < 2 for cuts in listed):
            raise QueryError("a tree needs at least one level, and every level at least its two ends")
        tree._grow(listed)
        return tree

    def _grow(self, levels: list[Codes]) -> None:
        """Set the children of each node from the boundaries of the levels, checked."""
        columns = len(levels[-1]) - 1
        listable(columns, "a tree's cells", "use fewer cells, or coarser ones")
        if not np.array_equal(levels[-1], np.arange(columns + 1)):
            raise QueryError("the last level of a tree is the single cells: 0, 1, 2 and so on to their number")
        children: list[Codes] = []
        for upper, lower in reversed(list(pairwise(levels))):  # from below, so that `lower` has been checked
            first = np.searchsorted(lower, upper)
            ends = upper[0] == 0 and upper[-1] == columns and (np.diff(upper) > 0).all()
            if not ends or not np.array_equal(lower[first], upper) or len(lower) == len(upper):
                raise QueryError(
                    "every level of a tree increases from 0 to the number of cells, and the next has its cuts and more"
                )
            children.insert(0, frozen(first))
        cut = sum((int((np.diff(first) > 1).sum()) for first in children), start=0)
        self._store(rows=cut + columns, columns=columns, children=tuple(children))

    def __repr__(self) -> str:
        widths = [len(first) - 1 for first in self.children] + [self.columns]
        return f"Tree({self.columns}, levels of {', '.join(map(str, widths))})"

    @property
    def levels(self) -> list[Codes]:
        """Boundaries of each level, from the root to the cells; nodes that are not asked included."""
        return _levels(self.columns, self.children)

    @property
    def asked(self) -> list[Array]:
        """Mask of the nodes of each level that are rows: those that are divided further, and all of the last level."""
        return [np.diff(first) > 1 for first in self.children] + [np.ones(self.columns, dtype=bool)]

    @property
    def row_level(self) -> Codes:
        """Level of every row, 0 for the first, (rows,)."""
        return np.repeat(np.arange(len(self.children) + 1), [int(nodes.sum()) for nodes in self.asked])

    def _ends(self) -> tuple[Codes, Codes]:
        """First and last cell of every row, (rows,) each."""
        pairs = list(zip(self.levels, self.asked, strict=True))
        lows = np.concatenate([cuts[:-1][nodes] for cuts, nodes in pairs])
        return lows, np.concatenate([cuts[1:][nodes] - 1 for cuts, nodes in pairs])

    def _times(self, x: Array) -> Array:
        answers = np.empty((self.rows, x.shape[1]), dtype=x.dtype)
        end = self.rows - self.columns
        answers[end:], sums = x, x
        for first in reversed(self.children):
            sums = np.add.reduceat(sums, first[:-1], axis=0)
            nodes = sums[np.diff(first) > 1]
            answers[end - len(nodes) : end] = nodes
            end -= len(nodes)
        return answers

    def _back(self, y: Array) -> Array:
        above, start = None, 0
        for first in self.children:
            parts = np.diff(first)
            here, cut = np.zeros((len(parts), y.shape[1]), dtype=y.dtype), parts > 1
            end = start + int(cut.sum())
            here[cut] = y[start:end]
            above, start = np.repeat(here if above is None else here + above, parts, axis=0), end
        return y.copy() if above is None else above + y[start:]

    def _gram(self, weights: Array | None) -> Array:
        return Ranges(self.columns, *self._ends())._gram(weights)

    def _select(self, index: Array) -> Queries:
        return Ranges(self.columns, *(ends[index] for ends in self._ends()))

    def _dense(self) -> Array:
        return Ranges(self.columns, *self._ends())._dense()


def _even(columns: int, width: int) -> Codes:
    """Boundaries of `width` nearly equal ranges; they nest, because the next width is a multiple of this one."""
    parts = min(width, columns)
    return np.arange(parts + 1, dtype=np.int64) * columns // parts


def _branching(branching: int | Sequence[int], columns: int) -> tuple[int, ...]:
    """Branching of every level, checked: it must reach the cells on the last level, and not before."""
    try:
        single = not isinstance(branching, Iterable)
        parts = tuple(map(operator.index, [branching] if single else branching))  # type: ignore[arg-type]
    except TypeError:
        parts = (0,)
    if any(part < 2 or part > 2**28 for part in parts):
        raise QueryError("the branching of a Tree is a whole number from 2 to 2^28, or one for each level")
    if single:
        levels = next(power for power in range(63) if parts[0] ** power >= columns)
        return parts * levels
    if prod(parts) < columns or (parts and prod(parts[:-1]) >= columns):
        raise QueryError(
            f"the branching {'x'.join(map(str, parts[:9]))} of a Tree must reach its {columns} cells on the last level "
            "and not before: give each level its own, or one number for all"
        )
    return parts
