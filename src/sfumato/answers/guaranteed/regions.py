"""Ends of a weighted sum of cells, from what a fit keeps of its measurements.

Least squares is unbiased whatever the table is: its ends are those of its noise. Buckets count with the least and the
most that one of their cells weighs, and were chosen before they were measured. Noisy cells in which buckets were then
found say something of every sum by themselves, and so do the buckets, each with half of the tail. Which of these a fit
has is its own matter (`Fit.guaranteed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.guaranteed.ends import ANYTHING, Ends, Find, lowest, reach
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.measurement import Measurement
from sfumato.queries import Ranges

if TYPE_CHECKING:
    from sfumato.answers.fit import Fit

MOST_KNOWN = 1024  # sums of buckets whose ends are kept


def finders(fits: Sequence[Fit], domain: Domain) -> dict[str, Find]:
    """How the ends of sums are found, by statistic; those of some measures lean on those of the count, the first."""
    rows = fits[0].guaranteed(domain)
    return {fits[0].of: rows} | {fit.of: fit.guaranteed(domain, rows) for fit in fits[1:]}


def of_squares(fit: Fit) -> Find:
    """Ends of an unbiased fit: those of its noise."""

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        errors = fit.errors(np.stack([low, high], axis=1))
        if errors.unknown.any():
            return ANYTHING
        rows = np.arange(len(errors.weights))
        below, above = (reach(errors.design, rows, weights, tail) for weights in errors.weights.T)
        return Ends(float(low @ fit.estimate) - below, float(high @ fit.estimate) + above)

    return find


def over_buckets(labels: Codes, totals: Find) -> Find:
    """Ends from those of the totals of buckets. labels: the bucket of each cell."""
    order = np.argsort(labels, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(labels))[:-1])
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


def of_fixed_tree(measured: Measurement, order: Codes) -> Find:
    """Ends from a tree whose regions were all measured, whatever the noise was. order: of the leaves."""

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


def of_both(one: Find, other: Find) -> Find:
    """The nearer of two kinds of ends, each with half of the tail; no mix, as one may hang on the other's noise."""

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        first, second = one(low, high, tail / 2.0), other(low, high, tail / 2.0)
        return Ends(max(first.low, second.low), min(first.high, second.high))

    return find


def one_by_one(measured: Measurement) -> Find:
    """Ends from what was measured of every cell, or of every bucket, by itself."""

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        below, above = np.flatnonzero(low), np.flatnonzero(high)
        return Ends(lowest(measured, below, low[below], tail), -lowest(measured, above, -high[above], tail))

    return find
