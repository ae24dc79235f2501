"""Cells that were put together into regions: what is measured, what is taken for granted, and what that is off by.

DAWA (Li, Hay, Miklau, VLDB 2014), DPCube (Xiao, Xiong, Yuan, SDM 2010) and ISPE (TR-2011-005) all measure regions of
cells that look alike and spread a region's total over its cells. Corrected: the papers' estimates carry the noise only.
Here they also carry the unevenness of the region, which no noise shows and which was measured or estimated too.

The estimate of cell c in region b is

    x_c = p_c X_b + keep_b (y_c - p_c Y_b),    X_b = (1 - lean_b) Z_b + lean_b Y_b,

with Z_b the fitted total of the region, y_c the noisy cell and Y_b the sum of noisy cells, where cells were measured at
all, and p_c the share of the region's total that is expected in the cell, even if nothing else is given. Everything is
linear in the measured numbers, so the law of the noise in any sum is exact, dependence included. What is left out is (1
- keep_b) times the region's true unevenness: a pattern that sums to zero, of which the size is known and the shape is
not. For weights w its variance is taken as spread_b^2 times the variance of w under p: right for unevenness without any
pattern, and for one that leans to one side it is calibrated to half of the region (spread_b / 2 is the error of a
half). Where a query cuts many regions, the same slope or ridge may run through all of them, so their errors are
correlated.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.inference.fits import Errors, Linear, in_parts
from sfumato.inference.tree_fit import TreeFit
from sfumato.measurement import Design, Measurement
from sfumato.queries import Identity

# The correlation of two regions' errors in one sum: a slope that a query cuts may run through all regions it cuts.
# With less, intervals for boxes of a smooth table of several attributes held the truth in too few releases.
TOGETHER = 1.0


@dataclass(frozen=True, eq=False)
class Regional:
    """Totals of regions, spread over their cells, and corrected by noisy cells where there are any.

    labels: the region of each cell, numbered from 0. totals: the fit of the regions' totals, by least squares or as a
    posterior over their tree. spread: for each region, the size of its unevenness, in steps of the statistic. mass:
    whole numbers in proportion to what is expected in each cell of a region; None for evenness. cells: noisy cells;
    with them keep and lean, per region, between 0 and 1. besides: measured only in order to know the spread. Spread,
    keep and lean are kept in whole multiples of 1 / PARTS.
    """

    labels: Codes
    totals: Linear | TreeFit
    spread: Floats
    mass: Codes | None = None
    cells: Measurement | None = None
    keep: Floats | None = None
    lean: Floats | None = None
    besides: tuple[Measurement, ...] = field(default=())

    def __post_init__(self) -> None:
        regions = len(self.totals.estimate)
        none = np.zeros(regions)
        for name in ("spread", "keep", "lean"):
            given = getattr(self, name)
            object.__setattr__(self, name, in_parts(none if given is None else np.asarray(given, dtype=np.float64)))
        labels = np.array(self.labels, dtype=np.int64)
        sizes = np.bincount(labels, minlength=regions) if labels.size and labels.min() >= 0 else none
        if len(sizes) != regions or not sizes.all():
            raise QueryError(f"{regions} regions need labels from 0 to {regions - 1}, each at least once")
        if any(part.shape != (regions,) for part in (self.spread, self.keep, self.lean)):  # type: ignore[union-attr]
            raise QueryError(f"{regions} regions need as many numbers for their spread, keep and lean")
        if self.mass is not None and (self.mass.shape != labels.shape or self.mass.min() < 0):
            raise QueryError("the mass of a region's cells is a whole number of 0 or more for each cell")
        if self.cells is not None and type(self.cells.queries) is not Identity:
            raise QueryError("noisy cells are a measurement of every cell by itself")
        if self.cells is None and (self._keep.any() or self._lean.any()):
            raise QueryError("only noisy cells can be kept or leaned on")
        labels.setflags(write=False)
        object.__setattr__(self, "labels", labels)

    @property
    def of(self) -> str:
        return self.totals.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        cells = () if self.cells is None else (self.cells,)
        return (*cells, *self.totals.measurements, *self.besides)

    @cached_property
    def shares(self) -> Floats:
        """What part of its region's total is expected in each cell."""
        weights = np.ones(len(self.labels)) if self.mass is None else self.mass.astype(np.float64)
        whole = self._by_region(weights[:, None])[:, 0]
        sizes = np.bincount(self.labels)
        # A region without mass is taken as even: nothing was expected in any of its cells.
        even = np.where(whole > 0.0, 0.0, 1.0 / sizes)[self.labels]
        return np.asarray(weights / np.where(whole > 0.0, whole, 1.0)[self.labels] + even, dtype=np.float64)

    @cached_property
    def estimate(self) -> Floats:
        """The estimate for every cell."""
        total = self.totals.estimate
        if self.cells is None:
            return in_parts(self.shares * total[self.labels])
        noisy = self.cells.answers.astype(np.float64)
        sums = self._by_region(noisy[:, None])[:, 0]
        total = total + self._lean * (sums - total)
        kept = self._keep[self.labels] * (noisy - self.shares * sums[self.labels])
        return in_parts(self.shares * total[self.labels] + kept)

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of cells; `columns` is (cells, sums)."""
        expected = self._by_region(self.shares[:, None] * columns)
        of_regions = expected * (1.0 - self._lean)[:, None]
        totals = self.totals.errors(of_regions)
        model = self._model(columns) + totals.model
        if self.cells is None:
            return Errors(totals.design, totals.weights, model, totals.unknown)
        apart = self._keep[self.labels, None] * (columns - expected[self.labels])
        weights = np.concatenate([apart + (self._lean[:, None] * expected)[self.labels], totals.weights])
        return Errors(_together(self.cells.design, totals.design), weights, model, totals.unknown)

    def _model(self, columns: Floats) -> Floats:
        """The covariance of what the regions' unevenness adds to sums of cells."""
        expected = self._by_region(self.shares[:, None] * columns)
        unexplained = ((1.0 - self._keep) * self.spread) ** 2
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

    @property
    def _keep(self) -> Floats:
        assert self.keep is not None  # noqa: S101 (set when made)
        return self.keep

    @property
    def _lean(self) -> Floats:
        assert self.lean is not None  # noqa: S101 (set when made)
        return self.lean

    def _by_region(self, columns: Floats) -> Floats:
        """Sums over the cells of each region."""
        regions = len(self.totals.estimate)
        return np.stack([np.bincount(self.labels, weights=one, minlength=regions) for one in columns.T], axis=1)


def _together(first: Design, second: Design) -> Design:
    """Two designs as one list of noises, row after row; what was asked of different cells is not told."""
    rows = first.queries.rows, second.queries.rows
    which = [_places(design, count) for design, count in zip((first, second), rows, strict=True)]
    codes: NDArray[np.int64] = np.concatenate([which[0], which[1] + len(first.noises)])
    return Design(Identity(sum(rows)), first.noises + second.noises, codes)


def _places(design: Design, rows: int) -> NDArray[np.int64]:
    return np.zeros(rows, dtype=np.int64) if design.which is None else design.which
