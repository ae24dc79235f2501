"""How the rows of a region may fall into its two halves: the prior of the multiscale posterior.

Given how many rows X a region holds, its first half holds r X + d, with r its share of the cells. Seven ways are
possible, and how common each is on a level is learned from the measurements: the first half is empty; the second is;
both are even (d = 0); nearly even, with d of three sizes in proportion to X; or anything, where the smaller half may be
of any order of magnitude, and how common each power of two is was learned too. Nothing here knows the size of X
beforehand, so that a region of a few rows and one of millions are treated alike.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sfumato.inference.noisy_normal import LOG_2PI, cut_at_zero

Floats = NDArray[np.float64]

NEARLY = (1 / 128, 1 / 32, 1 / 8)  # the size of d, in halves of X
FIRST_EMPTY, SECOND_EMPTY, EVEN, FREE = 0, 1, 2, 3 + len(NEARLY)
WAYS = FREE + 1


LOG_2 = float(np.log(2.0))
POWERS = 48  # of two, up to which a half may hold rows


def power(rows: Floats) -> NDArray[np.int64]:
    """The power of two at or below a number of rows."""
    return np.clip(np.floor(np.log2(np.maximum(rows, 1.0))).astype(np.int64), 0, POWERS - 1)


@dataclass(frozen=True, eq=False)
class Halves:
    """What the measurements below say about both halves of some regions: likelihoods, normal in the half's rows.

    mean, variance, weight (log): of each half, (2, regions); zero: its log-likelihood if the half is empty.
    share: the first half's share of the cells. plug: about how many rows the region holds.
    """

    mean: Floats
    variance: Floats
    weight: Floats
    zero: Floats
    share: Floats
    plug: Floats
    magnitudes: Floats  # how common each power of two is for the smaller half, where anything goes

    def sizes(self, way: int) -> Floats | float:
        """The variance of d, for the even ways."""
        return 0.0 if way == EVEN else (NEARLY[way - EVEN - 1] * self.plug / 2.0) ** 2

    def log_density(self, smaller: Floats) -> Floats:
        """How common so many rows are in the smaller half, where anything goes."""
        return np.log(self.magnitudes[power(smaller)]) - np.log(smaller * LOG_2)

    def together(self) -> tuple[Floats, Floats, Floats]:
        """For each way, the likelihood of the region's rows: log-weight, mean and variance, (ways, regions)."""
        (m1, m2), (v1, v2), (w1, w2), (z1, z2) = self.mean, self.variance, self.weight, self.zero
        weight, mean, variance = (np.empty((WAYS, len(self.share))) for _ in range(3))
        weight[FIRST_EMPTY], mean[FIRST_EMPTY], variance[FIRST_EMPTY] = z1 + w2, m2, v2
        weight[SECOND_EMPTY], mean[SECOND_EMPTY], variance[SECOND_EMPTY] = z2 + w1, m1, v1
        for way in range(EVEN, FREE):
            size = self.sizes(way)
            a, c = v1 + size, v2 + size
            determinant = v1 * v2 + size * (v1 + v2)
            r, s = self.share, 1.0 - self.share
            precision = (c * r * r + 2.0 * size * r * s + a * s * s) / determinant
            middle = (c * r * m1 + size * (r * m2 + s * m1) + a * s * m2) / determinant / precision
            square = (c * m1 * m1 + 2.0 * size * m1 * m2 + a * m2 * m2) / determinant
            misfit = np.maximum(square - middle * middle * precision, 0.0)
            weight[way] = w1 + w2 - 0.5 * (LOG_2PI + np.log(determinant) + misfit + np.log(precision))
            mean[way], variance[way] = middle, 1.0 / precision
        finest = np.sqrt(np.minimum(v1, v2))
        smaller = np.maximum(np.minimum(m1, m2), finest)
        free = cut_at_zero(m1, v1)[0] + cut_at_zero(m2, v2)[0] + self.log_density(smaller)
        weight[FREE], mean[FREE], variance[FREE] = w1 + w2 + free, m1 + m2, v1 + v2
        only_second, only_first = self.share <= 0.0, self.share >= 1.0
        weight[1:, only_second] = -np.inf
        weight[:1, only_first] = weight[2:, only_first] = -np.inf
        return weight, mean, variance

    def divide(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """For each way and its number of rows: what the first half holds, its slope in the rows, and its variance."""
        (m1, m2), (v1, v2) = self.mean, self.variance
        first, slope, variance = np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(rows)
        first[SECOND_EMPTY], slope[SECOND_EMPTY] = rows[SECOND_EMPTY], 1.0
        precision = 1.0 / v1 + 1.0 / v2
        for way in range(EVEN, FREE):
            size = self.sizes(way)
            kept = size / (1.0 + size * precision)
            r, s = self.share, 1.0 - self.share
            first[way] = r * rows[way] + kept * ((m1 - r * rows[way]) / v1 - (m2 - s * rows[way]) / v2)
            slope[way] = r - kept * (r / v1 - s / v2)
            variance[way] = kept
        _, t1, u1 = cut_at_zero(m1, v1)
        _, t2, u2 = cut_at_zero(m2, v2)
        slope[FREE] = u1 / (u1 + u2)
        first[FREE] = t1 + slope[FREE] * (rows[FREE] - t1 - t2)
        variance[FREE] = u1 * u2 / (u1 + u2)
        return first, slope, variance
