"""Normal mixtures for the rows of tree nodes, and their update by one count with Laplace or Gaussian noise.

Model. The count X of a node is normal N(m, v) within a component of a mixture; its noisy count is y = X + Z. For
Gaussian Z the update is conjugate. For Laplace Z of scale b the posterior density is proportional to exp(-(x - m)^2 /
2v - |y - x| / b): a mixture of two truncated normal distributions, located at m + v / b below y and m - v / b above it,
whose weight, mean and variance are closed forms in log Phi and the inverse Mills ratio (`observe`).

`Mixture` has the three operations of message passing: posterior of the components, moment matching to one normal
distribution, and conditioning on the parent's posterior. `Evidence` keeps the noisy counts of all nodes by level.
Arrays have the shape (nodes,), or (components, nodes) in a mixture.

The number of all rows has three estimates, each with less variance and more bias than the one before: `unbiased_total`,
from the first round of counts and from all later ones, each as a whole, so that no noise has a part in its weight;
`total_by_squares`, in which what is measured below a node, and so the weight of its count, depends on the noise of that
count; the posterior, as hyperparameters and rows that are never negative move all leaves in one direction.
`total_of_all` takes one of the last two, and `squared_error` assesses it by how far it lies from the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property
from math import erfc, log, log1p, pi, sqrt
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import Ranges

LEAST_VARIANCE = 1e-6  # in rows: below it nothing is gained and digits are lost
HARDLY = 1e-12  # a chance


@dataclass(frozen=True, eq=False)
class Normal:
    """Independent normal distributions of the rows of several nodes; arrays of one shape."""

    mean: Floats
    variance: Floats

    def of(self, nodes: Codes) -> Normal:
        """Normal distributions of some of the nodes."""
        return Normal(self.mean[nodes], self.variance[nodes])

    def times(self, other: Normal) -> Normal:
        """Product of two normal likelihoods: the precision-weighted mean and its variance."""
        variance = 1.0 / (1.0 / self.variance + 1.0 / other.variance)
        return Normal(variance * (self.mean / self.variance + other.mean / other.variance), variance)


@dataclass(frozen=True, eq=False)
class Components(Normal):
    """Mixture components given all evidence: mean, variance and posterior probability, each (components, nodes)."""

    chances: Floats

    def average(self, values: Floats) -> Floats:
        """Posterior mean over the components of values (components, nodes)."""
        return np.asarray((self.chances * values).sum(axis=0))

    def moment_matched(self) -> Normal:
        """Normal distribution with the mean and variance of the mixture."""
        mean = self.average(self.mean)
        return Normal(mean, self.average(self.variance + (self.mean - mean) ** 2))


@dataclass(frozen=True, eq=False)
class Mixture(Normal):
    """Unnormalised normal mixture: mean, variance and log-weight, each (components, nodes)."""

    log_weight: Floats

    def component_posterior(self) -> tuple[Components, Floats]:
        """Normalise the weights to probabilities; return the components and the log of the total weight, (nodes,)."""
        most = self.log_weight.max(axis=0)
        chances = np.exp(self.log_weight - most)
        whole = chances.sum(axis=0)
        chances /= whole
        return Components(self.mean, self.variance, chances), most + np.log(whole)

    def conditioned_on(self, known: Normal, below: Normal) -> Components:
        """Condition the mixture on the parent's message.

        known: posterior of the node's rows from all evidence. below: its moment-matched message from the subtree. The
        parent's message is the quotient of the two; where it carries no information the components stay as they are.
        Means are then shifted in proportion to their variances so that their average is known.mean.
        """
        precision = np.maximum(1.0 / known.variance - 1.0 / below.variance, 0.0)
        helps = precision > 1e-9 / below.variance
        outer = 1.0 / np.where(helps, precision, 1.0)
        centre = outer * (known.mean / known.variance - below.mean / below.variance)
        both, log_likely = self.times(Normal(centre, outer)), log_normal(self.mean, centre, self.variance + outer)

        def given(helped: Flags) -> tuple[Components, Floats]:
            """Components with the message where it helps, and by how much their average is short of known.mean."""
            parts = (
                (both.mean, self.mean),
                (both.variance, self.variance),
                (self.log_weight + log_likely, self.log_weight),
            )
            components, _ = Mixture(*(np.where(helped, one, other) for one, other in parts)).component_posterior()
            return components, known.mean - components.average(components.mean)

        components, short = given(helps)
        # A message of next to no precision is an exponential tilt, which says nothing of components far apart.
        astray = helps & (np.abs(short) > np.abs(known.mean - below.mean) + np.sqrt(known.variance))
        if astray.any():
            components, short = given(helps & ~astray)
        # What was passed up is a normal distribution, no mixture, so that means differ; but no row must be lost.
        return replace(
            components,
            mean=components.mean
            + short * components.variance / np.maximum(components.average(components.variance), HARDLY),
        )


LOG_2PI = log(2.0 * pi)
QUICK = 2**12  # numbers, up to which Python's own functions are done before a library is loaded
FLAT = 400.0  # times the squared scale: a variance beyond it leaves the noise's own distribution, by two moments


def log_normal(x: Floats | float, mean: Floats | float, variance: Floats | float) -> Floats:
    """Log-density of the normal distribution."""
    return np.asarray(-0.5 * ((x - mean) ** 2 / variance + np.log(variance) + LOG_2PI))


def log_at_zero(answers: Floats, scales: Floats, *, laplace: bool) -> Floats:
    """Log-likelihood of noisy counts under a true count of zero.

    scales: scale of Laplace noise, or standard deviation of Gaussian noise.
    """
    if laplace:
        return np.asarray(-np.abs(answers) / scales - np.log(2.0 * scales))
    return log_normal(answers, 0.0, scales**2)


def observe(mean: Floats, variance: Floats, answer: Floats, scale: Floats, *, laplace: bool) -> tuple[Floats, ...]:
    """Update N(mean, variance) by one noisy answer: marginal log-likelihood, posterior mean and posterior variance.

    All arrays broadcast to one shape. Where the prior variance exceeds FLAT scale^2 the Laplace posterior is replaced
    by the normal one with noise variance 2 scale^2.
    """
    noise = 2.0 * scale**2 if laplace else scale**2
    posterior_variance = 1.0 / (1.0 / variance + 1.0 / noise)
    normal = (
        log_normal(answer, mean, variance + noise),
        posterior_variance * (mean / variance + answer / noise),
        posterior_variance,
    )
    if not laplace:
        return normal
    deviation, apart = np.sqrt(variance), answer - mean
    below, above = (apart - variance / scale) / deviation, (-apart - variance / scale) / deviation
    tilt = variance / (2.0 * scale**2)
    log_below, hazard_below = _tail(below)
    log_above, hazard_above = _tail(above)
    log_below, log_above = log_below - apart / scale + tilt, log_above + apart / scale + tilt
    likely = np.logaddexp(log_below, log_above)
    share = np.exp(log_below - likely)
    low, high = mean + variance / scale - deviation * hazard_below, mean - variance / scale + deviation * hazard_above
    low_spread = np.maximum(1.0 - below * hazard_below - hazard_below**2, 1e-9)
    high_spread = np.maximum(1.0 - above * hazard_above - hazard_above**2, 1e-9)
    middle = share * low + (1.0 - share) * high
    spread = share * (variance * low_spread + (low - middle) ** 2)
    spread += (1.0 - share) * (variance * high_spread + (high - middle) ** 2)
    exact = likely - np.log(2.0 * scale), middle, np.maximum(spread, 1e-9 * posterior_variance)
    wide = variance > FLAT * scale**2
    return tuple(np.where(wide, a, b) for a, b in zip(normal, exact, strict=True))


def _tail(x: Floats) -> tuple[Floats, Floats]:
    """log Phi(x) and the inverse Mills ratio phi(x) / Phi(x)."""
    log_left = log_phi(x)
    return log_left, np.exp(-0.5 * x**2 - 0.5 * LOG_2PI - log_left)


def log_phi(values: Floats) -> Floats:
    """Log of the normal distribution function, also far in the lower tail.

    >>> log_phi(np.array([0.0, -40.0])).round(4).tolist()
    [-0.6931, -804.6084]
    """
    if values.size > QUICK:
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(values))
    return np.array([_log_phi(x) for x in values.reshape(-1).tolist()]).reshape(values.shape)


def _log_phi(x: float) -> float:
    if x > 0.0:
        return log1p(-0.5 * erfc(x / sqrt(2.0)))
    if x > -20.0:
        return log(0.5 * erfc(-x / sqrt(2.0)))
    # Far out erfc underflows, and the first terms of its asymptotic series leave 1e-10.
    y = 1.0 / (x * x)
    return -0.5 * x * x - log(-x) - 0.5 * LOG_2PI + log1p(-y * (1.0 - 3.0 * y * (1.0 - 5.0 * y * (1.0 - 7.0 * y))))


UNKNOWN = 1e13  # the variance of a number of rows of which nothing is known


@dataclass(frozen=True, eq=False)
class Evidence:
    """Noisy counts of the nodes of a tree, as lists with one array (nodes,) per level from the root.

    cells: cumulative number of cells before each leaf, (leaves + 1,).
    answers: noisy counts.
    scales: of Laplace noise, or standard deviations of Gaussian noise; inf where a node was not measured.
    zero: log-likelihood of all counts within a node's subtree if the node is empty.
    measured: whether the node or a descendant was measured.
    inner, outer: for each level but the last, the nodes of which a descendant was measured, and the others.
    """

    tree: BinaryTree
    cells: Codes
    answers: Sequence[Floats]
    scales: Sequence[Floats]
    laplace: bool
    zero: Sequence[Floats]
    measured: Sequence[Flags]
    inner: Sequence[Codes]
    outer: Sequence[Codes]

    @classmethod
    def of(
        cls, tree: BinaryTree, sizes: Codes, answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
    ) -> Evidence:
        """Collect the counts of a tree bottom-up; sizes: number of cells of each leaf, (leaves,)."""
        zeros, seen, inner, outer = list[Floats](), list[Flags](), list[Codes](), list[Codes]()
        for level in range(tree.height, -1, -1):
            measured = np.isfinite(scales[level])
            zero = np.zeros(len(measured))
            zero[measured] = log_at_zero(answers[level][measured], scales[level][measured], laplace=laplace)
            if level < tree.height:
                starts = tree.halves[level][:-1]
                zero += np.add.reduceat(zeros[0], starts)
                inside = np.logical_or.reduceat(seen[0], starts)
                inner.insert(0, np.flatnonzero(inside))
                outer.insert(0, np.flatnonzero(~inside))
                measured |= inside
            zeros.insert(0, zero)
            seen.insert(0, measured)
        cells = np.concatenate([[0], np.cumsum(sizes)])
        return cls(tree, cells, answers, scales, laplace, zeros, seen, inner, outer)

    def own(self, level: int) -> Normal:
        """Normal likelihood of the nodes of a level from their own counts alone; variance UNKNOWN where unmeasured."""
        noise = (2.0 if self.laplace else 1.0) * self.scales[level] ** 2
        return Normal(self.answers[level].copy(), np.minimum(noise, UNKNOWN, out=noise))

    def sizes(self, level: int) -> Floats:
        """Number of cells of each node of a level, (nodes,)."""
        return np.diff(self.cells[self.tree.begins[level]]).astype(np.float64)

    @cached_property
    def even(self) -> list[Floats]:
        """Fraction of each node's cells that lie in its first child, by level but the last."""
        result = list[Floats]()
        for begins, below, halves in zip(self.tree.begins, self.tree.begins[1:], self.tree.halves, strict=False):
            ends = self.cells[begins]
            result.append((self.cells[below[halves[:-1] + 1]] - ends[:-1]) / (ends[1:] - ends[:-1]))
        return result

    @cached_property
    def both(self) -> list[tuple[Codes, Codes]]:
        """Nodes with both children measured, and these children (2, nodes), by level but the last."""
        result = list[tuple[Codes, Codes]]()
        for level, inner in enumerate(self.inner):
            pair = self.tree.pair(level, inner)
            both = self.measured[level + 1][pair].all(axis=0) & (pair[1] >= 0)
            result.append((inner[both], pair[:, both]))
        return result

    def observed(self, level: int, nodes: Codes, mixture: Mixture) -> Mixture:
        """Update a mixture by the nodes' own noisy counts, where there are any."""
        scale = self.scales[level][nodes]
        seen = np.isfinite(scale)
        if not seen.any():
            return mixture
        prior = mixture.mean[:, seen], mixture.variance[:, seen]
        likely, *posterior = observe(*prior, self.answers[level][nodes][seen], scale[seen], laplace=self.laplace)
        weight, mean, variance = mixture.log_weight.copy(), mixture.mean.copy(), mixture.variance.copy()
        weight[:, seen] += likely
        mean[:, seen], variance[:, seen] = posterior
        return Mixture(mean, variance, weight)


