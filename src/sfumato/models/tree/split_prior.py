"""How a node divides, foretold by the nodes beside it.

Where a table is smooth, density changes along a line: a node's first half then holds more than its share of the cells
if the node before it is fuller than the one after it. Where it is not smooth, the nodes beside it say nothing. Which of
the two it is every level learns, as a factor between nought and one: by least squares from how its nodes do divide,
drawn towards the factor of the level above.

How the rows of a node fall into its two halves: the prior of the posterior over a tree, and the split it leads to.

Given how many rows X a node holds, its first half holds A. The prior is a mixture of nine components, and how common
each is has been learned from the measurements: one of the halves is empty (two components); one holds few rows, of a
size that has nothing to do with X (two, and how common each size is has been learned too); or A = r X + d, with r the
share that the first half is thought to get, and d zero or of one of four sizes in proportion to X (five). Every
component is a proper distribution of A given X, so that a node of a few rows and one of millions are treated alike and
nothing hangs on units.
"""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.models.tree.observation import HARDLY, LEAST_VARIANCE, LOG_2PI, Components, Mixture, Normal, log_normal

NEARLY = (1 / 128, 1 / 32, 1 / 8, 1 / 2)  # the deviation of d, in X sqrt(r (1 - r)); all rows in one half have 1
FIRST_EMPTY, SECOND_EMPTY, FIRST_FEW, SECOND_FEW, EVEN = range(5)
COMPONENTS = EVEN + 1 + len(NEARLY)
UNEVEN = np.array([1.0] * EVEN + [0.0, *(size**2 for size in NEARLY)])  # about the variance of A, in X^2 r (1 - r)
FEW: Floats = np.asarray(4.0 ** np.arange(10))  # how many rows a half with few may hold, to a factor of two
AROUND = 0.6  # times that: the deviation
IMPOSSIBLE = 1e-12  # the weight of more rows than the node has


@dataclass(frozen=True, eq=False)
class Few(Normal):
    """Both halves as such that hold few rows, (2, nodes): the log-likelihood of that, and chances of each of FEW."""

    log_likely: Floats
    chances: Floats


@dataclass(frozen=True, eq=False)
class Split:
    """Nodes split into their halves.

    chances: of each component. slope: how much of one row more the first half gets; variance: of the first half given
    the node's rows; leaning: see Halves. For both halves, (2, nodes), alive: the chance that it is not empty; rows and
    rows_variance: mean and variance of its rows if it is not.
    """

    chances: Floats
    slope: Floats
    variance: Floats
    leaning: Floats
    alive: Floats
    rows: Floats
    rows_variance: Floats


