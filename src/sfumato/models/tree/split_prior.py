"""Mixture prior of how a node's rows divide between its two children, and empirical-Bayes estimates of its parameters.

Model. Given the rows X of a node, its first child holds A. Nine components: a child is empty (two); a child holds few
rows, with mean one of FEW and independent of X (two); or A = r X + d with Var(d) = c^2 r (1 - r) X^2, c = 0 or one of
NEARLY (five). Every component is a proper distribution of A given X, so that the prior is scale-free. `Halves` has the
likelihood of X under each component and the conditional mean, slope and variance of A; `split` averages over them.

Hyperparameters are learned per level by EM (messages.py has the iteration). Component probabilities are estimated in
classes of X, powers of four, each class shrunk towards its level. The expected share r starts from the fraction of
cells in the first child and is shifted by two estimates:

- a slice effect: nodes of a slice cut the same values of an attribute. Their shares are a random-effects model, with
  the between-node variance by moments (DerSimonian, Laird 1986) and the slice means shrunk (`slice_shares`);
- a trend: the share that a density linear in the neighbouring nodes implies, times a factor between 0 and 1 estimated
  by weighted least squares and shrunk towards the factor of the level above (`steps`, `factor`).
"""

from __future__ import annotations

from functools import cached_property

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
    """Children under the component "few rows", (2, nodes): moments, log-likelihood, and probability of each of FEW."""

    log_likely: Floats
    chances: Floats


@dataclass(frozen=True, eq=False)
class Split:
    """Posterior of the split of several nodes into their children.

    chances: posterior probability of each component, (components, nodes).
    slope: regression coefficient of the first child's rows on the node's, (nodes,).
    variance: of the first child's rows given the node's.
    leaning: derivative of the first child's mean by its share r. For both children, (2, nodes): alive, the probability
    that it is not empty; rows and rows_variance, mean and variance of its rows given that it is not.
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
    """Normal likelihoods of the rows of both children of several nodes, from the measurements below.

    mean, variance, weight (log), zero (log-likelihood of an empty child): (2, nodes).
    share: prior mean r of the first child's share; alone: whether there is no second child; rows: current estimate of
    the node's rows; each (nodes,).
    common: probability of each of FEW.
    """

    weight: Floats
    zero: Floats
    share: Floats
    alone: Flags
    rows: Floats
    common: Floats

    @cached_property
    def few(self) -> Few:
        """Posterior of each child under the component "few rows", summed over the sizes FEW."""
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
        """Likelihood of the node's rows X under each component, as a mixture (components, nodes)."""
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
        """Conditional mean, slope and variance of the first child's rows given the node's, (components, nodes) each."""
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
        """Derivative of the first child's posterior mean by its share r, (nodes,).

        chances, rows: probability of each component and the node's rows under it, (components, nodes).
        """
        return np.asarray((chances[EVEN:] * rows[EVEN:] * (1.0 - self._kept * self._precision)).sum(axis=0))

    @cached_property
    def classes(self) -> Codes:
        """Size class of each node by its number of rows, (nodes,): prior weights are learned by class."""
        return row_class(self.rows)

    @cached_property
    def _sizes(self) -> Floats:
        """Prior variance of d, for the proportional components, (components - EVEN, nodes)."""
        return np.asarray(UNEVEN[EVEN:, None] * (self.rows**2 * self.share * (1.0 - self.share)))

    @cached_property
    def _precision(self) -> Floats:
        """Precision of d from the likelihoods of both children, (nodes,)."""
        return np.asarray(1.0 / self.variance[0] + 1.0 / self.variance[1])

    @cached_property
    def _kept(self) -> Floats:
        """Posterior variance of d given both children, for the proportional components."""
        return np.asarray(self._sizes / (1.0 + self._sizes * self._precision))


