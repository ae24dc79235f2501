"""How to go on below a region of which a noisy count is known: how deep to look, and what each look may spend.

A tree is descended once. Below a region that holds few rows it does not pay to look far: one more look, with all the
budget left, at the region itself, at a few parts of it, or at several such regions together. Below one that holds many
it pays to look often, each time with an even share. Every way to go on is priced by the error it leaves in the queries
that matter: noise, in queries that take the region whole or cut it, and rows that lie unevenly inside the last parts,
in queries that cut those. A way is taken up to the next look only; then the counts found there decide anew.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.queries import Ranges
from sfumato.strategies.query_geometry import Geometry

PARTS = 720_720  # that a budget is shared out in: a multiple of every number up to 16, so that even shares are even
WIDEST = 8  # levels that one look may go down: parts of 1 / 256
# Of the square of a part's rows: the mean squared error of a query that cuts it. Where a share f of its cells is cut
# off, rows that all lie in one place are off by a variance of f (1 - f), 1/6 on average; in two places by half of that.
UNEVEN = 1 / 8
UNKNOWN = 1e30  # the square of a number of rows of which nothing is known


@dataclass(frozen=True, eq=False)
class Front:
    """Regions below which the descent goes on.

    levels, numbers: where they lie in the tree. rows, variances: what the last look at each says. left: of the budget,
    in PARTS. jumps: how many levels above it the region lies whose parts were looked at then.
    """

    levels: Codes
    numbers: Codes
    rows: Floats
    variances: Floats
    left: Codes
    jumps: Codes

    @classmethod
    def root(cls) -> Front:
        """All cells, not looked at yet."""
        nowhere = np.zeros(1, dtype=np.int64)
        return cls(nowhere, nowhere, np.array([np.inf]), np.array([np.inf]), np.array([PARTS]), nowhere)

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, mask: NDArray[np.bool_]) -> Front:
        """Some of the regions."""
        return Front(*(getattr(self, field.name)[mask] for field in fields(self)))

    def highest(self) -> tuple[Front, Front]:
        """The regions of the level nearest the root, and the others."""
        here = self.levels == self.levels.min()
        return self.where(here), self.where(~here)

    def together(self, other: Front) -> Front:
        """These regions and others."""
        names = [field.name for field in fields(self)]
        return Front(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))


@dataclass(frozen=True, eq=False)
class Looks:
    """What to ask next: regions by level and number, and the share of the budget for each, in PARTS.

    left: what remains on the path after the look. jumps: see Front. Shares along a path never sum to more than all
    PARTS: each look gets at most what the regions have left on whose account it is made.
    """

    levels: Codes
    numbers: Codes
    shares: Codes
    left: Codes
    jumps: Codes

    def ranges(self, tree: BinaryTree) -> Ranges:
        """The places of each region."""
        ends = [np.empty(len(self.numbers), dtype=np.int64) for _ in range(2)]
        for level in np.unique(self.levels):
            here = self.levels == level
            for side in (0, 1):
                ends[side][here] = tree.begins[level][self.numbers[here] + side]
        return Ranges(len(tree.order), ends[0], ends[1] - 1)

    def heard(self, answers: Codes, variances: Floats) -> Front:
        """The regions that have budget left, and what the answers say of them."""
        front = Front(self.levels, self.numbers, answers.astype(np.float64), variances, self.left, self.jumps)
        return front.where(self.left > 0)


class GoOn(Protocol):
    """A way to go on below regions of one level: from what was seen to what is asked next."""

    def __call__(self, front: Front, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Looks: ...


def next_looks(front: Front, tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> Looks:
    """What to ask below regions of one level, by the way of least expected error.

    unit: the variance of the noise of a look that may spend everything; with a share s of it the variance is unit / s^2
    under pure epsilon and unit / s under zero-concentrated privacy.
    """
    level = int(front.levels[0])
    whole = unit * (PARTS / front.left) ** (2 if pure else 1)
    deeper, looks, price = _cheapest(front, tree, geometry, whole, pure=pure)
    higher = _joined(front, tree, geometry, whole, price)
    asked = []
    for up in np.unique(higher[higher > 0]):
        numbers = _above(tree, level, front.numbers[higher == up], up)
        numbers, one = np.unique(numbers, return_index=True)
        nothing = np.zeros(len(numbers), dtype=np.int64)
        asked.append((nothing + level - up, numbers, front.left[higher == up][one], nothing, nothing))
    for jump in np.unique(deeper[higher == 0]):
        mine = (deeper == jump) & (higher == 0)
        numbers, counts = tree.parts(level, front.numbers[mine], int(jump))
        left, share = (np.repeat(part, counts) for part in (front.left[mine], front.left[mine] // looks[mine]))
        same = np.zeros(len(numbers), dtype=np.int64)
        asked.append((same + level + jump, numbers, share, left - share, same + jump))
    return Looks(*(np.concatenate(part) for part in zip(*asked, strict=True)))


def error_if_full(tree: BinaryTree, geometry: Geometry, unit: float, *, pure: bool) -> float:
    """About the root mean square error of the queries where every region may hold many rows; it is less elsewhere."""
    *_, squared = _cheapest(Front.root(), tree, geometry, np.array([unit]), pure=pure)
    return sqrt(float(squared[0]))


def _cheapest(
    front: Front, tree: BinaryTree, geometry: Geometry, whole: Floats, *, pure: bool
) -> tuple[Codes, Codes, Floats]:
    """For each region how many levels down to look next, over how many looks to share what is left, and the price.

    whole: the variance of the noise of a look that spends all that a region has left.
    """
    level = int(front.levels[0])
    squares = np.where(np.isfinite(front.rows), _squares(front), UNKNOWN)
    best = np.full(len(front), np.inf)
    deeper, looks = np.zeros(len(front), dtype=np.int64), np.ones(len(front), dtype=np.int64)
    parts = [tree.regions(at) / tree.regions(level) for at in range(tree.height + 1)]
    below, cut = tree.height - level, geometry.cut / tree.regions(level)
    for jump in range(min(WIDEST, below) + 1):
        # Looking twice needs parts that can be cut further; a jump of one level gains too little for its share.
        for count in range(1, (-(-below // jump) if jump > 1 else 1) + 1):
            noise = whole * (count**2 if pure else count)
            stops = [min(level + stop * jump, tree.height) for stop in range(count + 1)]
            noisy = sum(cut[at] * parts[to] / parts[at] / 4.0 for at, to in pairwise(stops) if to > at)
            total = 1.0 / (1.0 / front.variances + 1.0 / (noise * parts[stops[1]]))
            cost = geometry.whole[level] * total + noisy * noise
            if stops[-1] < tree.height:
                cost = cost + cut[stops[-1]] * UNEVEN / parts[stops[-1]] * squares
            better = cost < best
            best = np.where(better, cost, best)
            deeper, looks = np.where(better, jump, deeper), np.where(better, count, looks)
    return deeper, looks, best


def _joined(front: Front, tree: BinaryTree, geometry: Geometry, whole: Floats, price: Floats) -> Codes:
    """How many levels up to look at regions together, with all they have left; 0 where each had better go its own way.

    All parts of one look have as much left as each other, so any region made of them can be looked at on their account.
    What the parts hold is known from the last look, shrunk towards their mean, as the posterior will; the price of the
    part that is not known is that of going their own ways.
    """
    level = int(front.levels[0])
    higher, best, above = np.zeros(len(front), dtype=np.int64), price.copy(), front.numbers
    inside = (
        geometry.cut[level] / tree.regions(level) * UNEVEN * _squares(front) if level < tree.height else 0.0 * price
    )
    for up in range(1, int(front.jumps.max()) + 1):
        above, at = tree.above(level - up + 1, above), level - up
        mine = front.jumps >= up
        _, one, group = np.unique(above[mine], return_index=True, return_inverse=True)
        parts = np.bincount(group)
        variance, unit = front.variances[mine][one], whole[mine][one]
        mean = np.bincount(group, weights=front.rows[mine]) / parts
        each = 1.0 / (1.0 / variance + 1.0 / (np.maximum(mean, 0.0) ** 2 + variance / parts))
        cost = geometry.whole[at] / (1.0 / (parts * each) + 1.0 / unit)
        cost += geometry.cut[at] / tree.regions(at) * parts / 4.0 * each + np.bincount(group, weights=inside[mine])
        better = (cost < np.bincount(group, weights=best[mine]))[group]
        best[mine] = np.where(better, (cost / parts)[group], best[mine])
        higher[mine] = np.where(better, up, higher[mine])
    return higher


def _squares(front: Front) -> Floats:
    """The mean square of the rows that regions may hold."""
    return np.asarray(np.maximum(front.rows, 0.0) ** 2 + front.variances)


def _above(tree: BinaryTree, level: int, numbers: Codes, levels: int) -> Codes:
    for at in range(level, level - levels, -1):
        numbers = tree.above(at, numbers)
    return numbers
