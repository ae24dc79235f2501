"""Bounds of weighted sums of cells that hold for every table: P(sum beyond either end) <= tail.

A bucket of a partition chosen before the buckets were measured enters with the least and the greatest weight of its
cells. Counts of runs of cells that were measured first are used on the coarsest partition on whose runs the weights are
constant (`with_counts_along`). Each fit chooses among these (`Fit.guaranteed`).

Thresholded cells (only noisy counts >= threshold are published, and the total). Upper end: n cells hold at most what is
published of them + (threshold - 1) per unpublished cell - the sum of all n noises; or at most the total less the lower
end of all other cells. Lower end: published counts are selected by their noise. For a cell with x rows let D =
published count (or 0) - x. Markov's inequality bounds the sum of all D by (sum of log E exp(a D) + log 1 / tail) / a.
An empty cell adds log E exp(a D_0), one with x rows at most k x more, so with Y rows published of n cells

    rows >= (Y - (n log E exp(a D_0) + log 1 / tail) / a) / (1 + k / a),

for any a fixed beforehand; the tail is split over a few values of a.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import ceil, exp, inf, log, log1p

import numpy as np

from sfumato.answers.guaranteed_columns import Source
from sfumato.answers.noise_sum import Ends, Find, lowest, reach_of_count
from sfumato.answers.question import Gathered, WeightRange
from sfumato.arrays import Codes, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Laplace, Measurement, Noise, shares_of_mean
from sfumato.queries import Ranges
from sfumato.sql import Amount

MOST_KNOWN = 1024  # sums of buckets whose ends are kept


def over_buckets(labels: Codes, totals: Find) -> Find:
    """Bounds from bucket totals, a bucket weighted by its least and greatest cell weight. labels: (cells,)."""
    order = np.argsort(labels, kind="stable")
    starts = np.append(0, np.cumsum(np.bincount(labels))[:-1])
    cache: dict[tuple[bytes, bytes, float], Ends] = {}  # cells of one bucket, asked one by one, have the same ends

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        least, most = np.minimum.reduceat(low[order], starts), np.maximum.reduceat(high[order], starts)
        weigh = np.flatnonzero((least != 0.0) | (most != 0.0))
        key = weigh.tobytes(), np.stack([least[weigh], most[weigh]]).tobytes(), tail
        if key not in cache:
            if len(cache) >= MOST_KNOWN:
                cache.clear()
            cache[key] = totals(least, most, tail)
        return cache[key]

    return find


def of_fixed_tree(measured: Measurement, order: Codes) -> Find:
    """Bounds from a tree whose regions were fixed before measuring. order: of the leaves, (cells,)."""

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        return Ends(_by_largest(measured, low[order], tail), -_by_largest(measured, -high[order], tail))

    return find


def _by_largest(measured: Measurement, weights: Floats, tail: float) -> float:
    """Lower bound from the largest tree regions of constant weight, greedily; weights in leaf order, (cells,)."""
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
    """Tighter of two bounds for each end, each with half of the tail.

    The two are not combined any further, because one may depend on the other's noise.
    """

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        first, second = one(low, high, tail / 2.0), other(low, high, tail / 2.0)
        return Ends(max(first.low, second.low), min(first.high, second.high))

    return find


def one_by_one(measured: Measurement) -> Find:
    """Bounds from independent measurements of every cell or bucket."""

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        below, above = np.flatnonzero(low), np.flatnonzero(high)
        return Ends(lowest(measured, below, low[below], tail), -lowest(measured, above, -high[above], tail))

    return find


@dataclass(frozen=True, eq=False)
class Runs:
    """Partition of the cells into classes (runs) with noisy counts: the class of each cell, (cells,), and the counts.

    measured: counts of all classes; where several releases measured them, one set of counts after the other.
    """

    labels: Codes
    measured: Measurement

    @property
    def number(self) -> int:
        return self.measured.queries.columns

    def lowest(self, weights: Floats, tail: float) -> float:
        """Lower bound of a weighted sum of the classes' mean counts over releases. weights: (runs,)."""
        shared = (shares_of_mean(self.measured) * weights).reshape(-1)
        return lowest(self.measured, np.arange(len(shared)), shared, tail)


def with_counts_along(counted: Sequence[Runs], others: Find) -> Find:
    """Bounds from a coarse partition's counts where weights are constant on its classes. others: bounds otherwise."""
    if not counted:
        return others
    fewest = sorted(counted, key=lambda runs: runs.number)

    def find(low: Floats, high: Floats, tail: float) -> Ends:
        for runs in fewest:
            below, above = (_alike(each, runs) for each in (low, high))
            if below is not None and above is not None:
                least, most = (runs.lowest(each, tail / 2.0) for each in (below, -above))
                otherwise = others(low, high, tail / 2.0)
                return Ends(max(otherwise.low, least), min(otherwise.high, -most))
        return others(low, high, tail)

    return find


def _alike(weights: Floats, runs: Runs) -> Floats | None:
    """Weight of each class, (runs,); None where the weights within a class differ."""
    by_run = np.empty(runs.number)
    by_run[runs.labels] = weights
    return by_run if np.array_equal(by_run[runs.labels], weights) else None


