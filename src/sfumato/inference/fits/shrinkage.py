"""Regions of cells that are halved again and again: every half is kept as far as the noisy cells show that it differs.

ISPE (Xiao, Xiong, Yuan, TR-2011-005) and DPCube (SDM 2010) measure cells and regions and let a cell learn from the
neighbours in its region. Corrected: a neighbour is no copy of the cell. Each region is halved down to its cells, and a
half is drawn towards the whole by the posterior mean of their contrast: a slope is kept where noise does not hide it,
and only what cannot be told from noise is evened out.

The estimate of cell c in region b, of size m_b, is

    x_c = X_b / m_b + sum over the halvings h around c of keep_h q_h p_hc,    X_b = (1 - lean_b) Z_b + lean_b Y_b,

with Z_b the measured total of the region, Y_b the sum of its noisy cells y, p_h the contrast of the two halves (of
length 1, summing to zero, all at right angles) and q_h = p_h . y. All of it is linear in the measured numbers, so the
law of the noise in any sum is exact. Left out is (1 - keep_h) times the true contrast, of which the size, spread_h, is
estimated. One keep and one spread serve a family of halvings. The same slope may run through all halves that the edge
of a query cuts, so what is left out of halvings of one size is taken to err together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.inference.fits.base import Errors, in_parts
from sfumato.inference.fits.linear import LinearFit
from sfumato.inference.halvings import Halvings
from sfumato.measurement import Design, Measurement
from sfumato.queries import Identity


@dataclass(frozen=True, eq=False)
class ShrinkageFit:
    """Noisy cells and noisy totals of regions, and how much of each contrast inside a region is kept.

    labels: the region of each cell, numbered from 0. order: all cells, region after region, so that halving a region's
    stretch is halving the region. lean: for each region, the weight of its cells' sum in its total. keep and spread:
    for each family of halvings. All three are kept in whole multiples of 1 / PARTS.
    """

    labels: Codes
    order: Codes
    totals: LinearFit
    cells: Measurement
    lean: Floats
    keep: Floats
    spread: Floats

    def __post_init__(self) -> None:
        for name in ("lean", "keep", "spread"):
            object.__setattr__(self, name, in_parts(np.asarray(getattr(self, name), dtype=np.float64)))
        labels, order = (np.array(given, dtype=np.int64) for given in (self.labels, self.order))
        regions = len(self.totals.estimate)
        sizes = np.bincount(labels, minlength=regions) if labels.size and labels.min() >= 0 else np.zeros(regions)
        if len(sizes) != regions or not sizes.all() or self.lean.shape != (regions,):
            raise QueryError(f"{regions} regions need labels from 0 to {regions - 1}, each at least once, and a lean")
        if order.shape != labels.shape or not np.array_equal(np.sort(order), np.arange(len(labels))):
            raise QueryError("the order of the cells has every cell once")
        if (np.diff(labels[order]) < 0).any():
            raise QueryError("the order of the cells goes through one region after another")
        for measured, rows in ((self.cells, len(labels)), (self.totals.measurement, regions)):
            if type(measured.queries) is not Identity or measured.queries.rows != rows or len(measured.noises) != 1:
                raise QueryError("cells and regions are measured each by itself, all with the same noise")
        for name, given in (("labels", labels), ("order", order)):
            given.setflags(write=False)
            object.__setattr__(self, name, given)
        families = (len(self.halvings.above),)
        if self.keep.shape != families or self.spread.shape != families:
            raise QueryError(f"{families[0]} families of halvings need as many numbers for what is kept of them")

    @property
    def of(self) -> str:
        return self.totals.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.cells, self.totals.measurement)

    @cached_property
    def sizes(self) -> Codes:
        """The number of cells in each region."""
        return np.bincount(self.labels)

    @cached_property
    def halvings(self) -> Halvings:
        return Halvings.of(self.sizes)

    @cached_property
    def estimate(self) -> Floats:
        """The estimate for every cell."""
        noisy = self.cells.answers.astype(np.float64)
        sums = np.bincount(self.labels, weights=noisy)
        totals = self.totals.estimate + self.lean * (sums - self.totals.estimate)
        return in_parts((totals / self.sizes)[self.labels] + self._kept(self._contrasts(noisy[:, None]))[:, 0])

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of cells; `columns` is (cells, sums)."""
        regions = len(self.sizes)
        sums = np.stack([np.bincount(self.labels, weights=one, minlength=regions) for one in columns.T], axis=1)
        expected = sums / self.sizes[:, None]
        contrasts = self._contrasts(columns)
        of_cells = self._kept(contrasts) + (self.lean[:, None] * expected)[self.labels]
        weights = np.concatenate([of_cells, (1.0 - self.lean)[:, None] * expected])
        which = np.repeat([0, 1], [len(self.labels), regions])
        design = Design(Identity(len(which)), (self.cells.noise, self.totals.measurement.noise), which)
        return Errors(design, weights, self._model(contrasts), np.zeros(columns.shape[1], dtype=np.bool_))

    def _model(self, contrasts: Floats) -> Floats:
        """The covariance of what is left out of sums with these contrasts."""
        left_out = ((1.0 - self.keep) * self.spread)[self.halvings.family, None] * contrasts
        apart = left_out.T @ left_out
        together, heights = np.zeros(len(apart)), self.halvings.heights
        for height in np.unique(heights):
            together += np.abs(left_out[heights == height]).sum(axis=0) ** 2
        alone = np.diagonal(apart)
        wider = np.sqrt(np.divide(together, alone, out=np.ones_like(together), where=alone > 0.0))
        return np.asarray(apart * np.outer(wider, wider), dtype=np.float64)

    def _contrasts(self, columns: Floats) -> Floats:
        return self.halvings.contrasts(columns[self.order])

    def _kept(self, contrasts: Floats) -> Floats:
        """What contrasts, each as far as it is kept, make of the cells."""
        spread_out = self.halvings.spread_out(self.keep[self.halvings.family, None] * contrasts, len(self.order))
        cells = np.empty_like(spread_out)
        cells[self.order] = spread_out
        return cells