FAR_BETTER = 4.0  # times less variance


class Total(NamedTuple):
    """Estimate of the number of all rows; variance: for weighting by precision; noise: actual variance.

    Both are the same but where noise is so small that it is mostly zero (measurement.Design.sizes).
    """

    mean: float
    variance: float
    noise: float


class Counts(NamedTuple):
    """Noisy counts of a tree, as lists with one array (nodes,) per level from the root.

    scales: of Laplace noise, or standard deviations of Gaussian noise; inf where a node was not measured. noises: the
    variances of the noise that was drawn.
    """

    answers: Sequence[Floats]
    scales: Sequence[Floats]
    noises: Sequence[Floats]
    laplace: bool


def counts_by_level(measured: Measurement, tree: BinaryTree, rows: slice = slice(None)) -> Counts:
    """Noisy counts by level, of all rows of a measurement or of some.

    Repeated counts of a node are pooled by precision. A node that appears on several levels, because it is not divided
    there, is assigned to the first.
    """
    if not isinstance(measured.queries, Ranges):
        raise QueryError("a tree is measured by ranges of its leaves")
    lows, highs, answers = measured.queries.lows[rows], measured.queries.highs[rows], measured.answers[rows]
    sizes, variances = measured.design.sizes[rows], measured.design.variances[rows]
    laplace = isinstance(measured.noises[0], Laplace)
    pooled, scales, noises = list[Floats](), list[Floats](), list[Floats]()
    taken = np.zeros(len(lows), dtype=np.bool_)
    for begins in tree.begins:
        where = np.searchsorted(begins, lows, side="right") - 1
        here = ~taken & (begins[where] == lows) & (begins[where + 1] == highs + 1)
        taken |= here
        count = len(begins) - 1
        precision, weighed, noise = (
            np.bincount(where[here], weights=values[here] / sizes[here], minlength=count)
            for values in (np.ones(len(lows)), answers, variances / sizes)
        )
        seen = precision > 0.0
        variance = np.divide(1.0, precision, out=np.full(count, np.inf), where=seen)
        pooled.append(np.divide(weighed, precision, out=np.zeros(count), where=seen))
        scales.append(np.sqrt(variance * (0.5 if laplace else 1.0)))
        noises.append(np.divide(noise, precision**2, out=np.full(count, np.inf), where=seen))
    if not taken.all():
        raise QueryError("a tree is measured by counts of its own regions; a range in this measurement is none of them")
    return Counts(pooled, scales, noises, laplace)