@dataclass(frozen=True, eq=False)
class Halves(Normal):
    """What the measurements below say about both halves of some nodes: likelihoods, normal in the half's rows.

    mean, variance, weight (log): of each half, (2, nodes). zero: its log-likelihood if the half is empty.
    share: of the rows that the first half is thought to get. alone: whether there is no second half. rows: about how
    many the node holds. common: how common each of FEW is.
    """

    weight: Floats
    zero: Floats
    share: Floats
    alone: Flags
    rows: Floats
    common: Floats

    @cached_property
    def few(self) -> Few:
        """Every half as one that holds few rows."""
        there = max(1.0, float(self.rows.max(initial=1.0))) >= FEW  # sizes that no node can have are left out
        sizes, common = FEW[there], self.common[there]
        centre, around = sizes[:, None, None], (AROUND * sizes[:, None, None]) ** 2
        common = np.where(sizes[:, None] <= np.maximum(self.rows, 1.0), common[:, None], IMPOSSIBLE)
        common /= common.sum(axis=0)
        log_likely = log_normal(self.mean, centre, self.variance + around) + np.log(common)[:, None, :]
        both = self.times(Normal(centre, around))
        by_size, weight = Mixture(both.mean, both.variance, log_likely).component_posterior()
        matched = by_size.moment_matched()
        return Few(matched.mean, matched.variance, weight, by_size.chances)

    def together(self) -> Mixture:
        """For each component, the likelihood of the node's rows."""
        (m1, m2), (v1, v2), (w1, w2), (z1, z2), few = self.mean, self.variance, self.weight, self.zero, self.few
        weight, mean, variance = (np.empty((COMPONENTS, len(self.share))) for _ in range(3))
        weight[FIRST_EMPTY], mean[FIRST_EMPTY], variance[FIRST_EMPTY] = z1 + w2, m2, v2
        weight[SECOND_EMPTY], mean[SECOND_EMPTY], variance[SECOND_EMPTY] = z2 + w1, m1, v1
        for component, small, large in ((FIRST_FEW, 0, 1), (SECOND_FEW, 1, 0)):
            weight[component] = w1 + w2 + few.log_likely[small]
            mean[component] = few.mean[small] + self.mean[large]
            variance[component] = few.variance[small] + self.variance[large]
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
        return Mixture(mean, variance, weight)

    def divide(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """For each component and its number of rows: what the first half holds, its slope in them, and its variance."""
        (m1, m2), (v1, v2), few = self.mean, self.variance, self.few
        first, slope, variance = np.zeros_like(rows), np.zeros_like(rows), np.zeros_like(rows)
        first[SECOND_EMPTY], slope[SECOND_EMPTY] = rows[SECOND_EMPTY], 1.0
        small = (few.mean[0], few.variance[0], m2, v2), (m1, v1, few.mean[1], few.variance[1])
        for component, (a1, u1, a2, u2) in zip((FIRST_FEW, SECOND_FEW), small, strict=True):
            slope[component] = u1 / (u1 + u2)
            first[component] = a1 + slope[component] * (rows[component] - a1 - a2)
            variance[component] = u1 * u2 / (u1 + u2)
        r, s = self.share, 1.0 - self.share
        even, kept = rows[EVEN:], self._kept
        first[EVEN:] = r * even + kept * ((m1 - r * even) / v1 - (m2 - s * even) / v2)
        slope[EVEN:] = r - kept * (r / v1 - s / v2)
        variance[EVEN:] = kept
        return first, slope, variance

    def leaning(self, chances: Floats, rows: Floats) -> Floats:
        """By how many rows the first half would grow per unit of its share r; chances, rows: of each component."""
        return np.asarray((chances[EVEN:] * rows[EVEN:] * (1.0 - self._kept * self._precision)).sum(axis=0))

    @cached_property
    def _sizes(self) -> Floats:
        """The variance of d, for the components in proportion."""
        return np.asarray(UNEVEN[EVEN:, None] * (self.rows**2 * self.share * (1.0 - self.share)))

    @cached_property
    def _precision(self) -> Floats:
        """Of d, by what is known of both halves."""
        return np.asarray(1.0 / self.variance[0] + 1.0 / self.variance[1])

    @cached_property
    def _kept(self) -> Floats:
        """The variance of d once the halves are known, for the components in proportion."""
        return np.asarray(self._sizes / (1.0 + self._sizes * self._precision))


def split(halves: Halves, mixture: Mixture, known: Normal, below: Normal) -> Split:
    """Split nodes of which the rows are known by everything; mixture and below: by what they and their parts say."""
    given = mixture.conditioned_on(known, below)
    first, slope, within = halves.divide(given.mean)
    mean = given.average(first)
    variances = slope**2 * given.variance + within, (1.0 - slope) ** 2 * given.variance + within
    alive = np.maximum(1.0 - given.chances[[FIRST_EMPTY, SECOND_EMPTY]], HARDLY)
    rows = np.stack([mean, known.mean - mean]) / alive
    squares = [
        _without(given, empty, variances[empty] + values**2) / alive[empty] - rows[empty] ** 2
        for empty, values in ((FIRST_EMPTY, first), (SECOND_EMPTY, given.mean - first))
    ]
    apart, off = first - mean, given.mean - known.mean
    covariance = given.average(slope * given.variance + apart * off)
    variance_of_node = given.average(given.variance + off**2)
    regression = covariance / np.maximum(variance_of_node, HARDLY)
    left = given.average(variances[0] + apart**2) - regression**2 * variance_of_node
    left = np.maximum(left, 0.0)
    leaning = halves.leaning(given.chances, given.mean)
    return Split(given.chances, regression, left, leaning, alive, rows, np.maximum(np.stack(squares), LEAST_VARIANCE))


@cache
def _others(empty: int) -> Codes:
    return np.delete(np.arange(COMPONENTS), empty)


def _without(given: Components, empty: int, values: Floats) -> Floats:
    """The sum over all components but one of what each has, times its chance."""
    there = _others(empty)
    return np.asarray((given.chances[there] * values[there]).sum(axis=0))
