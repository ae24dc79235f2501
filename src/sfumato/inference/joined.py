"""Neighbouring parts whose noisy totals do not tell them apart, joined into regions.

A partition that was chosen through noise has more parts than the data ask for. After they are measured, two neighbours
whose densities differ by less than their noise explains are taken as one even region. It is post-processing and costs
no privacy. All totals are then fitted again by least squares as if regions were even. What a region's unevenness does
to that fit is known up to the unevenness itself: `leaks` says with which weight every part enters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.domain import Codes
from sfumato.inference.fits import Errors, Floats, in_parts
from sfumato.measurement import Measurement

MOST_JOINED = 400  # parts, for which matrices are written out
ALIKE = 3.0  # standard deviations between the densities of two neighbours: hardly one pair in 400 that is alike is more
ONE_BY_ONE = 24  # pairs, below which they are joined one at a time


@dataclass(frozen=True, eq=False)
class Joined:
    """Least squares for the totals of regions, each made of even parts.

    measurement: of the totals of parts, in their order. regions: the region of each part, rising from 0. sizes: the
    cells of each part.
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
    def _whole(self) -> Floats:
        return np.asarray(np.bincount(self.regions, weights=self.sizes), dtype=np.float64)

    @cached_property
    def _asked(self) -> Floats:
        """What was asked of the parts, as queries on the totals of even regions."""
        spread = np.zeros((len(self.sizes), len(self._whole)))
        spread[np.arange(len(self.sizes)), self.regions] = self.sizes / self._whole[self.regions]
        return np.asarray(self.measurement.queries @ spread, dtype=np.float64)

    @cached_property
    def _covariance(self) -> Floats:
        weighed = self._asked / self.measurement.design.sizes[:, None]
        return np.asarray(np.linalg.inv(self._asked.T @ weighed), dtype=np.float64)

    @cached_property
    def estimate(self) -> Floats:
        """The total of each region."""
        weighed = self.measurement.answers / self.measurement.design.sizes
        return in_parts(self._covariance @ (self._asked.T @ weighed))

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of regions' totals; `columns` is (regions, sums)."""
        design, sums = self.measurement.design, columns.shape[1]
        weights = (self._asked @ (self._covariance @ columns)) / design.sizes[:, None]
        return Errors(design, weights, np.zeros((sums, sums)), np.zeros(sums, dtype=bool))

    def leaks(self, columns: Floats) -> Floats:
        """With which weight each part's true total enters the estimates of weighted sums of regions' totals."""
        return np.asarray(self.measurement.queries.T @ self.errors(columns).weights, dtype=np.float64)

    @cached_property
    def contrasts(self) -> Floats:
        """Between each region and the next: the difference of their densities, in its own standard deviations."""
        covariance = self._covariance / np.outer(self._whole, self._whole)
        variance = np.diagonal(covariance)
        between = variance[1:] + variance[:-1] - 2.0 * np.diagonal(covariance, 1)
        apart = np.abs(np.diff(self.estimate / self._whole))
        return np.asarray(apart / np.sqrt(np.maximum(between, 1e-300)), dtype=np.float64)


def join_alike(measurement: Measurement, sizes: Codes, alike: float = ALIKE) -> Joined:
    """Join neighbours, the most alike first, until all that are left differ by more than so many deviations."""
    joined = Joined(measurement, np.arange(len(sizes)), sizes)
    while len(joined.estimate) > 1:
        low = np.where(joined.contrasts < alike, joined.contrasts, np.inf)
        if np.isinf(low).all():
            break
        if len(low) < ONE_BY_ONE:
            join = np.arange(len(low)) == low.argmin()
        else:  # all pairs that are more alike than the pairs beside them
            before, after = np.append(np.inf, low[:-1]), np.append(low[1:], np.inf)
            join = (low <= before) & (low < after)
        joined = Joined(measurement, np.append(0, np.cumsum(~join))[joined.regions], sizes)
    return joined
