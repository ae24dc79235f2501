"""Mixtures of normal distributions of how many rows nodes hold: one mixture for each of several nodes.

Three operations: the posterior over the components, the one normal distribution with a mixture's moments, and the
mixture conditioned on what the parent knows.

One noisy observation of a number that is normal beforehand: how likely it is, and what is known afterwards.

With Laplace noise the density is a normal one tilted up to the observation and tilted down beyond it, so that what is
known afterwards is a mixture of two truncated normal distributions, in closed form.

Noisy counts of the nodes of a tree, level by level, and what they say before anything is inferred.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import erfc, log, log1p, pi, sqrt

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass

LEAST_VARIANCE = 1e-6  # in rows: below it nothing is gained and digits are lost
HARDLY = 1e-12  # a chance


@dataclass(frozen=True, eq=False)
class Normal:
    """A number of rows, normal: one for each of several nodes."""

    mean: Floats
    variance: Floats

    def of(self, nodes: Codes) -> Normal:
        """Those of some nodes."""
        return Normal(self.mean[nodes], self.variance[nodes])

    def times(self, other: Normal) -> Normal:
        """What two independent sources say together: least squares."""
        variance = 1.0 / (1.0 / self.variance + 1.0 / other.variance)
        return Normal(variance * (self.mean / self.variance + other.mean / other.variance), variance)


@dataclass(frozen=True, eq=False)
class Components(Normal):
    """For each component and node: the mean and variance of the rows, and the chance that it is this one."""

    chances: Floats

    def average(self, values: Floats) -> Floats:
        """The mean over the components of what each has."""
        return np.asarray((self.chances * values).sum(axis=0))

    def moment_matched(self) -> Normal:
        """The one normal distribution with the mean and the variance of all components together."""
        mean = self.average(self.mean)
        return Normal(mean, self.average(self.variance + (self.mean - mean) ** 2))


@dataclass(frozen=True, eq=False)
class Mixture(Normal):
    """For each component and node: the mean and variance of the rows under it, and the logarithm of its weight."""

    log_weight: Floats

    def component_posterior(self) -> tuple[Components, Floats]:
        """The components with their chances, and the logarithm of all weight."""
        most = self.log_weight.max(axis=0)
        chances = np.exp(self.log_weight - most)
        whole = chances.sum(axis=0)
        chances /= whole
        return Components(self.mean, self.variance, chances), most + np.log(whole)

    def conditioned_on(self, known: Normal, below: Normal) -> Components:
        """The components given what the parents say of their halves.

        known: the rows by everything, parents and all. below: by the mixture alone, as it was passed up. What the
        parents say is the one without the other; where that is nothing, components stay as they are.
        """
        precision = np.maximum(1.0 / known.variance - 1.0 / below.variance, 0.0)
        helps = precision > 1e-9 / below.variance
        outer = 1.0 / np.where(helps, precision, 1.0)
        centre = outer * (known.mean / known.variance - below.mean / below.variance)
        both, log_likely = self.times(Normal(centre, outer)), log_normal(self.mean, centre, self.variance + outer)
        parts = (both.mean, self.mean), (both.variance, self.variance), (self.log_weight + log_likely, self.log_weight)
        given, _ = Mixture(*(np.where(helps, with_it, without) for with_it, without in parts)).component_posterior()
        # What was passed up is a normal distribution, no mixture, so that means differ; but no row must be lost.
        short = known.mean - given.average(given.mean)
        return replace(
            given, mean=given.mean + short * given.variance / np.maximum(given.average(given.variance), HARDLY)
        )


LOG_2PI = log(2.0 * pi)
QUICK = 2**12  # numbers, up to which Python's own functions are done before a library is loaded
FLAT = 400.0  # times the squared scale: a variance beyond it leaves the noise's own distribution, by two moments


def log_normal(x: Floats | float, mean: Floats | float, variance: Floats | float) -> Floats:
    """The logarithm of the normal density."""
    return np.asarray(-0.5 * ((x - mean) ** 2 / variance + np.log(variance) + LOG_2PI))


def log_at_zero(answers: Floats, scales: Floats, *, laplace: bool) -> Floats:
    """The log-likelihood of noisy answers if the truth is zero; scales: of Laplace noise, or standard deviations."""
    if laplace:
        return np.asarray(-np.abs(answers) / scales - np.log(2.0 * scales))
    return log_normal(answers, 0.0, scales**2)


def observe(mean: Floats, variance: Floats, answer: Floats, scale: Floats, *, laplace: bool) -> tuple[Floats, ...]:
    """Log-likelihood of an answer, and mean and variance of the number given it."""
    noise = 2.0 * scale**2 if laplace else scale**2
    known = 1.0 / (1.0 / variance + 1.0 / noise)
    normal = log_normal(answer, mean, variance + noise), known * (mean / variance + answer / noise), known
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
    exact = likely - np.log(2.0 * scale), middle, np.maximum(spread, 1e-9 * known)
    wide = variance > FLAT * scale**2
    return tuple(np.where(wide, a, b) for a, b in zip(normal, exact, strict=True))


def _tail(place: Floats) -> tuple[Floats, Floats]:
    """log Phi(place) and phi(place) / Phi(place)."""
    log_left = log_phi(place)
    return log_left, np.exp(-0.5 * place**2 - 0.5 * LOG_2PI - log_left)


def log_phi(place: Floats) -> Floats:
    """The logarithm of the normal distribution function.

    >>> log_phi(np.array([0.0, -40.0])).round(4).tolist()
    [-0.6931, -804.6084]
    """
    if place.size > QUICK:
        from scipy.special import log_ndtr

        return np.asarray(log_ndtr(place))
    return np.array([_log_phi(x) for x in place.reshape(-1).tolist()]).reshape(place.shape)


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
    """What was measured, for every level from the root.

    cells: how many lie before each place of the tree. answers: noisy counts; scales: of their noise, inf where a node
    was not measured; those of Laplace noise, or standard deviations of Gaussian noise. zero: the log-likelihood of all
    that was measured in a node if it is empty. measured: nodes that were, or of which a part was. inner: for each level
    but the last, those of which a part was.
    """

    tree: BinaryTree
    cells: Codes
    answers: Sequence[Floats]
    scales: Sequence[Floats]
    laplace: bool
    zero: Sequence[Floats]
    measured: Sequence[Flags]
    inner: Sequence[Codes]

    @classmethod
    def of(
        cls, tree: BinaryTree, sizes: Codes, answers: Sequence[Floats], scales: Sequence[Floats], *, laplace: bool
    ) -> Evidence:
        """sizes: the cells at each place of the tree."""
        zeros, seen, inner = list[Floats](), list[Flags](), list[Codes]()
        for level in range(tree.height, -1, -1):
            measured = np.isfinite(scales[level])
            zero = np.zeros(len(measured))
            zero[measured] = log_at_zero(answers[level][measured], scales[level][measured], laplace=laplace)
            if level < tree.height:
                starts = tree.halves[level][:-1]
                zero += np.add.reduceat(zeros[0], starts)
                inside = np.logical_or.reduceat(seen[0], starts)
                inner.insert(0, np.flatnonzero(inside))
                measured |= inside
            zeros.insert(0, zero)
            seen.insert(0, measured)
        cells = np.concatenate([[0], np.cumsum(sizes)])
        return cls(tree, cells, answers, scales, laplace, zeros, seen, inner)

    def own(self, level: int) -> Normal:
        """What the nodes of a level say of themselves."""
        noise = (2.0 if self.laplace else 1.0) * self.scales[level] ** 2
        return Normal(self.answers[level].copy(), np.minimum(noise, UNKNOWN, out=noise))

    def sizes(self, level: int) -> Floats:
        """How many cells the nodes of a level have."""
        return np.diff(self.cells[self.tree.begins[level]]).astype(np.float64)

    def even(self, level: int, nodes: Codes) -> Floats:
        """The share of its cells that the first half of each node has."""
        begins, first = self.tree.begins, self.tree.halves[level][nodes]
        low, high = self.cells[begins[level][nodes]], self.cells[begins[level][nodes + 1]]
        return np.asarray((self.cells[begins[level + 1][first + 1]] - low) / (high - low))

    def observed(self, level: int, nodes: Codes, mixture: Mixture) -> Mixture:
        """A mixture for each of some nodes, given their own noisy counts."""
        scale = self.scales[level][nodes]
        seen = np.isfinite(scale)
        if not seen.any():
            return mixture
        before = mixture.mean[:, seen], mixture.variance[:, seen]
        likely, *after = observe(*before, self.answers[level][nodes][seen], scale[seen], laplace=self.laplace)
        weight, mean, variance = mixture.log_weight.copy(), mixture.mean.copy(), mixture.variance.copy()
        weight[:, seen] += likely
        mean[:, seen], variance[:, seen] = after
        return Mixture(mean, variance, weight)
