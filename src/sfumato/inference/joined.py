"""Neighbouring regions whose noisy totals do not tell them apart, joined: fewer numbers, each from more evidence.

A partition that was chosen through noise has more regions than the data ask for. After the regions are measured, two
neighbours whose densities differ by less than their noise explains are taken as one even region, and all totals are
fitted again by least squares under that assumption. It is post-processing and costs no privacy; what the assumption is
off by belongs into the spread of the joined region.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.domain import Codes
from sfumato.inference.fits import Errors, Floats, in_parts
from sfumato.measurement import Measurement

MOST_JOINED = 1024  # regions, for which matrices are written out
ALIKE = 3.0  # standard deviations between the densities of two neighbours: hardly one pair in 400 that is alike is more
ONE_BY_ONE = 24  # regions, below which pairs are joined one at a time


@dataclass(frozen=True, eq=False)
class Joined:
    """Least squares for the totals of joined regions.

    measurement: of the totals of parts. regions: the region of each part, rising. sizes: the cells of each part; a
    region is even, so a part of it holds what its size says.
    """

    measurement: Measurement
    regions: Codes
    sizes: Codes

    @property
    def of(self) -> str:
        return self.measurement.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.measurement,)

    @cached_property
    def _asked(self) -> Floats:
        """What was asked of the parts, as queries on the totals of regions."""
        whole = np.bincount(self.regions, weights=self.sizes)
        spread = np.zeros((len(self.sizes), len(whole)))
        spread[np.arange(len(self.sizes)), self.regions] = self.sizes / whole[self.regions]
        return np.asarray(self.measurement.queries @ spread, dtype=np.float64)

    @cached_property
    def _covariance(self) -> Floats:
        variances = self.measurement.design.variances
        return np.linalg.inv(self._asked.T @ (self._asked / variances[:, None]))

    @cached_property
    def estimate(self) -> Floats:
        """The total of each region."""
        weighed = self.measurement.answers / self.measurement.design.variances
        return in_parts(self._covariance @ (self._asked.T @ weighed))

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of regions' totals; `columns` is (regions, sums)."""
        design, sums = self.measurement.design, columns.shape[1]
        weights = (self._asked @ (self._covariance @ columns)) / design.variances[:, None]
        return Errors(design, weights, np.zeros((sums, sums)), np.zeros(sums, dtype=bool))

    def contrasts(self) -> Floats:
        """Between each region and the next: the difference of their densities in its own standard deviations."""
        whole = np.bincount(self.regions, weights=self.sizes)
        density = self.estimate / whole
        covariance = self._covariance / np.outer(whole, whole)
        variance = np.diagonal(covariance)
        between = variance[1:] + variance[:-1] - 2.0 * np.diagonal(covariance, 1)
        return np.asarray(np.abs(np.diff(density)) / np.sqrt(np.maximum(between, 1e-300)), dtype=np.float64)


def join_alike(measurement: Measurement, sizes: Codes, alike: float = ALIKE) -> Joined:
    """Join neighbours, the most alike first, until all that are left differ by more than so many deviations."""
    joined = Joined(measurement, np.arange(len(sizes)), sizes)
    while len(joined.estimate) > 1:
        contrasts = joined.contrasts()
        low = np.where(contrasts < alike, contrasts, np.inf)
        if np.isinf(low).all():
            break
        if len(low) < ONE_BY_ONE:
            join = np.arange(len(low)) == low.argmin()
        else:  # all pairs that are more alike than the pairs beside them
            before, after = np.append(np.inf, low[:-1]), np.append(low[1:], np.inf)
            join = (low <= before) & (low < after)
        renumbered = np.append(0, np.cumsum(~join))
        joined = Joined(measurement, renumbered[joined.regions], sizes)
    return joined
