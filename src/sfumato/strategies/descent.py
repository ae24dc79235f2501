"""How to go on below a region of which a noisy count is known: how deep to look, and what each look may spend.

A tree is descended once. Below a region that holds few rows it does not pay to look far: one more look, with all the
budget left, at the region itself or at a few parts of it. Below one that holds many it pays to look often, each time
with an even share. Every way to go on is priced by the error it leaves in the queries that matter: noise, in queries
that take the region whole or cut it, and rows that lie unevenly inside the last parts, in queries that cut those. A way
is taken up to the next look only; then the counts found there decide anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes
from sfumato.queries import Ranges
from sfumato.strategies.cutting import Geometry

Floats = NDArray[np.float64]

PARTS = 720_720  # that a budget is shared out in: a multiple of every number up to 16, so that even shares are even
WIDEST = 8  # levels that one look may go down: parts of 1 / 256
UNEVEN = 1 / 8  # of the square of a part's rows: the mean squared error of a query that cuts it, if they lie together
UNKNOWN = 1e30  # the square of a number of rows of which nothing is known


@dataclass(frozen=True, eq=False)
class Front:
    """Regions below which the descent goes on.

    levels, numbers: where they lie in the tree. rows, variances: what the last look at each says. left: of the budget,
    in PARTS.
    """

    levels: Codes
    numbers: Codes
    rows: Floats
    variances: Floats
    left: Codes

    @classmethod
    def root(cls) -> Front:
        """All cells, not looked at yet."""
        nowhere = np.zeros(1, dtype=np.int64)
        return cls(nowhere, nowhere, np.array([np.inf]), np.array([np.inf]), np.array([PARTS]))

    def __len__(self) -> int:
        return len(self.numbers)

    def where(self, mask: NDArray[np.bool_]) -> Front:
        """Some of the regions."""
        return Front(self.levels[mask], self.numbers[mask], self.rows[mask], self.variances[mask], self.left[mask])

    def highest(self) -> tuple[Front, Front]:
        """The regions of the level nearest the root, and the others."""
        here = self.levels == self.levels.min()
        return self.where(here), self.where(~here)

    def together(self, other: Front) -> Front:
        """These regions and others."""
        return Front(
            np.concatenate([self.levels, other.levels]),
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.rows, other.rows]),
            np.concatenate([self.variances, other.variances]),
            np.concatenate([self.left, other.left]),
        )


@dataclass(frozen=True, eq=False)
class Looks:
    """What to ask next: regions by level and number, and the share of the budget for each, in PARTS.

    Shares along a path never sum to more than all PARTS: each look gets at most what the region above it has left.
    """

    levels: Codes
    numbers: Codes
    shares: Codes
    left: Codes

    def ranges(self, tree: Sequence[Codes]) -> Ranges:
        """The cells of each region, in the order of the tree; tree: where regions begin and end, level by level."""
        ends = [np.empty(len(self.numbers), dtype=np.int64) for _ in range(2)]
        for level in np.unique(self.levels):
            here = self.levels == level
            for side in (0, 1):
                ends[side][here] = tree[level][self.numbers[here] + side]
        return Ranges(int(tree[0][-1]), ends[0], ends[1] - 1)

    def heard(self, answers: Codes, variances: Floats) -> Front:
        """The regions that have budget left, and what the answers say of them."""
        front = Front(self.levels, self.numbers, answers.astype(np.float64), variances, self.left)
        return front.where(self.left > 0)


class GoOn(Protocol):
    """A way to go on below regions of one level: from what was seen to what is asked next."""

    def __call__(
        self, front: Front, tree: Sequence[Codes], geometry: Geometry, unit: float, *, pure: bool
    ) -> Looks: ...


def next_looks(front: Front, tree: Sequence[Codes], geometry: Geometry, unit: float, *, pure: bool) -> Looks:
    """What to ask below regions of one level, by the way of least expected error.

    unit: the variance of the noise of a look that may spend everything; with a share s of it the variance is unit / s^2
    under pure epsilon and unit / s under zero-concentrated privacy.
    """
    level, height = int(front.levels[0]), len(tree) - 1
    whole = unit * (PARTS / front.left) ** (2 if pure else 1)
    deeper, looks, _ = _cheapest(level, height, geometry, front, whole, pure=pure)
    asked = []
    for jump in np.unique(deeper):
        mine, begins = deeper == jump, tree[level + jump]
        numbers = (front.numbers[mine][:, None] * 2**jump + np.arange(2**jump)).reshape(-1)
        left, share = (np.repeat(part, 2**jump) for part in (front.left[mine], front.left[mine] // looks[mine]))
        held = begins[numbers] < begins[numbers + 1]  # an end of the tree without a cell is not asked
        levels = np.full(int(held.sum()), level + jump)
        asked.append((levels, numbers[held], share[held], (left - share)[held]))
    return Looks(*(np.concatenate(part) for part in zip(*asked, strict=True)))


def error_if_full(height: int, geometry: Geometry, unit: float, *, pure: bool) -> float:
    """About the root mean square error of the queries where every region may hold many rows; it is less elsewhere."""
    *_, squared = _cheapest(0, height, geometry, Front.root(), np.array([unit]), pure=pure)
    return sqrt(float(squared[0]))


def _cheapest(
    level: int, height: int, geometry: Geometry, front: Front, whole: Floats, *, pure: bool
) -> tuple[Codes, Codes, Floats]:
    """For each region how many levels down to look next, over how many looks to share what is left, and the price.

    whole: the variance of the noise of a look that spends all that a region has left.
    """
    known = np.isfinite(front.rows)
    squares = np.where(known, np.maximum(front.rows, 0.0) ** 2 + front.variances, UNKNOWN)
    best = np.full(len(front), np.inf)
    deeper, looks = np.zeros(len(front), dtype=np.int64), np.ones(len(front), dtype=np.int64)
    below, cut = height - level, geometry.cut / 2.0**level
    for jump in range(min(WIDEST, below) + 1):
        # Looking twice needs parts that can be cut further; a jump of one level gains too little for its share.
        for count in range(1, (-(-below // jump) if jump > 1 else 1) + 1):
            noise = whole * (count**2 if pure else count)
            stops = [min(level + stop * jump, height) for stop in range(count + 1)]
            parts = sum(cut[at] * 2.0 ** (to - at) / 4.0 for at, to in pairwise(stops) if to > at)
            total = 1.0 / (1.0 / front.variances + 1.0 / (noise * 2.0**jump))
            cost = geometry.whole[level] * total + parts * noise
            if stops[-1] < height:
                cost = cost + cut[stops[-1]] * UNEVEN / 2.0 ** (stops[-1] - level) * squares
            better = cost < best
            best = np.where(better, cost, best)
            deeper, looks = np.where(better, jump, deeper), np.where(better, count, looks)
    return deeper, looks, best