RATES = (0.05, 0.1, 0.2, 0.4, 0.7)  # a, in parts of 1 / scale: small ones serve many cells, large ones few
FAR = 60  # scales above the threshold, from where a cell is always published
MOST_ROWS = 2**18  # of a cell, up to which it is looked at how much each row adds
LEAST = -1.0 + 2.0**-53  # above -1, of which there is no logarithm


@dataclass(frozen=True)
class Thresholded:
    """Bounds of counts where only noisy counts >= threshold are published, and the noisy total.

    noise: on every cell. total: noisy number of all rows, with noise `on_total`.
    """

    threshold: int
    noise: Noise
    total: float
    on_total: Noise

    def ends(self, published: float, shown: float, cells: float, others: tuple[float, float], tail: float) -> Ends:
        """Bounds of the rows in `cells` cells, of which `shown` are published and sum to `published`.

        others: published sum and number of all other cells.
        """
        if not others[1]:
            above = reach_of_count((self.on_total,), (1,), tail)
            return Ends(self.total - above, self.total + above)
        above = reach_of_count((self.on_total,), (1,), tail / 4.0)
        by_total = self.total + above - self.least(*others, tail / 4.0)
        noise = reach_of_count((self.noise,), (int(cells),), tail / 2.0)
        by_threshold = published + (cells - shown) * (self.threshold - 1) + noise
        return Ends(self.least(published, cells, tail), min(by_total, by_threshold))

    def least(self, published: float, cells: float, tail: float) -> float:
        """Lower bound of the rows in some cells: the best of several moments a, each with its part of the tail."""
        if not isinstance(self.noise, Laplace):
            raise QueryError("a release of thresholded cells has Laplace noise; this one has another")
        scale = float(self.noise.scale)
        return max(0.0, *(self._by(a / scale, published, cells, tail / len(RATES)) for a in RATES))

    def _by(self, a: float, published: float, cells: float, tail: float) -> float:
        """Lower bound by Markov's inequality at one a."""
        assert isinstance(self.noise, Laplace)  # noqa: S101 (seen above)
        empty, further = _moments(self.threshold, float(self.noise.scale), a)
        return (published - (cells * empty - log(tail)) / a) / (1.0 + further / a)


@lru_cache(maxsize=64)
def _moments(threshold: int, scale: float, a: float) -> tuple[float, float]:
    """log E exp(a D) of an empty cell, and the largest further increase per row."""
    if threshold + FAR * scale > MOST_ROWS:
        raise QueryError(
            "the noise of this release is too large for guaranteed ends of its counts to be worked out; ask for the "
            "typical interval"
        )
    rows = np.arange(threshold + ceil(FAR * scale) + 1)
    moments = log_moments(rows, threshold, scale, a)
    return float(moments[0]), max(0.0, float(((moments[1:] - moments[0]) / rows[1:]).max()))


def log_moments(rows: Codes, threshold: int, scale: float, a: float) -> Floats:
    """log E exp(a D) of cells with so many rows; rows is (n,), the result too."""
    rate, need = exp(-1.0 / scale), (threshold - rows).astype(np.float64)
    mass = (1.0 - rate) / (1.0 + rate)
    up, down = exp(a - 1.0 / scale), exp(-a - 1.0 / scale)  # in one go: exp(a) alone may be beyond all numbers
    every = mass * (1.0 / (1.0 - up) + down / (1.0 - down))
    enough = np.maximum(need, 1.0)  # noise that publishes the cell is positive
    short = np.maximum(1.0 - need, 1.0)  # noise that does not is negative
    shown = np.where(need > 0.0, mass * up**enough / (1.0 - up), every - mass * down**short / (1.0 - down))
    hidden = np.where(need > 0.0, 1.0 - mass * rate**enough / (1.0 - rate), mass * rate**short / (1.0 - rate))
    beyond = shown + np.exp(-a * rows) * hidden - 1.0
    # Of an empty cell, E exp(a D) - 1 = E (exp(a Z) - 1; Z >= threshold): far smaller than what rounding leaves of it.
    if threshold > 0:
        beyond[0] = mass * (up**threshold / (1.0 - up) - rate**threshold / (1.0 - rate))
    return np.asarray([log1p(max(each, LEAST)) for each in beyond.tolist()])  # never less than it is


@dataclass(frozen=True, eq=False)
class FromThreshold(Source):
    """Source of bounds for counts over thresholded cells. size: cells of the domain."""

    known: Thresholded
    size: float

    @property
    def signed(self) -> bool:
        return False

    @property
    def work(self) -> int:
        return 0

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """Raise a QueryError for sums other than counts: unpublished cells would need weights."""
        if any(amount.of is not None or amount.factor != 1.0 for amount in amounts):
            raise QueryError(
                "where only cells above a threshold are published there are guaranteed intervals for counts and "
                "shares; ask for the typical interval of sums and averages"
            )

    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        """Bounds of a count over published and unpublished cells."""
        low, high = (each.get("count", np.zeros(cells.size)) for each in (query.low, query.high))
        values = cells.values["count"]
        within = float(high.sum()) + query.unseen
        others = float(values.sum() - high @ values), max(0.0, self.size - within)
        above = self.known.ends(float(high @ values), float(high.sum()), within, others, tail)
        sure = float(low @ values)
        return above if (low == high).all() else Ends(self.known.least(sure, within, tail), above.high)
