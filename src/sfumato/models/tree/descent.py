"""Plan adaptive measurements below the nodes of a binary tree: next level to count, and share of the budget.

The rule. Below a node with few rows one more count with all of the budget left is best: of the node itself, of a few
descendants, or of several such nodes joined. Below a node with many rows it pays to count on several levels with equal
shares. Candidate plans (jump of j levels, t measurements) are priced by the mean squared error that they leave in the
workload's queries:

    noise in queries that contain the node or cut it  +  UNEVEN E[X^2] in queries that cut the last nodes counted,

X the rows of such a node. Only the first measurement of the cheapest plan is made; the noisy counts found there are
planned for anew. `Geometry` has the two frequencies that the price needs: by level, the nodes that a query cuts and the
probability that it contains a node. They are estimated from queries spread evenly over the blocks of the workload, so
that a million cells take no longer than drawing their noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.queries import Ranges, Workload
from sfumato.queries.workload import places_among

SAMPLED = 64  # queries that are looked at, or fewer where there are very many cells
MOST_NUMBERS = 2**24  # cells of all queries together that are looked at
AT_ONCE = 2**20  # and of those that are held at once


@dataclass(frozen=True, eq=False)
class Geometry:
    """Frequencies by level of a tree: mean number of nodes that a query cuts, probability that it contains a node."""

    cut: Floats  # (levels,)
    whole: Floats  # (levels,)


@lru_cache(maxsize=4)  # a choice and the release that follows it look at the same
def geometry_of(workload: Workload, tree: BinaryTree) -> Geometry:
    """Estimate from a sample of the workload's queries how often they cut and contain the nodes of each level.

    >>> from sfumato.queries import Prefix
    >>> geometry_of(Workload(("p",), (Prefix(4),)), BinaryTree.line(4)).cut.tolist()
    [0.75, 0.5, 0.0]
    """
    cut, whole, queries = np.zeros(tree.height + 1), np.zeros(tree.height + 1), 0.0
    for rows, weight in _written_out(workload):
        running = np.zeros((len(rows), len(tree.order) + 1), dtype=np.int32)
        np.cumsum(rows[:, tree.order] != 0, axis=1, out=running[:, 1:])
        queries += weight * len(rows)
        for level, begins in enumerate(tree.begins):
            sizes, inside = np.diff(begins), np.diff(running[:, begins], axis=1)
            cut[level] += weight * np.count_nonzero((inside > 0) & (inside < sizes))
            whole[level] += weight * np.count_nonzero(inside == sizes) / len(sizes)
    return Geometry(cut / queries, whole / queries)


def _written_out(workload: Workload) -> Iterator[tuple[NDArray[np.int64] | Floats, float]]:
    """Dense rows of a sample of the workload's queries, in chunks, with the weight of each query."""
    most = max(1, min(SAMPLED, MOST_NUMBERS // workload.columns))
    named = _spread(workload.named, max(1, most // 2)).tolist()  # of a tilted workload, none of whose parts is left out
    rest = len(workload.blocks) - workload.named
    places = [*named, *(workload.named + _spread(rest, max(1, most - len(named)))).tolist()]
    blocks = [(workload.blocks[place], workload.weights[place]) for place in places]
    at_once, alike = max(1, AT_ONCE // workload.columns), len(set(workload.weights)) == 1
    for block, matters in blocks:
        chosen = _spread(block.rows, max(1, most // len(blocks)))
        for start in range(0, len(chosen), at_once):
            yield block[chosen[start : start + at_once]].dense(), 1.0 if alike else matters / len(chosen)


def _spread(rows: int, count: int) -> Codes:
    """Row numbers of a low-discrepancy sample of `count` rows; all rows where there are no more."""
    if rows <= count:
        return np.arange(rows)
    ordered = np.sort(places_among(rows, count))
    return ordered[np.diff(ordered, prepend=-1) > 0]  # not by np.unique, which loads masked arrays first


def _levels_in(levels: Codes) -> Codes:
    """Distinct numbers of levels, ascending."""
    return np.flatnonzero(np.bincount(levels))


PARTS = 720_720  # that a budget is shared out in: a multiple of every number up to 16, so that even shares are even
WIDEST = 8  # levels that one measurement may go down: parts of 1 / 256
# Of the square of a part's rows: the mean squared error of a query that cuts it. Where a share f of its cells is cut
# off, rows that all lie in one place are off by a variance of f (1 - f), 1/6 on average; in two places by half of that.
UNEVEN = 1 / 8
UNKNOWN = 1e30  # the square of a number of rows of which nothing is known


@dataclass(frozen=True, eq=False)
class Frontier:
    """Nodes at which the descent may continue, one array entry per node.

    levels, numbers: position in the tree.
    rows, variances: last noisy count and its noise variance.
    left: budget left, in PARTS.
    jumps: how many levels above the node its measured ancestor lies (ancestors up to that level can be measured in
    place of the node, since all of their descendants have the same budget left).
    """

    levels: Codes
    numbers: Codes
    rows: Floats
    variances: Floats
    left: Codes
    jumps: Codes

    @classmethod
    def root(cls) -> Frontier:
        """Frontier of the root alone, unmeasured, with the whole budget."""
        nowhere = np.zeros(1, dtype=np.int64)
        return cls(nowhere, nowhere, np.array([np.inf]), np.array([np.inf]), np.array([PARTS]), nowhere)

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, mask: NDArray[np.bool_]) -> Frontier:
        """Subset of the nodes by a boolean mask."""
        return Frontier(*(getattr(self, field.name)[mask] for field in fields(self)))

    def highest(self) -> tuple[Frontier, Frontier]:
        """Split into the nodes of the level nearest the root and all others."""
        here = self.levels == self.levels.min()
        return self.where(here), self.where(~here)

    def together(self, other: Frontier) -> Frontier:
        """Concatenate two frontiers."""
        names = [field.name for field in fields(self)]
        return Frontier(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


@dataclass(frozen=True, eq=False)
class Planned:
    """Nodes to measure next, and the share of the budget for each, in PARTS; one array entry per node.

    left: budget that remains along the path afterwards.
    jumps: see Frontier. Shares along a root-to-leaf path sum to at most PARTS: a measurement gets at most what is left
    to the nodes that it is charged to.
    """

    levels: Codes
    numbers: Codes
    shares: Codes
    left: Codes
    jumps: Codes

    def ranges(self, tree: BinaryTree, nodes: Sequence[Codes] | None = None) -> Ranges:
        """Nodes as ranges of the leaves in tree order; nodes: by level, of a pruned tree, their numbers in this one."""
        ends = [np.empty(len(self.numbers), dtype=np.int64) for _ in range(2)]
        for level in _levels_in(self.levels):
            here = self.levels == level
            numbers = self.numbers[here] if nodes is None else nodes[level][self.numbers[here]]
            for side in (0, 1):
                ends[side][here] = tree.begins[level][numbers + side]
        return Ranges(len(tree.order), ends[0], ends[1] - 1)

    def answered(self, answers: Codes, variances: Floats) -> Frontier:
        """Frontier of the nodes just measured that have budget left; answers, variances: (nodes,)."""
        frontier = Frontier(self.levels, self.numbers, answers.astype(np.float64), variances, self.left, self.jumps)
        return frontier.where(self.left > 0)


class GoOn(Protocol):
    """Rule of descent: from a frontier of one level to the measurements below it."""

    def __call__(
        self, frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool
    ) -> Planned: ...


def next_measurements(frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Planned:
    """Plan the measurements of least expected squared error below nodes of one level.

    unit: noise variance of a count that spends the whole budget; with a share s of it, unit / s^2 under pure epsilon
    and unit / s under zCDP.
    """
    level = int(frontier.levels[0])
    whole = unit * (PARTS / frontier.left) ** (2 if pure else 1)
    deeper, times, price = _cheapest(frontier, tree, geometry, whole, pure=pure)
    higher = _joined(frontier, tree, geometry, whole, price)
    planned = []
    for up in _levels_in(higher[higher > 0]):
        numbers = _above(tree, level, frontier.numbers[higher == up], up)
        numbers, example = np.unique(numbers, return_index=True)
        nothing = np.zeros(len(numbers), dtype=np.int64)
        planned.append((nothing + level - up, numbers, frontier.left[higher == up][example], nothing, nothing))
    for jump in _levels_in(deeper[higher == 0]):
        mine = (deeper == jump) & (higher == 0)
        numbers, counts = tree.parts(level, frontier.numbers[mine], int(jump))
        left, share = (np.repeat(part, counts) for part in (frontier.left[mine], frontier.left[mine] // times[mine]))
        same = np.zeros(len(numbers), dtype=np.int64)
        planned.append((same + level + jump, numbers, share, left - share, same + jump))
    return Planned(*(np.concatenate(part) for part in zip(*planned, strict=True)))


def error_if_full(
    tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool, of: Geometry | None = None
) -> float:
    """Approximate root mean squared error of the queries if every node may hold many rows; smaller on sparse tables.

    of: other queries than those that the measurements are planned for.
    """
    root, whole = Frontier.root(), np.array([unit])
    deeper, times, squared = _cheapest(root, tree, geometry, whole, pure=pure)
    if of is not None:
        squared = _price(root, tree, of, whole, int(deeper[0]), int(times[0]), pure=pure)
    return sqrt(float(squared[0]))


def _cheapest(
    frontier: Frontier, tree: BinaryTree, geometry: Geometry, whole: Floats, *, pure: bool
) -> tuple[Codes, Codes, Floats]:
    """Cheapest plan of each node: levels down to the next count, number of counts, and price, (nodes,) each.

    whole: noise variance of a count that spends all that a node has left, (nodes,). The budget is shared equally over
    the counts.
    """
    below = tree.height - int(frontier.levels[0])
    best = np.full(len(frontier), np.inf)
    deeper, times = np.zeros(len(frontier), dtype=np.int64), np.ones(len(frontier), dtype=np.int64)
    for jump in range(min(WIDEST, below) + 1):
        # Measuring twice needs parts that can be cut further; a jump of one level gains too little for its share.
        for count in range(1, (-(-below // jump) if jump > 1 else 1) + 1):
            cost = _price(frontier, tree, geometry, whole, jump, count, pure=pure)
            better = cost < best
            best = np.where(better, cost, best)
            deeper, times = np.where(better, jump, deeper), np.where(better, count, times)
    return deeper, times, best


def _price(
    frontier: Frontier, tree: BinaryTree, geometry: Geometry, whole: Floats, jump: int, count: int, *, pure: bool
) -> Floats:
    """Mean squared error that a plan of `count` measurements, each `jump` levels deeper, leaves, (nodes,)."""
    level = int(frontier.levels[0])
    parts = [tree.nodes(at) / tree.nodes(level) for at in range(tree.height + 1)]
    cut = geometry.cut / tree.nodes(level)
    noise = whole * (count**2 if pure else count)
    stops = [min(level + stop * jump, tree.height) for stop in range(count + 1)]
    noisy = sum(cut[at] * parts[to] / parts[at] / 4.0 for at, to in pairwise(stops) if to > at)
    total = 1.0 / (1.0 / frontier.variances + 1.0 / (noise * parts[stops[1]]))
    cost = geometry.whole[level] * total + noisy * noise
    if stops[-1] < tree.height:
        squares = np.where(np.isfinite(frontier.rows), _squares(frontier), UNKNOWN)
        cost = cost + cut[stops[-1]] * UNEVEN / parts[stops[-1]] * squares
    return np.asarray(cost, dtype=np.float64)


def _joined(frontier: Frontier, tree: BinaryTree, geometry: Geometry, whole: Floats, price: Floats) -> Codes:
    """Number of levels up to the ancestor that is better counted in place of its nodes, (nodes,); 0: none.

    Siblings counted at once have equal budgets left, so any ancestor made of them can be charged to them. Their rows
    are estimated from the last counts by shrinkage to their mean, as in the posterior. price: of separate plans,
    (nodes,).
    """
    level = int(frontier.levels[0])
    higher, best, above = np.zeros(len(frontier), dtype=np.int64), price.copy(), frontier.numbers
    inside = (
        geometry.cut[level] / tree.nodes(level) * UNEVEN * _squares(frontier) if level < tree.height else 0.0 * price
    )
    for up in range(1, int(frontier.jumps.max()) + 1):
        above, at = tree.above(level - up + 1, above), level - up
        mine = frontier.jumps >= up
        _, example, group = np.unique(above[mine], return_index=True, return_inverse=True)
        parts = np.bincount(group)
        variance, unit = frontier.variances[mine][example], whole[mine][example]
        mean = np.bincount(group, weights=frontier.rows[mine]) / parts
        each = 1.0 / (1.0 / variance + 1.0 / (np.maximum(mean, 0.0) ** 2 + variance / parts))
        cost = geometry.whole[at] / (1.0 / (parts * each) + 1.0 / unit)
        cost += geometry.cut[at] / tree.nodes(at) * parts / 4.0 * each + np.bincount(group, weights=inside[mine])
        better = (cost < np.bincount(group, weights=best[mine]))[group]
        best[mine] = np.where(better, (cost / parts)[group], best[mine])
        higher[mine] = np.where(better, up, higher[mine])
    return higher


def _squares(frontier: Frontier) -> Floats:
    """E[X^2] of the rows X of each node given its last noisy count, (nodes,)."""
    return np.asarray(np.maximum(frontier.rows, 0.0) ** 2 + frontier.variances)


def _above(tree: BinaryTree, level: int, numbers: Codes, levels: int) -> Codes:
    """Ancestors of nodes, `levels` levels up."""
    for at in range(level, level - levels, -1):
        numbers = tree.above(at, numbers)
    return numbers
