"""A binary tree over the cells of a domain: each level cuts every node in two, along one attribute.

Attributes without an order are cut first, so that nodes are soon told apart by value; then the ordered attribute with
the longest side left, so that nodes stay about as long as they are wide. A side of s values is cut where k s / 2^j
rounds down to, for j = 1, 2, ...: as even as can be; where its values are in groups it is cut between them first, at
the boundary nearest to the middle. Nodes of a level that cover the same values of the attribute which is cut there
form a *slice*: if attributes are independent, all nodes of a slice divide alike.

A tree is pruned where cells are known to be empty: nodes of such cells alone are left out, and a node whose other
half is left out is not cut there.

Blocks of neighbouring cells: products of runs along every axis.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from typing import Self

import numpy as np

from sfumato.arrays import Codes, Flags
from sfumato.domain import Domain
from sfumato.domain.grid import Partition
from sfumato.frozen import dataclass

Splits = tuple[tuple[int, ...], ...]  # of an axis: where its groups part, the coarsest first


@dataclass(frozen=True, eq=False)
class BinaryTree:
    """Binary tree over cells, level by level from the root; a node is a range of positions in `order`.

    order: the cell at each place. begins: for each level the place at which every node begins, and the number of
    places. halves: for each level but the last, the number of every node's first half on the next level, and the
    number of nodes there; a node that cannot be cut there has one "half", itself. slices: for each level but the
    last, the slice of every node; None where every node is a slice of its own.
    """

    order: Codes
    begins: tuple[Codes, ...]
    halves: tuple[Codes, ...]
    slices: tuple[Codes | None, ...]

    @classmethod
    def over(cls, domain: Domain) -> BinaryTree:
        """The tree over the cells of a domain.

        >>> from sfumato.domain import Axis
        >>> wide = Domain((Axis("x", "integer", np.arange(3.0)), Axis("y", "integer", np.arange(5.0))))
        >>> tree = BinaryTree.over(wide)
        >>> tree.order.tolist(), [len(begins) - 1 for begins in tree.begins]
        ([0, 1, 4, 5, 2, 3, 6, 7], [1, 2, 4, 8])
        """
        splits = tuple(axis.splits for axis in domain)
        return _over(tuple(axis.size for axis in domain), tuple(axis.ordered for axis in domain), splits)

    @classmethod
    def line(cls, leaves: int) -> BinaryTree:
        """Tree over `leaves` leaves in their order."""
        return _over((leaves,), (True,), ((),))

    @property
    def height(self) -> int:
        return len(self.halves)

    def nodes(self, level: int) -> int:
        """The number of nodes on a level."""
        return len(self.begins[level]) - 1

    def pair(self, level: int, some: Codes) -> Codes:
        """Both halves of some nodes, (2, nodes); -1 where a node has but one."""
        first, end = self.halves[level][some], self.halves[level][some + 1]
        return np.array([first, np.where(end - first == 2, first + 1, -1)])

    def parts(self, level: int, some: Codes, deeper: int) -> tuple[Codes, Codes]:
        """Descendants of nodes `deeper` levels below, node after node; and their number for each."""
        low, high = some, some + 1
        for at in range(level, level + deeper):
            low, high = self.halves[at][low], self.halves[at][high]
        counts = high - low
        skipped = np.repeat(low - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        return skipped + np.arange(int(counts.sum())), counts

    def above(self, level: int, some: Codes) -> Codes:
        """Parents of some nodes of a level."""
        return self._parents[level - 1][some]

    def pruned(self, possible: Flags) -> Pruned:
        """The tree without nodes that hold no possible cell. possible: (cells,).

        >>> tree = BinaryTree.line(4).pruned(np.array([True, False, False, True])).tree
        >>> tree.order.tolist(), [len(begins) - 1 for begins in tree.begins]
        ([0, 3], [1, 2, 2])
        """
        return _pruned(self, possible.tobytes())

    @cached_property
    def grids(self) -> tuple[Codes, ...]:
        """Node numbers of each level but the last, a row for each slice; -1 where a node was pruned."""
        return tuple(map(self._grid, range(self.height)))

    def _grid(self, level: int) -> Codes:
        slices = self.slices[level]
        if slices is None:
            return np.arange(self.nodes(level))[:, None]
        rows = np.count_nonzero(np.bincount(slices))
        return np.argsort(slices, kind="stable").reshape(rows, -1)

    @cached_property
    def _parents(self) -> tuple[Codes, ...]:
        return tuple(np.repeat(np.arange(len(halves) - 1), np.diff(halves)) for halves in self.halves)


@dataclass(frozen=True, eq=False)
class Pruned:
    """A pruned tree. nodes: their numbers in the whole tree, by level.

    before: number of possible cells before each place of the whole tree, and in all, (cells + 1,).
    """

    tree: BinaryTree
    nodes: tuple[Codes, ...]
    before: Codes


@lru_cache(maxsize=4)
def _pruned(whole: BinaryTree, possible: bytes) -> Pruned:
    inside = np.frombuffer(possible, dtype=np.bool_)[whole.order]
    before = np.concatenate([[0], np.cumsum(inside)])
    kept = [np.flatnonzero(np.diff(before[begins])) for begins in whole.begins]
    begins = [np.append(before[level[nodes]], before[-1]) for level, nodes in zip(whole.begins, kept, strict=True)]
    halves, slices, grids = list[Codes](), list[Codes | None](), list[Codes]()
    for level, (nodes, below) in enumerate(pairwise(kept)):
        numbers = np.full(whole.nodes(level), -1)
        numbers[nodes] = np.arange(len(nodes))
        halves.append(np.searchsorted(below, np.append(whole.halves[level][nodes], whole.nodes(level + 1))))
        of_nodes = whole.slices[level]
        slices.append(None if of_nodes is None else of_nodes[nodes])
        grids.append(numbers[whole.grids[level]])
    tree = BinaryTree(whole.order[inside], tuple(begins), tuple(halves), tuple(slices))
    vars(tree)["grids"] = tuple(grids)
    return Pruned(tree, tuple(kept), before)


@lru_cache(maxsize=4)  # a million cells take some 50 MB
def _over(sides: tuple[int, ...], ordered: tuple[bool, ...], splits: tuple[Splits, ...]) -> BinaryTree:
    heights, ends = map(list, zip(*map(_ends, sides, splits), strict=True))
    cuts = _cuts(sides, heights, ordered)
    cells = int(np.prod(sides))
    code, done = np.zeros(cells, dtype=np.int64), [0] * len(sides)
    every = np.arange(cells)
    for axis in cuts:
        done[axis] += 1
        code *= 2
        code += (ends[axis][_along(sides, axis, every)] >> (heights[axis] - done[axis])) & 1
    del every
    order = np.argsort(code, kind="stable")
    code = code[order]
    begins, halves, slices = [np.array([0, cells])], list[Codes](), list[Codes | None]()
    done = [0] * len(sides)
    for level, axis in enumerate(cuts):
        here = code >> (len(cuts) - level - 1)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(here)) + 1, [cells]])
        halves.append(np.searchsorted(starts, begins[-1]))
        value = _along(sides, axis, order[begins[-1][:-1]])
        slices.append(ends[axis][value] >> (heights[axis] - done[axis]) if len(sides) > 1 else None)
        done[axis] += 1
        begins.append(starts)
    return BinaryTree(order, tuple(begins), tuple(halves), tuple(slices))


def _along(sides: tuple[int, ...], axis: int, cells: Codes) -> Codes:
    """Codes of cells along one attribute, without the arrays of all other attributes."""
    return np.asarray(cells // prod(sides[axis + 1 :]) % sides[axis])


def nodes_over(domain: Domain) -> int:
    """The number of nodes of the tree over a domain, on all levels, without building it.

    >>> from sfumato.domain import Axis
    >>> domain = Domain((Axis("x", "integer", np.arange(6.0)), Axis("y", "integer", np.arange(4.0))))
    >>> tree = BinaryTree.over(domain)
    >>> nodes_over(domain) == sum(tree.nodes(level) for level in range(tree.height + 1))
    True
    """
    sides, ordered = [axis.size for axis in domain], [axis.ordered for axis in domain]
    widths = [_widths(axis.size, axis.splits) for axis in domain]
    done = [0] * len(sides)
    found = 1
    for axis in _cuts(sides, [len(each) - 1 for each in widths], ordered):
        done[axis] += 1
        found += prod(each[level] for each, level in zip(widths, done, strict=True))
    return found


def _widths(side: int, splits: Splits) -> list[int]:
    """The number of nodes on each level of one attribute's tree."""
    if not splits:
        return [min(2**level, side) for level in range((side - 1).bit_length() + 1)]
    height, ends = _ends(side, splits)
    return [len(np.unique(ends >> (height - level))) for level in range(height + 1)]


