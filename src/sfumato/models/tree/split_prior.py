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

Noisy counts of the nodes of a tree, level by level, and what they say before anything is inferred.

What the prior of a level of the tree learns from its nodes: how common each component is, and shares by slice.

Nodes of one level are alike if they hold about as many rows, to a factor of four. There may be few of them, so a class
starts from what all nodes of its level do, and a level from all components being as common.

The nodes of a slice cover the same values of the attribute that is cut. Each says, noisily, which share of its rows
lies in its first half. A slice's share is the mean of what its nodes say, each weighed by the inverse of two variances
together, that of its noise and that of how differently nodes divide; it is then drawn towards the share of the cells,
the more the less slices differ from it at all. On tables whose attributes have nothing to do with each other all nodes
of a slice do divide alike, and what no single node shows above its noise, all of them show together.

How a node divides, foretold by the nodes beside it.

Where a table is smooth, density changes along a line: a node's first half then holds more than its share of the cells
if the node before it is fuller than the one after it. Where it is not smooth, the nodes beside it say nothing. Which of
the two it is every level learns, as a factor between nought and one: by least squares from how its nodes do divide,
drawn towards the factor of the level above.
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


PRIOR_COUNT = 1.0  # nodes' worth of belief in each component, on every level
LIKE_ALL = 4.0  # nodes' worth of belief that nodes with so many rows divide as all of the level do
PRIOR_FEW = 2.0  # halves' worth of belief that all sizes of few rows are as common
RAREST = 1e-4
CLASSES = 12  # of nodes by their number of rows, a power of four each
FULL = 0.8  # of all halves of a class hold rows: above it an empty half is the exception
LEAST_UNEVEN = 1e-6  # the variance of a node's share: no two nodes divide exactly alike
ANY_SHARE = 1 / 12  # the variance of a share that may be anything