def split(halves: Halves, mixture: Mixture, known: Normal, below: Normal) -> Split:
    """Posterior of the split of several nodes given the posterior `known` of their rows.

    mixture, below: the message of their subtrees, as a mixture and moment-matched.
    """
    components = mixture.conditioned_on(known, below)
    first, slope, within = halves.divide(components.mean)
    mean = components.average(first)
    variances = slope**2 * components.variance + within, (1.0 - slope) ** 2 * components.variance + within
    alive = np.maximum(1.0 - components.chances[[FIRST_EMPTY, SECOND_EMPTY]], HARDLY)
    rows = np.stack([mean, known.mean - mean]) / alive
    squares = [
        _without(components, empty, variances[empty] + values**2) / alive[empty] - rows[empty] ** 2
        for empty, values in ((FIRST_EMPTY, first), (SECOND_EMPTY, components.mean - first))
    ]
    apart, off = first - mean, components.mean - known.mean
    covariance = components.average(slope * components.variance + apart * off)
    variance_of_node = components.average(components.variance + off**2)
    regression = covariance / np.maximum(variance_of_node, HARDLY)
    left = components.average(variances[0] + apart**2) - regression**2 * variance_of_node
    left = np.maximum(left, 0.0)
    leaning = halves.leaning(components.chances, components.mean)
    return Split(
        components.chances, regression, left, leaning, alive, rows, np.maximum(np.stack(squares), LEAST_VARIANCE)
    )


def _without(given: Components, empty: int, values: Floats) -> Floats:
    """Sum over all components but one of probability times value, (nodes,)."""
    weighed = given.chances * values
    weighed[empty] = 0.0
    return np.asarray(weighed.sum(axis=0))


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
    """Prior parameters of one level of the tree.

    components: probability of each component by class of rows, (CLASSES, COMPONENTS).
    few: probability of each of FEW.
    sparse: classes in which many children are empty.
    rows: current estimate of each node's rows, (nodes,); None at first.
    trend: factor on the share implied by neighbouring nodes.
    """

    components: Floats
    few: Floats
    sparse: Flags
    rows: Floats | None
    trend: float = 0.0

    @classmethod
    def at_first(cls) -> Hyperparameters:
        """Uniform starting values of the hyperparameters."""
        even = np.full((CLASSES, COMPONENTS), 1.0 / COMPONENTS)
        return cls(even, np.full(len(FEW), 1.0 / len(FEW)), np.ones(CLASSES, dtype=np.bool_), None)


@dataclass(frozen=True, eq=False)
class Statistics:
    """Expected sufficient statistics of the prior (E step), summed over nodes.

    components: (CLASSES, COMPONENTS).
    filled: mean number of non-empty children, and nodes: number of nodes, by class.
    few: expected number of children of each size FEW.
    """

    components: Floats
    filled: Floats
    nodes: Floats
    few: Floats

    @classmethod
    def nothing(cls) -> Statistics:
        """Empty sufficient statistics."""
        return cls(np.zeros((CLASSES, COMPONENTS)), np.zeros(CLASSES), np.zeros(CLASSES), np.zeros(len(FEW)))

    @classmethod
    def of(cls, halves: Halves, posterior: Split, alive: Floats) -> Statistics:
        """E-step contribution of some nodes; alive: probability that each is not empty, (nodes,)."""
        classes, chances = halves.classes, posterior.chances * alive
        cells = classes * COMPONENTS + np.arange(COMPONENTS)[:, None]
        components = np.bincount(cells.reshape(-1), chances.reshape(-1), CLASSES * COMPONENTS).astype(np.float64)
        filled = np.bincount(classes, alive * posterior.alive.mean(axis=0), CLASSES).astype(np.float64)
        few = np.zeros(len(FEW))
        few[: len(halves.few.chances)] = np.einsum("khi,hi->k", halves.few.chances, chances[[FIRST_FEW, SECOND_FEW]])
        nodes = np.bincount(classes, minlength=CLASSES).astype(np.float64)
        return cls(components.reshape(CLASSES, COMPONENTS), filled, nodes, few)

    def __add__(self, other: Statistics) -> Statistics:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Statistics(*(one + another for one, another in both))

    def learned(self, rows: Floats) -> Hyperparameters:
        """M step: posterior means under Dirichlet priors, smoothed over neighbouring classes.

        rows: current estimates of the nodes' rows, (nodes,).
        """
        seen = self.components.copy()
        for first, second in ((FIRST_EMPTY, SECOND_EMPTY), (FIRST_FEW, SECOND_FEW)):
            seen[:, first] = seen[:, second] = (seen[:, first] + seen[:, second]) / 2.0
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
    """Slice effects on the first child's share: shrunk estimate and posterior standard deviation, (slices,) each."""

    shift: Floats
    deviation: Floats