def _ends(side: int, splits: Splits) -> tuple[int, Codes]:
    """The height of one attribute's tree, and for each value the leaf, of 2^height, that holds it."""
    if splits:
        return _ends_of_groups(side, splits)
    height = (side - 1).bit_length()
    edges = np.arange(2**height + 1, dtype=np.int64) * side // 2**height
    return height, np.flatnonzero(np.diff(edges))


def _ends_of_groups(side: int, splits: Splits) -> tuple[int, Codes]:
    """`_ends` for values in groups, which are separated before they are cut themselves."""
    way, depth = np.zeros(side, dtype=np.int64), np.zeros(side, dtype=np.int64)
    left = [(0, side)]
    while left:
        first, end = left.pop()
        if end - first < 2:
            continue
        inside = next((some for cuts in splits if (some := [cut for cut in cuts if first < cut < end])), None)
        middle = (first + end) // 2
        cut = min(inside, key=lambda place: abs(place - middle)) if inside else middle
        way[first:end] *= 2
        way[cut:end] += 1
        depth[first:end] += 1
        left += [(first, cut), (cut, end)]
    height = int(depth.max())
    return height, way << (height - depth)


def _cuts(sides: Sequence[int], heights: Sequence[int], ordered: Sequence[bool]) -> list[int]:
    """Index of the attribute that each level cuts."""
    done = [0] * len(sides)
    cuts = []
    for _ in range(sum(heights)):
        left = [axis for axis in range(len(sides)) if done[axis] < heights[axis]]
        axis = max(left, key=lambda axis: (not ordered[axis], sides[axis] / 2.0 ** done[axis]))
        done[axis] += 1
        cuts.append(axis)
    return cuts


