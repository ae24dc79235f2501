"""Cells that were put together into regions: what is measured, what is taken for granted, and what that is off by.

DAWA (Li, Hay, Miklau, VLDB 2014) measures regions of cells that look alike and spreads a region's total evenly over its
cells. Corrected: the paper's estimates carry the noise only. Here they also carry the unevenness of the region, which
no noise shows and which was measured or estimated too.

The estimate of cell c in region b, of m_b cells, is Z_b / m_b, with Z_b the fitted total of the region. Everything is
linear in the measured numbers, so the law of the noise in any sum is exact, dependence included. What is left out is
the region's true unevenness: a pattern that sums to zero, of which the size is known and the shape is not. For weights
w its variance is taken as spread_b^2 times the variance of w over the region's cells: right for unevenness without any
pattern, and for one that leans to one side it is calibrated to half of the region (spread_b / 2 is the error of a
half). Where a query cuts many regions, the same slope or ridge may run through all of them, so their errors are
correlated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.inference.fits.base import Errors, in_parts
from sfumato.inference.fits.linear import LinearFit
from sfumato.inference.fits.tree import TreeFit
from sfumato.measurement import Measurement

# The correlation of two regions' errors in one sum: a slope that a query cuts may run through all regions it cuts.
# With less, intervals for boxes of a smooth table of several attributes held the truth in too few releases.
TOGETHER = 1.0


@dataclass(frozen=True, eq=False)
class PartitionFit:
    """Totals of regions, spread evenly over their cells.

    labels: the region of each cell, numbered from 0. totals: the fit of the regions' totals, by least squares or as a
    posterior over their tree. spread: for each region, the size of its unevenness, in steps of the statistic, kept in
    whole multiples of 1 / PARTS. besides: measured only in order to know the spread.
    """

    labels: Codes
    totals: LinearFit | TreeFit
    spread: Floats
    besides: tuple[Measurement, ...] = field(default=())

    def __post_init__(self) -> None:
        regions = len(self.totals.estimate)
        object.__setattr__(self, "spread", in_parts(np.asarray(self.spread, dtype=np.float64)))
        labels = np.array(self.labels, dtype=np.int64)
        sizes = np.bincount(labels, minlength=regions) if labels.size and labels.min() >= 0 else np.zeros(regions)
        if len(sizes) != regions or not sizes.all():
            raise QueryError(f"{regions} regions need labels from 0 to {regions - 1}, each at least once")
        if self.spread.shape != (regions,):
            raise QueryError(f"{regions} regions need as many numbers for their spread")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)

    @property
    def of(self) -> str:
        return self.totals.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (*self.totals.measurements, *self.besides)

    @cached_property
    def shares(self) -> Floats:
        """What part of its region's total is expected in each cell."""
        return np.asarray((1.0 / np.bincount(self.labels))[self.labels], dtype=np.float64)

    @cached_property
    def estimate(self) -> Floats:
        """The estimate for every cell."""
        return in_parts(self.shares * self.totals.estimate[self.labels])

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of cells; `columns` is (cells, sums)."""
        totals = self.totals.errors(self._by_region(self.shares[:, None] * columns))
        return Errors(totals.design, totals.weights, self._model(columns) + totals.model, totals.unknown)

    def _model(self, columns: Floats) -> Floats:
        """The covariance of what the regions' unevenness adds to sums of cells."""
        expected = self._by_region(self.shares[:, None] * columns)
        unexplained = self.spread**2
        by_cell = (unexplained[self.labels] * self.shares)[:, None]
        apart = columns.T @ (by_cell * columns) - expected.T @ (unexplained[:, None] * expected)
        each = unexplained[:, None] * (self._by_region(self.shares[:, None] * columns**2) - expected**2)
        each = np.maximum(each, 0.0)  # rounding may leave a variance of nothing below zero
        alone = each.sum(axis=0)
        np.fill_diagonal(apart, alone)
        # A query that cuts many regions may miss the same way in all of them: their errors are taken as correlated.
        ratio = np.divide(np.sqrt(each).sum(axis=0) ** 2, alone, out=np.ones_like(alone), where=alone > 0.0)
        wider = np.sqrt(1.0 + TOGETHER * (ratio - 1.0))
        return np.asarray(apart * np.outer(wider, wider), dtype=np.float64)

    def _by_region(self, columns: Floats) -> Floats:
        """Sums over the cells of each region."""
        regions = len(self.totals.estimate)
        return np.stack([np.bincount(self.labels, weights=one, minlength=regions) for one in columns.T], axis=1)