def total_by_squares(tree: BinaryTree, counts: Counts) -> Total:
    """Least-squares estimate of the total; variance and noise inf where some leaf lies in no measured node."""
    leaves = tree.nodes(tree.height)
    mean, variance, noise = np.zeros(leaves), np.full(leaves, np.inf), np.full(leaves, np.inf)
    for level in range(tree.height, -1, -1):
        if level < tree.height:
            starts = tree.halves[level][:-1]
            mean, variance, noise = (np.add.reduceat(part, starts) for part in (mean, variance, noise))
        own = (2.0 if counts.laplace else 1.0) * counts.scales[level] ** 2
        precision = 1.0 / own + 1.0 / variance  # 0 where neither was measured
        known = precision > 0.0
        weighed = counts.answers[level] / own + mean / variance
        mean = np.divide(weighed, precision, out=np.zeros_like(weighed), where=known)
        share = np.divide(1.0 / own, precision, out=np.zeros_like(own), where=known)
        noise = _times(share**2, counts.noises[level]) + _times((1.0 - share) ** 2, noise)
        variance = np.divide(1.0, precision, out=np.full_like(precision, np.inf), where=known)
    return Total(float(mean[0]), float(variance[0]), float(noise[0]))


def split_variances(tree: BinaryTree, counts: Counts) -> Floats:
    """Variance of every inner node's split by least squares on what was measured below it, level by level, (inner,).

    Infinite where neither half was measured.
    """
    precision, result = np.zeros(tree.nodes(tree.height)), list[Floats]()
    for level in range(tree.height, -1, -1):
        if level < tree.height:
            starts = tree.halves[level][:-1]
            with np.errstate(divide="ignore"):
                result.append(1.0 / np.add.reduceat(precision, starts))  # of two halves: 1 / (1 / s + 1 / t)
                precision = 1.0 / np.add.reduceat(1.0 / precision, starts)
        precision = precision + 1.0 / ((2.0 if counts.laplace else 1.0) * counts.scales[level] ** 2)
    return np.concatenate([*reversed(result), np.zeros(0)])