# -- blocks

GOLDEN = 0.6180339887498949  # steps of this size fall evenly into every interval


@dataclass(frozen=True)
class Blocks:
    """Products of runs of cells along every axis. starts: the first cells of the runs, axis by axis."""

    domain: Domain
    starts: tuple[tuple[int, ...], ...]

    @classmethod
    def at_most(cls, domain: Domain, number: int, whole: str | None = None) -> Self:
        """At most `number` blocks of runs of equal length; the longest axis is coarsened first.

        whole: an axis that stays as it is, so that there may be more blocks than wanted where it is long.
        """
        runs = list(domain.shape)
        kept = None if whole is None else domain.place(whole)
        while prod(runs) > number and any(run > 1 for place, run in enumerate(runs) if place != kept):
            longest = max((place for place in range(len(runs)) if place != kept), key=lambda place: runs[place])
            runs[longest] = (runs[longest] + 1) // 2
        sizes = zip(runs, domain.shape, strict=True)
        return cls(domain, tuple(tuple(k * size // run for k in range(run)) for run, size in sizes))

    def uneven(self, number: int) -> Self:
        """At most `number` other blocks, of uneven length, with limits off the even grid by golden-ratio steps."""
        coarse = self.at_most(self.domain, number)
        starts = []
        for theirs, size in zip(coarse.starts, self.domain.shape, strict=True):
            runs = len(theirs)
            if runs == size:
                starts.append(theirs)
                continue
            moved = (int((k + k * GOLDEN % 1.0 - 0.5) * size / runs) for k in range(1, runs))
            starts.append(tuple(sorted({0, *(min(max(start, 1), size - 1) for start in moved)})))
        return type(self)(self.domain, tuple(starts))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(len(each) for each in self.starts)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @cached_property
    def partition(self) -> Partition:
        """The block of every cell."""
        label = np.zeros(self.domain.shape, dtype=np.int64)
        for place, (starts, size) in enumerate(zip(self.starts, self.domain.shape, strict=True)):
            along = np.searchsorted(starts, np.arange(size), side="right") - 1
            label = label * len(starts) + along.reshape([-1 if p == place else 1 for p in range(len(self.starts))])
        return Partition(self.domain, label.reshape(-1))
