"""Ends of a weighted sum of cells, from any fit that keeps what was measured.

Least squares is unbiased whatever the table is: its ends are those of its noise. Buckets count with the least and the
most that one of their cells weighs, and were chosen before they were measured. Noisy cells in which buckets were then
found say something of every sum by themselves, and so do the buckets, each with half of the tail.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.inference.fits.averages import AveragesFit
from sfumato.inference.fits.base import Fit
from sfumato.inference.fits.buckets import OverBuckets
from sfumato.inference.fits.linear import BySquares
from sfumato.inference.fits.measured.fit import innermost
from sfumato.inference.fits.noisy_cells import NoisyCells
from sfumato.inference.fits.partition import PartitionFit
from sfumato.inference.fits.shrinkage import ShrinkageFit
from sfumato.inference.fits.tree import TreeFit
from sfumato.intervals.guaranteed.along import runs_of, with_counts_along
from sfumato.intervals.guaranteed.descent import Descent
from sfumato.intervals.guaranteed.ends import ANYTHING, Ends, Find, lowest, reach
from sfumato.intervals.guaranteed.none import NONE
from sfumato.intervals.guaranteed.sums import of_sums
from sfumato.measurement import Measurement
from sfumato.queries import Ranges

MOST_KNOWN = 1024  # sums of buckets whose ends are kept


def is_exact(fit: Fit) -> bool:
    """Whether a fit's own intervals hold for every table."""
    return isinstance(fit, BySquares | NoisyCells)


def finders(fits: Sequence[Fit], domain: Domain) -> dict[str, Find]:
    """How the ends of sums are found, by statistic; those of some measures lean on those of the count, the first."""
    rows = finder(fits[0])
    return {fit.of: of_sums(fit, domain, rows) if isinstance(fit, AveragesFit) else finder(fit) for fit in fits}


def finder(fit: Fit) -> Find:
    """How the ends of sums are found from a fit; a QueryError where there are none."""
    return with_counts_along(runs_of(fit), _of_rest(innermost(fit)))


def _of_rest(fit: Fit) -> Find:
    if is_exact(fit):
        return lambda low, high, tail: _of_squares(fit, low, high, tail)
    if isinstance(fit, TreeFit):
        return Descent.of(fit).ends
    if isinstance(fit, PartitionFit):
        return _over_buckets(fit, _of_totals(fit.totals))
    if isinstance(fit, ShrinkageFit):
        return _of_both(fit)
    raise QueryError(NONE)


def _of_squares(fit: Fit, low: Floats, high: Floats, tail: float) -> Ends:
    columns = np.stack([low, high], axis=1)
    errors = fit.errors(columns)
    if errors.unknown.any():
        return ANYTHING
    rows = np.arange(len(errors.weights))
    below, above = (reach(errors.design, rows, weights, tail) for weights in errors.weights.T)
    return Ends(float(low @ fit.estimate) - below, float(high @ fit.estimate) + above)


def _over_buckets(fit: OverBuckets, totals: Find) -> Find:
    order = np.argsort(fit.labels, kind="stable")
    starts = np.append(0, np.cumsum(fit.sizes)[:-1])
    known: dict[tuple[bytes, bytes, float], Ends] = {}  # cells of one bucket, asked one by one, have the same ends

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        least, most = np.minimum.reduceat(low[order], starts), np.maximum.reduceat(high[order], starts)
        weigh = np.flatnonzero((least != 0.0) | (most != 0.0))
        key = weigh.tobytes(), np.stack([least[weigh], most[weigh]]).tobytes(), tail
        if key not in known:
            if len(known) >= MOST_KNOWN:
                known.clear()
            known[key] = totals(least, most, tail)
        return known[key]

    return find


def _of_totals(totals: Fit) -> Find:
    if not isinstance(totals, TreeFit):
        return lambda low, high, tail: _of_squares(totals, low, high, tail)
    measured, order = totals.measurement, totals.tree.order

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        return Ends(_by_largest(measured, low[order], tail), -_by_largest(measured, -high[order], tail))

    return find


def _by_largest(measured: Measurement, weights: Floats, tail: float) -> float:
    """A lower end from the largest regions in which all leaves weigh the same; what was asked hung on no noise."""
    ranges = measured.queries
    assert isinstance(ranges, Ranges)  # noqa: S101 (as every tree is measured)
    changes = np.append(0, np.cumsum(weights[1:] != weights[:-1]))
    open_ = weights != 0.0
    alike = np.flatnonzero(changes[ranges.lows] == changes[ranges.highs])
    sizes = ranges.highs[alike] - ranges.lows[alike]
    rows = []
    for size in np.unique(sizes)[::-1]:
        some = alike[sizes == size]
        some = some[np.unique(ranges.lows[some], return_index=True)[1]]
        taken = some[open_[ranges.lows[some]] & open_[ranges.highs[some]]]
        rows.append(taken)
        steps = np.bincount(ranges.lows[taken], minlength=len(weights) + 1)
        steps -= np.bincount(ranges.highs[taken] + 1, minlength=len(weights) + 1)
        open_ &= np.cumsum(steps)[:-1] == 0
    if open_.any() and weights[open_].min() < 0.0:
        return -inf
    chosen = np.concatenate(rows)
    return lowest(measured, chosen, weights[ranges.lows[chosen]], tail)


def _of_both(fit: ShrinkageFit) -> Find:
    """Cells by themselves and buckets by themselves: buckets hang on the noise of cells, so no mix of both is fresh."""
    every, buckets = _one_by_one(fit.cells), _over_buckets(fit, _one_by_one(fit.totals.measurement))

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        one, other = every(low, high, tail / 2.0), buckets(low, high, tail / 2.0)
        return Ends(max(one.low, other.low), min(one.high, other.high))

    return find


def _one_by_one(measured: Measurement) -> Find:
    """Ends from what was measured of every cell, or of every bucket, by itself."""

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        below, above = np.flatnonzero(low), np.flatnonzero(high)
        return Ends(lowest(measured, below, low[below], tail), -lowest(measured, above, -high[above], tail))

    return find