def row_class(rows: Floats) -> Codes:
    """Class of a number of rows: the integer part of its logarithm to base four."""
    return np.minimum(np.log2(np.maximum(rows, 1.0)) / 2, CLASSES - 1).astype(np.int64)


def slice_shares(slices: Codes, even: Floats, halves: Normal, count: int) -> SliceShares:
    """Random-effects estimate of the slice effects from nodes of which both children were measured.

    slices: slice of each node, (nodes,). even: prior share, (nodes,). halves: rows of the children, (2, nodes). count:
    number of slices. Slice means are precision-weighted, then shrunk to zero by their estimated variance.
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
    """Between-node variance of shares within slices, by moments (DerSimonian, Laird 1986)."""
    weight = 1.0 / np.maximum(noise, LEAST_UNEVEN)
    whole, squares = (np.bincount(slices, weights=power, minlength=count) for power in (weight, weight**2))
    there = whole > 0
    middle = np.bincount(slices, weights=weight * off, minlength=count) / np.where(there, whole, 1.0)
    spare = len(slices) - int(there.sum())
    if spare == 0:
        return ANY_SHARE
    beyond = float(weight @ (off - middle[slices]) ** 2) - spare
    scaling = float((whole[there] - squares[there] / whole[there]).sum())
    return max(beyond / scaling, LEAST_UNEVEN) if scaling > 0.0 else ANY_SHARE


STEEPEST = 0.25  # of a node's rows, from its middle: what a half has besides its share if density falls to nothing


BELIEF = 1.0  # the precision of the belief that a level has the factor of the one above


def steps(grid: Codes, rows: Floats, cells: Floats) -> Floats:
    """Excess share of the first child of every node if density is linear between neighbouring nodes, (nodes,).

    grid: node numbers, a row for each position along the attribute that is cut, -1 where there is none. rows: of every
    node, nan where unknown. cells: number of cells of every node.
    """
    inside = np.append(cells, 1.0)[grid]
    density = np.append(np.maximum(rows, 0.0), np.nan)[grid] / inside
    rises = density[1:] - density[:-1]
    nothing = np.full((1, grid.shape[1]), np.nan)
    before, after = np.concatenate([nothing, rises]), np.concatenate([rises, nothing])
    before, after = np.where(np.isnan(before), after, before), np.where(np.isnan(after), before, after)
    excess = np.empty(len(rows) + 1)
    # A line that rises by s from node to node has s / 4 more in the middle of one half than in the middle of the node.
    excess[grid] = -(before + after) / 2.0 / 8.0 / np.maximum(density, 1.0 / inside)
    excess[np.isnan(excess)] = 0.0
    return np.minimum(np.maximum(excess[:-1], -STEEPEST), STEEPEST)


def factor(step: Floats, even: Floats, halves: Normal, above: float) -> float:
    """Weighted-least-squares factor between observed excess shares and those of a linear density, within [0, 1].

    step: excess shares of the linear density; even: fraction of cells in the first child; each (nodes,). halves: rows
    of the children, (2, nodes). above: factor of the level above, the prior mean.
    """
    both = halves.mean.sum(axis=0)
    rows = np.maximum(both, np.sqrt(halves.variance.sum(axis=0)))
    off = (halves.mean[0] - even * both) / rows
    noise = ((1.0 - even) ** 2 * halves.variance[0] + even**2 * halves.variance[1]) / rows**2
    weight = 1.0 / np.maximum(noise, HARDLY) ** 2
    uneven = float(weight @ (off**2 - noise)) / max(float(weight.sum()), HARDLY)
    weight = 1.0 / (noise + max(uneven, LEAST_UNEVEN))
    slope = (weight @ (step * off) + BELIEF * above) / (weight @ step**2 + BELIEF)
    return float(np.clip(slope, 0.0, 1.0))
