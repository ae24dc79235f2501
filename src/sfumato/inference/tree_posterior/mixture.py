"""Mixtures of normal distributions of how many rows nodes hold: one mixture for each of several nodes.

Three operations: the posterior over the components, the one normal distribution with a mixture's moments, and the
mixture conditioned on what the parent knows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.tree_posterior.observation import log_normal

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