def _times(weights: Floats, variances: Floats) -> Floats:
    """Elementwise product weights * variances, with 0 * infinity = 0."""
    return np.multiply(weights, variances, out=np.zeros_like(weights), where=weights > 0.0)


def unbiased_total(measured: Measurement, tree: BinaryTree, by_squares: Total) -> Total:
    """Unbiased estimate of the total, even though noise decided what was measured; by_squares where none exists.

    Mean by precision of two totals: of the first round, planned before any noise was seen, and of all later counts,
    whose noise is fresh given the first round.
    """
    ranges = measured.queries
    if not isinstance(ranges, Ranges):
        return by_squares
    first = int(np.searchsorted(np.cumsum(ranges.highs - ranges.lows + 1), len(tree.order))) + 1
    now, later = (
        total_by_squares(tree, counts_by_level(measured, tree, rows))
        for rows in (slice(None, first), slice(first, None))
    )
    if not np.isfinite(now.variance) or not np.isfinite(later.variance):
        return by_squares
    share = later.variance / (now.variance + later.variance)
    mean, variance = share * now.mean + (1.0 - share) * later.mean, share * now.variance
    return Total(mean, variance, share**2 * now.noise + (1.0 - share) ** 2 * later.noise)


def mean_total(totals: Sequence[Total]) -> Total:
    """Inverse-variance mean of independent estimates of the total."""
    first, *others = totals
    for other in others:
        share = first.variance / (first.variance + other.variance)
        noise = (1.0 - share) ** 2 * first.noise + share**2 * other.noise
        first = Total(first.mean + share * (other.mean - first.mean), share * other.variance, noise)
    return first