@dataclass(frozen=True, eq=False)
class Hyperparameters:
    """Of one level: how common components are in each class of nodes, and each size of few rows; which classes have
    many empty halves; and about how many rows each node holds, None as long as nothing is known.
    """

    components: Floats
    few: Floats
    sparse: Flags
    rows: Floats | None
    trend: float = 0.0

    @classmethod
    def at_first(cls) -> Hyperparameters:
        even = np.full((CLASSES, COMPONENTS), 1.0 / COMPONENTS)
        return cls(even, np.full(len(FEW), 1.0 / len(FEW)), np.ones(CLASSES, dtype=np.bool_), None)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Sums over nodes, by class: of the chances of components, of halves that hold rows, of nodes; of sizes of few."""

    components: Floats
    filled: Floats
    nodes: Floats
    few: Floats

    @classmethod
    def nothing(cls) -> Statistics:
        return cls(np.zeros((CLASSES, COMPONENTS)), np.zeros(CLASSES), np.zeros(CLASSES), np.zeros(len(FEW)))

    @classmethod
    def of(cls, halves: Halves, found: Split, alive: Floats) -> Statistics:
        """What some nodes add; alive: the chance that each is not empty."""
        classes, chances = row_class(halves.rows), found.chances * alive
        components = np.zeros((CLASSES, COMPONENTS))
        for column, weights in enumerate(chances):
            components[:, column] = np.bincount(classes, weights, CLASSES)
        filled = np.bincount(classes, alive * found.alive.mean(axis=0), CLASSES).astype(np.float64)
        few = np.zeros(len(FEW))
        few[: len(halves.few.chances)] = np.einsum("khi,hi->k", halves.few.chances, chances[[FIRST_FEW, SECOND_FEW]])
        return cls(components, filled, np.bincount(classes, minlength=CLASSES).astype(np.float64), few)

    def __add__(self, other: Statistics) -> Statistics:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Statistics(*(one + another for one, another in both))

    def learned(self, rows: Floats) -> Hyperparameters:
        """The hyperparameters that these sums make likely; rows: what the nodes hold."""
        seen = self.components.copy()
        for pair in ([FIRST_EMPTY, SECOND_EMPTY], [FIRST_FEW, SECOND_FEW]):
            seen[:, pair] = seen[:, pair].mean(axis=1, keepdims=True)
        everywhere = seen.sum(axis=0)
        common = (everywhere + PRIOR_COUNT) / (everywhere.sum() + COMPONENTS * PRIOR_COUNT)
        near = seen.copy()  # classes are cut at round numbers, so that neighbours count half
        near[1:] += 0.5 * seen[:-1]
        near[:-1] += 0.5 * seen[1:]
        components = (near + LIKE_ALL * common) / (near.sum(axis=1, keepdims=True) + LIKE_ALL)
        few = (self.few + PRIOR_FEW / len(FEW)) / (self.few.sum() + PRIOR_FEW)
        return Hyperparameters(np.maximum(components, RAREST), few, self.filled < FULL * self.nodes, rows)


@dataclass(frozen=True, eq=False)
class SliceShares:
    """By how much the share of each slice differs from that of its cells, and the deviation of what is known of it."""

    shift: Floats
    deviation: Floats


def row_class(rows: Floats) -> Codes:
    """The class of nodes with so many rows: which power of four."""
    return np.clip(np.log2(np.maximum(rows, 1.0)) / 2, 0, CLASSES - 1).astype(np.int64)


def slice_shares(slices: Codes, even: Floats, halves: Normal, count: int) -> SliceShares:
    """The shares of so many slices, from nodes of which both halves were measured.

    slices: the slice of each node. even: its share of cells. halves: the rows of both halves, (2, nodes).
    """
    both = halves.mean.sum(axis=0)
    rows = np.maximum(both, np.sqrt(halves.variance.sum(axis=0)))
    off = (halves.mean[0] - even * both) / rows
    noise = ((1.0 - even) ** 2 * halves.variance[0] + even**2 * halves.variance[1]) / rows**2
    weight = 1.0 / (_unevenness(slices, off, noise, count) + noise)
    whole = np.bincount(slices, weights=weight, minlength=count)
    shift, deviation = np.zeros(count), np.zeros(count)
    there = whole > 0
    if not there.any():
        return SliceShares(shift, deviation)
    precision = whole[there]
    middle = np.bincount(slices, weights=weight * off, minlength=count)[there] / precision
    differ = max(float(precision @ (middle**2 - 1.0 / precision) / precision.sum()), 0.0)
    shift[there] = middle * differ * precision / (differ * precision + 1.0)
    deviation[there] = np.sqrt(differ / (differ * precision + 1.0))
    return SliceShares(shift, deviation)


def _unevenness(slices: Codes, off: Floats, noise: Floats, count: int) -> float:
    """The variance with which nodes differ from their slice, beyond noise: by moments (DerSimonian, Laird 1986)."""
    weight = 1.0 / np.maximum(noise, LEAST_UNEVEN)
    whole, squares = (np.bincount(slices, weights=power, minlength=count) for power in (weight, weight**2))
    there = whole > 0
    middle = np.bincount(slices, weights=weight * off, minlength=count) / np.where(there, whole, 1.0)
    spare = len(slices) - int(there.sum())
    if spare == 0:
        return ANY_SHARE
    beyond = float(weight @ (off - middle[slices]) ** 2) - spare
    known = float((whole[there] - squares[there] / whole[there]).sum())
    return max(beyond / known, LEAST_UNEVEN) if known > 0.0 else ANY_SHARE


STEEPEST = 0.25  # of a node's rows, from its middle: what a half has besides its share if density falls to nothing


BELIEF = 1.0  # the precision of the belief that a level has the factor of the one above


def steps(grid: Codes, rows: Floats, cells: Floats) -> Floats:
    """How much of its rows the first half of every node has besides its share of cells, if density is a straight line.

    grid: the nodes, a row for each place along the attribute that is cut. rows: of every node, nan where unknown.
    """
    density = np.maximum(rows, 0.0)[grid] / cells[grid]
    rises = np.diff(density, axis=0)
    nothing = np.full((1, grid.shape[1]), np.nan)
    before, after = np.concatenate([nothing, rises]), np.concatenate([rises, nothing])
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    found = np.empty(len(rows))
    # A line that rises by s from node to node has s / 4 more in the middle of one half than in the middle of the node.
    found[grid] = -(before + after) / 2.0 / 8.0 / np.maximum(density, 1.0 / cells[grid])
    return np.clip(np.nan_to_num(found), -STEEPEST, STEEPEST)


def factor(step: Floats, even: Floats, halves: Normal, above: float) -> float:
    """How far nodes divide as the nodes beside them foretell.

    step: what these foretell. even: the share of cells. halves: the rows of both halves, (2, nodes).
    """
    both = halves.mean.sum(axis=0)
    rows = np.maximum(both, np.sqrt(halves.variance.sum(axis=0)))
    off = (halves.mean[0] - even * both) / rows
    noise = ((1.0 - even) ** 2 * halves.variance[0] + even**2 * halves.variance[1]) / rows**2
    weight = 1.0 / np.maximum(noise, HARDLY) ** 2
    uneven = float(weight @ (off**2 - noise)) / max(float(weight.sum()), HARDLY)
    weight = 1.0 / (noise + max(uneven, LEAST_UNEVEN))
    found = (weight @ (step * off) + BELIEF * above) / (weight @ step**2 + BELIEF)
    return float(np.clip(found, 0.0, 1.0))
