"""How the queries of a workload lie in a binary tree over the cells: what they cut, and what they take whole.

Queries spread evenly over the blocks of the workload stand for all of them, so that a million cells take no longer to
look through than the noise takes to draw.

How to go on below a node of which a noisy count is known: how deep to measure, and what each measurement may spend.

A tree is descended once. Below a node that holds few rows it does not pay to go far: one more measurement, with all the
budget left, of the node itself, of a few parts of it, or of several such nodes together. Below one that holds many it
pays to measure often, each time with an even share. Every plan is priced by the error it leaves in the queries that
matter: noise, in queries that take the node whole or cut it, and rows that lie unevenly inside the last parts, in
queries that cut those. A plan is followed up to the next measurement only; then the counts found there decide anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from itertools import pairwise
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats, distinct
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.queries import Ranges, Workload
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


PARTS = 720_720  # that a budget is shared out in: a multiple of every number up to 16, so that even shares are even
WIDEST = 8  # levels that one measurement may go down: parts of 1 / 256
# Of the square of a part's rows: the mean squared error of a query that cuts it. Where a share f of its cells is cut
# off, rows that all lie in one place are off by a variance of f (1 - f), 1/6 on average; in two places by half of that.
UNEVEN = 1 / 8
UNKNOWN = 1e30  # the square of a number of rows of which nothing is known


@dataclass(frozen=True, eq=False)
class Frontier:
    """Nodes below which the descent goes on.

    levels, numbers: where they lie in the tree. rows, variances: what the last measurement of each says. left: of the
    budget, in PARTS. jumps: how many levels above it the node lies whose parts were measured then.
    """

    levels: Codes
    numbers: Codes
    rows: Floats
    variances: Floats
    left: Codes
    jumps: Codes

    @classmethod
    def root(cls) -> Frontier:
        """All cells, not measured yet."""
        nowhere = np.zeros(1, dtype=np.int64)
        return cls(nowhere, nowhere, np.array([np.inf]), np.array([np.inf]), np.array([PARTS]), nowhere)

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, mask: NDArray[np.bool_]) -> Frontier:
        """Some of the nodes."""
        return Frontier(*(getattr(self, field.name)[mask] for field in fields(self)))

    def highest(self) -> tuple[Frontier, Frontier]:
        """The nodes of the level nearest the root, and the others."""
        here = self.levels == self.levels.min()
        return self.where(here), self.where(~here)

    def together(self, other: Frontier) -> Frontier:
        """These nodes and others."""
        names = [field.name for field in fields(self)]
        return Frontier(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


@dataclass(frozen=True, eq=False)
class Planned:
    """What to measure next: nodes by level and number, and the share of the budget for each, in PARTS.

    left: what remains on the path after it. jumps: see Frontier. Shares along a path never sum to more than all PARTS:
    each measurement gets at most what the nodes have left on whose account it is made.
    """

    levels: Codes
    numbers: Codes
    shares: Codes
    left: Codes
    jumps: Codes

    def ranges(self, tree: BinaryTree) -> Ranges:
        """The places of each node."""
        ends = [np.empty(len(self.numbers), dtype=np.int64) for _ in range(2)]
        for level in np.unique(self.levels):
            here = self.levels == level
            for side in (0, 1):
                ends[side][here] = tree.begins[level][self.numbers[here] + side]
        return Ranges(len(tree.order), ends[0], ends[1] - 1)

    def answered(self, answers: Codes, variances: Floats) -> Frontier:
        """The nodes that have budget left, and what the answers say of them."""
        frontier = Frontier(self.levels, self.numbers, answers.astype(np.float64), variances, self.left, self.jumps)
        return frontier.where(self.left > 0)


class GoOn(Protocol):
    """A rule to go on below nodes of one level: from what was seen to what is measured next."""

    def __call__(
        self, frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool
    ) -> Planned: ...


def next_measurements(frontier: Frontier, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Planned:
    """What to measure below nodes of one level, by the plan of least expected error.

    unit: the variance of the noise of a measurement that may spend everything; with a share s of it, unit / s^2 under
    pure epsilon and unit / s under zero-concentrated privacy.
    """
    level = int(frontier.levels[0])
    whole = unit * (PARTS / frontier.left) ** (2 if pure else 1)
    deeper, times, price = _cheapest(frontier, tree, geometry, whole, pure=pure)
    higher = _joined(frontier, tree, geometry, whole, price)
    asked = []
    for up in np.unique(higher[higher > 0]):
        numbers = _above(tree, level, frontier.numbers[higher == up], up)
        numbers, one = np.unique(numbers, return_index=True)
        nothing = np.zeros(len(numbers), dtype=np.int64)
        asked.append((nothing + level - up, numbers, frontier.left[higher == up][one], nothing, nothing))
    for jump in np.unique(deeper[higher == 0]):
        mine = (deeper == jump) & (higher == 0)
        numbers, counts = tree.parts(level, frontier.numbers[mine], int(jump))
        left, share = (np.repeat(part, counts) for part in (frontier.left[mine], frontier.left[mine] // times[mine]))
        same = np.zeros(len(numbers), dtype=np.int64)
        asked.append((same + level + jump, numbers, share, left - share, same + jump))
    return Planned(*(np.concatenate(part) for part in zip(*asked, strict=True)))


def error_if_full(tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> float:
    """About the root mean square error of the queries where every node may hold many rows; it is less elsewhere."""
    *_, squared = _cheapest(Frontier.root(), tree, geometry, np.array([unit]), pure=pure)
    return sqrt(float(squared[0]))


def _cheapest(
    frontier: Frontier, tree: BinaryTree, geometry: Geometry, whole: Floats, *, pure: bool
) -> tuple[Codes, Codes, Floats]:
    """For each node how many levels down to measure next, over how many times to share what is left, and the price.

    whole: the variance of the noise of a measurement that spends all that a node has left.
    """
    level = int(frontier.levels[0])
    squares = np.where(np.isfinite(frontier.rows), _squares(frontier), UNKNOWN)
    best = np.full(len(frontier), np.inf)
    deeper, times = np.zeros(len(frontier), dtype=np.int64), np.ones(len(frontier), dtype=np.int64)
    parts = [tree.nodes(at) / tree.nodes(level) for at in range(tree.height + 1)]
    below, cut = tree.height - level, geometry.cut / tree.nodes(level)
    for jump in range(min(WIDEST, below) + 1):
        # Measuring twice needs parts that can be cut further; a jump of one level gains too little for its share.
        for count in range(1, (-(-below // jump) if jump > 1 else 1) + 1):
            noise = whole * (count**2 if pure else count)
            stops = [min(level + stop * jump, tree.height) for stop in range(count + 1)]
            noisy = sum(cut[at] * parts[to] / parts[at] / 4.0 for at, to in pairwise(stops) if to > at)
            total = 1.0 / (1.0 / frontier.variances + 1.0 / (noise * parts[stops[1]]))
            cost = geometry.whole[level] * total + noisy * noise
            if stops[-1] < tree.height:
                cost = cost + cut[stops[-1]] * UNEVEN / parts[stops[-1]] * squares
            better = cost < best
            best = np.where(better, cost, best)
            deeper, times = np.where(better, jump, deeper), np.where(better, count, times)
    return deeper, times, best


def _joined(frontier: Frontier, tree: BinaryTree, geometry: Geometry, whole: Floats, price: Floats) -> Codes:
    """How many levels up to measure nodes together, with all they have left; 0 where each had better go on by itself.

    Parts measured at once have as much left as each other, so any node made of them can be measured on their account.
    What the parts hold is known from the last measurement, shrunk towards their mean, as the posterior will; the price
    of the part that is not known is that of going on by themselves.
    """
    level = int(frontier.levels[0])
    higher, best, above = np.zeros(len(frontier), dtype=np.int64), price.copy(), frontier.numbers
    inside = (
        geometry.cut[level] / tree.nodes(level) * UNEVEN * _squares(frontier) if level < tree.height else 0.0 * price
    )
    for up in range(1, int(frontier.jumps.max()) + 1):
        above, at = tree.above(level - up + 1, above), level - up
        mine = frontier.jumps >= up
        _, one, group = np.unique(above[mine], return_index=True, return_inverse=True)
        parts = np.bincount(group)
        variance, unit = frontier.variances[mine][one], whole[mine][one]
        mean = np.bincount(group, weights=frontier.rows[mine]) / parts
        each = 1.0 / (1.0 / variance + 1.0 / (np.maximum(mean, 0.0) ** 2 + variance / parts))
        cost = geometry.whole[at] / (1.0 / (parts * each) + 1.0 / unit)
        cost += geometry.cut[at] / tree.nodes(at) * parts / 4.0 * each + np.bincount(group, weights=inside[mine])
        better = (cost < np.bincount(group, weights=best[mine]))[group]
        best[mine] = np.where(better, (cost / parts)[group], best[mine])
        higher[mine] = np.where(better, up, higher[mine])
    return higher


def _squares(frontier: Frontier) -> Floats:
    """The mean square of the rows that nodes may hold."""
    return np.asarray(np.maximum(frontier.rows, 0.0) ** 2 + frontier.variances)


def _above(tree: BinaryTree, level: int, numbers: Codes, levels: int) -> Codes:
    for at in range(level, level - levels, -1):
        numbers = tree.above(at, numbers)
    return numbers