def total_of_all(by_prior: Total, by_squares: Total, unbiased: Total) -> tuple[float, float]:
    """Total and its mean squared error: least squares, unless the posterior claims FAR_BETTER times less variance.

    That happens where hardly anything but leaves was measured and most are empty: all of their noise is in the sum.
    Then the posterior total is moved by positive-part James-Stein shrinkage of its difference from least squares.
    """
    if not np.isfinite(by_squares.variance):  # something was measured nowhere
        return by_prior.mean, by_prior.variance
    if by_squares.variance <= FAR_BETTER * by_prior.variance:
        return by_squares.mean, squared_error(by_squares.mean, by_squares, unbiased)
    apart = by_squares.mean - by_prior.mean
    weight = max(0.0, 1.0 - by_squares.variance / max(apart**2, 1e-300))
    whole = by_prior.mean + weight * apart
    return whole, squared_error(whole, by_prior, unbiased)


@cache
def _quadrature() -> tuple[Floats, Floats]:
    """Points and weights of Gauss and Legendre's rule."""
    return np.polynomial.legendre.leggauss(64)


def squared_error(whole: float, efficient: Total, unbiased: Total) -> float:
    """Mean squared error of a total, from an efficient estimate that may be biased and an unbiased one.

    With D their difference, v and n their variances and B the bias, D ~ N(B, s) with s = n - v, as of any efficient
    and any unbiased estimate (Hausman 1978). The prior of B is the horseshoe of scale s (Carvalho, Polson, Scott 2010):
    N(0, s k / (1 - k)) with k ~ Beta(1/2, 1/2). So E[B | D, k] = k D and Var(B | D, k) = k s, and given D the density
    of sqrt(k) is proportional to exp(k D^2 / 2 s) on [0, 1].
    """
    apart, scale = efficient.mean - unbiased.mean, unbiased.noise - efficient.noise
    if scale <= LEAST_VARIANCE:
        return max(efficient.noise, LEAST_VARIANCE)
    points, weights = _quadrature()
    k = (1.0 - ((points + 1.0) / 2.0) ** 4) ** 2  # denser near 1
    likely = weights * (points + 1.0) ** 3 * np.exp((k - k.max()) * apart**2 / (2.0 * scale))
    likely /= likely.sum()
    shrunk = float(likely @ k)
    bias_variance = scale * shrunk + apart**2 * float(likely @ (k - shrunk) ** 2)
    return efficient.noise + bias_variance + (efficient.mean - shrunk * apart - whole) ** 2


def of_one_row_more(tree: BinaryTree, slopes: Sequence[Floats]) -> Floats:
    """Share of an additional row of the total that falls to each leaf, by the slopes, (leaves,) in tree order."""
    parts = np.ones(1)
    for level, slope in enumerate(slopes):
        pair = tree.pair(level, np.arange(tree.nodes(level)))
        below, alone = np.empty(tree.nodes(level + 1)), pair[1] < 0
        below[pair[0]] = np.where(alone, parts, slope * parts)
        below[pair[1][~alone]] = ((1.0 - slope) * parts)[~alone]
        parts = below
    return parts
