"""How the rows of a region may fall into its two halves: the prior of the multiscale posterior.

Given how many rows X a region holds, its first half holds A. Nine ways are possible, and how common each is has been
learned from the measurements: one of the halves is empty (two ways); one holds few rows, of a size that has nothing to
do with X (two ways, and how common each size is has been learned too); or A = r X + d, with r the share that the first
half is thought to get, and d zero or of one of four sizes in proportion to X (five ways). Every way is a proper law of
A given X, so that a region of a few rows and one of millions are treated alike and nothing hangs on units.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.inference.tree_posterior.observation import LOG_2PI, log_normal

NEARLY = (1 / 128, 1 / 32, 1 / 8, 1 / 2)  # the deviation of d, in X sqrt(r (1 - r)); all rows in one half have 1
FIRST_EMPTY, SECOND_EMPTY, FIRST_FEW, SECOND_FEW, EVEN = range(5)
WAYS = EVEN + 1 + len(NEARLY)
UNEVEN = np.array([1.0] * EVEN + [0.0, *(size**2 for size in NEARLY)])  # about the variance of A, in X^2 r (1 - r)
FEW: Floats = np.asarray(
    4.0 ** np.arange(10), dtype=np.float64
)  # how many rows a half with few may hold, to a factor of two
AROUND = 0.6  # times that: the deviation
IMPOSSIBLE = 1e-12  # the weight of more rows than the region has


@dataclass(frozen=True, eq=False)
class Few:
    """Both halves as such that hold few rows: log-likelihood, mean, variance, (2, regions); chances of each of FEW."""

    likely: Floats
    mean: Floats
    variance: Floats
    chances: Floats


@dataclass(frozen=True, eq=False)
class Halves:
    """What the measurements below say about both halves of some regions: likelihoods, normal in the half's rows.

    mean, variance, weight (log): of each half, (2, regions). zero: its log-likelihood if the half is empty.
    share: of the rows that the first half is thought to get. alone: whether there is no second half. rows: about how
    many the region holds. common: how common each of FEW is.
    """

    mean: Floats
    variance: Floats
    weight: Floats
    zero: Floats
    share: Floats
    alone: NDArray[np.bool_]
    rows: Floats
    common: Floats

    @cached_property
    def few(self) -> Few:
        """Every half as one that holds few rows."""
        there = max(1.0, float(self.rows.max(initial=1.0))) >= FEW  # sizes that no region can have are left out
        sizes, common = FEW[there], self.common[there]
        centre, spread = sizes[:, None, None], (AROUND * sizes[:, None, None]) ** 2
        common = np.where(sizes[:, None] <= np.maximum(self.rows, 1.0), common[:, None], IMPOSSIBLE)
        common /= common.sum(axis=0)
        likely = log_normal(self.mean, centre, self.variance + spread) + np.log(common)[:, None, :]
        most = likely.max(axis=0)
        chances = np.exp(likely - most)
        whole = chances.sum(axis=0)
        chances /= whole
        known = 1.0 / (1.0 / self.variance + 1.0 / spread)
        rows = known * (self.mean / self.variance + centre / spread)
        mean = (chances * rows).sum(axis=0)
        variance = (chances * (known + (rows - mean) ** 2)).sum(axis=0)
        return Few(most + np.log(whole), mean, variance, chances)

    def together(self) -> tuple[Floats, Floats, Floats]:
        """For each way, the likelihood of the region's rows: log-weight, mean and variance, (ways, regions)."""
        (m1, m2), (v1, v2), (w1, w2), (z1, z2), few = self.mean, self.variance, self.weight, self.zero, self.few
        weight, mean, variance = (np.empty((WAYS, len(self.share))) for _ in range(3))
        weight[FIRST_EMPTY], mean[FIRST_EMPTY], variance[FIRST_EMPTY] = z1 + w2, m2, v2
        weight[SECOND_EMPTY], mean[SECOND_EMPTY], variance[SECOND_EMPTY] = z2 + w1, m1, v1
        for way, small, large in ((FIRST_FEW, 0, 1), (SECOND_FEW, 1, 0)):
            weight[way] = w1 + w2 + few.likely[small]
            mean[way] = few.mean[small] + self.mean[large]
            variance[way] = few.variance[small] + self.variance[large]
        r, s = self.share, 1.0 - self.share
        size = self._sizes
        a, c = v1 + size, v2 + size
        determinant = v1 * v2 + size * (v1 + v2)
        precision = (c * r * r + 2.0 * size * r * s + a * s * s) / determinant
        middle = (c * r * m1 + size * (r * m2 + s * m1) + a * s * m2) / determinant / precision
        square = (c * m1 * m1 + 2.0 * size * m1 * m2 + a * m2 * m2) / determinant
        misfit = np.maximum(square - middle * middle * precision, 0.0)
        weight[EVEN:] = w1 + w2 - 0.5 * (LOG_2PI + np.log(determinant * precision) + misfit)
        mean[EVEN:], variance[EVEN:] = middle, 1.0 / precision
        weight[:SECOND_EMPTY, self.alone] = weight[FIRST_FEW:, self.alone] = -np.inf
        return weight, mean, variance

    def divide(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """For each way and its number of rows: what the first half holds, its slope in the rows, and its variance."""
        (m1, m2), (v1, v2), few = self.mean, self.variance, self.few
        first, slope, variance = np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(rows)
        first[SECOND_EMPTY], slope[SECOND_EMPTY] = rows[SECOND_EMPTY], 1.0
        small = (few.mean[0], few.variance[0], m2, v2), (m1, v1, few.mean[1], few.variance[1])
        for way, (a1, u1, a2, u2) in zip((FIRST_FEW, SECOND_FEW), small, strict=True):
            slope[way] = u1 / (u1 + u2)
            first[way] = a1 + slope[way] * (rows[way] - a1 - a2)
            variance[way] = u1 * u2 / (u1 + u2)
        r, s = self.share, 1.0 - self.share
        even, kept = rows[EVEN:], self._kept
        first[EVEN:] = r * even + kept * ((m1 - r * even) / v1 - (m2 - s * even) / v2)
        slope[EVEN:] = r - kept * (r / v1 - s / v2)
        variance[EVEN:] = kept
        return first, slope, variance

    def leaning(self, chances: Floats, rows: Floats) -> Floats:
        """By how many rows the first half would grow per unit of its share r; chances, rows: of each way."""
        return np.asarray((chances[EVEN:] * rows[EVEN:] * (1.0 - self._kept * self._precision)).sum(axis=0))

    @cached_property
    def _sizes(self) -> Floats:
        """The variance of d, for the ways in proportion."""
        return np.asarray(UNEVEN[EVEN:, None] * (self.rows**2 * self.share * (1.0 - self.share)))

    @cached_property
    def _precision(self) -> Floats:
        """Of d, by what is known of both halves."""
        return np.asarray(1.0 / self.variance[0] + 1.0 / self.variance[1])

    @cached_property
    def _kept(self) -> Floats:
        """The variance of d once the halves are known, for the ways in proportion."""
        return np.asarray(self._sizes / (1.0 + self._sizes * self._precision))
