"""Quantiles, minima and maxima from noisy counts: intervals by inversion of tests on the cumulative distribution.

Let C_j be the rows in the cells of the attribute up to j, and N all rows. The quantile of share p lies in cell j if the
linear answer T_j = C_j - p N is about 0 there and negative before it. Cells that may hold it are those where T_j is not
significantly below 0 and T_(j-1) not significantly above. Each cell is tested at its own level: the interval misses
only if the test of the quantile's own cell fails, so no confidence band is needed.

PERCENTILE_CONT lies between the rows of rank floor and ceiling of (N - 1) p, counted from 0: T_j > -p and T_(j-1) < 1 -
p; the minimum has C_j >= 1 and C_(j-1) < 1, the maximum the same from above.

Minima and maxima of model-based estimates (`_extreme`): a smooth model puts rows next to the last occupied cell. So the
hypothesis "all cells up to j are empty" is tested by the noisy measurements of those cells alone (`Sign`).
"""

from __future__ import annotations

from dataclasses import field
from functools import cached_property
from math import hypot, isnan, nan
from statistics import NormalDist

import numpy as np

from sfumato.answers.evaluate import RULE_OF_THREE, Evaluation
from sfumato.answers.fieller import Shared
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import ValueCounts
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.sql import Column
from sfumato.sql.plan import Quantile

AT_ONCE = 15  # places along the attribute that are tested together, then between two of them again


SECOND = 1.0 / 86_400  # in days
ROUNDS = 24  # of looking at the noise where an end seems to be


def quantiles(column: Column, rule: Quantile, evaluation: Evaluation) -> list[Estimate]:
    """Quantile with its interval for every present group."""
    search = _Search(ValueCounts.of(rule, evaluation), rule.share)
    determined = search.run()
    if not all(determined):
        evaluation.undetermined.append(column)
    present = range(len(search.along.evaluation.groups.present))
    estimates = [_estimate(search, place, determined[place], rule.whole) for place in present]
    return estimates if rule.grouped else estimates * len(evaluation.groups.present)


@dataclass(eq=False)
class _Search:
    """Search for the first and last cell that may hold the quantile, for all groups at once.

    widths: per present group, by cell, the one-sided quantiles of the noise of T_j below and above. errors: per group,
    by cell, the standard errors of T_j from noise and from model. modelled: per group, whether it has model error.
    extremes: per group, the end of the interval of a minimum or maximum by tests.
    """

    along: ValueCounts
    share: float
    widths: list[dict[int, tuple[float, float]]] = field(default_factory=list)
    errors: list[dict[int, tuple[float, float]]] = field(default_factory=list)
    modelled: list[bool] = field(default_factory=list)
    extremes: dict[int, int | None] = field(default_factory=dict)

    @cached_property
    def sums(self) -> tuple[Floats, Floats, Floats]:
        """Test statistic T_j = (1 - p) * rows up to cell j - p * rows after it, (groups, cells).

        Its value, its least and its greatest over all ways in which rows may be spread inside cells.
        """
        groups, p = self.along.evaluation.groups, self.share
        value, low, high = (part[groups.present] for part in self.along.histogram())

        def tested(below: Floats, above: Floats) -> Floats:
            rest = above.sum(axis=1, keepdims=True) - above.cumsum(axis=1)
            return np.asarray((1.0 - p) * below.cumsum(axis=1) - p * rest)

        value, low, high = tested(value, value), tested(low, high), tested(high, low)
        suppressed = self.along.evaluation.view.suppressed
        if suppressed is not None:
            shares, unseen = (part[groups.present] for part in self.along.rests)
            remainder = suppressed.remainder["count"]
            value = value + remainder * tested(shares, shares)
            before = unseen.cumsum(axis=1) > 0.5
            after = unseen.sum(axis=1, keepdims=True) - unseen.cumsum(axis=1) > 0.5
            every = self.along.everyone  # otherwise a row of the rest may not be meant at all
            least = np.where(after, -p, np.where(before & every, 1.0 - p, 0.0))
            most = np.where(before, 1.0 - p, np.where(after & every, -p, 0.0))
            low, high = low + max(remainder, 0.0) * least, high + max(remainder, 0.0) * most
        return value, low, high

    @cached_property
    def rows(self) -> Floats:
        """Estimated number of rows of each present group, (groups,)."""
        present = self.along.evaluation.groups.present
        counts, suppressed = self.along.histogram()[0][present].sum(axis=1), self.along.evaluation.view.suppressed
        if suppressed is None:
            return np.asarray(counts)
        return np.asarray(counts + suppressed.remainder["count"] * self.along.rests[0][present].sum(axis=1))

    def slack(self, index: int) -> tuple[float, float]:
        """Thresholds of T_j and T_(j-1) in the quantile's cell; with model error an estimate of 0 may be 3 rows."""
        return slack_of(self.share, float(RULE_OF_THREE) if self.modelled[index] else 1.0)

    def run(self) -> list[bool]:
        """Locate the interval's end cells of each group, iterating on the noise there; flags of groups with noise."""
        value, _, _ = self.sums
        self.widths, self.errors, self.modelled = [{} for _ in value], [{} for _ in value], [False] * len(value)
        start = np.clip((value < 0.0).sum(axis=1), 0, self.along.axis.size - 1)
        cells = np.stack([start, np.full_like(start, (self.along.axis.size - 1) // 2)])
        determined = self._look(cells)
        for _ in range(ROUNDS):
            ends = [self.ends(place) for place in range(len(determined))]
            cells = np.array(ends).T - np.array([[0], [1]])  # the high end is decided at the cell before
            cells = np.clip(cells, 0, self.along.axis.size - 1)
            new = [
                determined[place] and not {int(j) for j in cells[:, place]} <= self.widths[place].keys()
                for place in range(len(determined))
            ]
            if not any(new):
                break
            self._look(cells)
        return determined

    def ends(self, index: int) -> tuple[int, int]:
        """First and last cell of a group that may hold the quantile; noise is interpolated between computed cells."""
        _, low, high = self.sums
        widths = self.widths[index]
        if not widths:
            return 0, self.along.axis.size - 1
        where = sorted(widths)
        every = np.arange(self.along.axis.size)
        below, above = (np.interp(every, where, [widths[j][side] for j in where]) for side in (0, 1))
        at_least, at_most = self.slack(index)
        first = np.flatnonzero(high[index] + above >= at_least - 1e-9)
        last = np.flatnonzero(low[index] - below <= at_most + 1e-9)
        begin = int(first[0]) if len(first) else self.along.axis.size - 1
        end = min(int(last[-1]) + 1, self.along.axis.size - 1) if len(last) else 0
        if self.modelled[index] and self.share in (0.0, 1.0):
            if index not in self.extremes:
                self.extremes[index] = self._extreme(index)
            sure = self.extremes[index]
            if sure is not None:
                begin, end = (begin, sure) if self.share == 0.0 else (sure, end)
        return min(begin, end), max(begin, end)

    def _extreme(self, index: int) -> int | None:
        """Last cell that a group's minimum or maximum may lie in, by a multi-way search over emptiness tests.

        None where the fit keeps no measurements of regions.
        """
        evaluation, last = self.along.evaluation, self.along.axis.size - 1
        inside = (evaluation.group == evaluation.groups.present[index]) & (self.along.base.low > 1.0 - 1e-9)
        code = self.along.code if self.share == 0.0 else last - self.along.code
        level = (1.0 + evaluation.confidence) / 2.0
        empty, held = -1, last  # up to here there may be no rows; up to here there are, or the attribute ends
        while held - empty > 1:
            steps = min(held - empty, AT_ONCE + 1)
            cells = empty + (held - empty) * np.arange(1, steps, dtype=np.int64) // steps
            within = inside[:, None] & (code[:, None] <= cells)
            signs = evaluation.view.noises.signs_of_rows(within, evaluation.view.cells)
            if signs is None:
                return None
            unsure = [at for at, sign in enumerate(signs) if not sign.is_sure(level)]
            ends = [empty, *cells.tolist(), held]
            empty, held = ends[unsure[-1] + 1 if unsure else 0], ends[unsure[-1] + 2 if unsure else 1]
        return held if self.share == 0.0 else last - held

    def _look(self, cells: Codes) -> list[bool]:
        """Compute the noise quantiles of T_j at two cells for each present group; cells is (2, present groups).

        Returns which groups are determined by the measurements.
        """
        evaluation, p = self.along.evaluation, self.share
        groups = evaluation.groups
        edge = np.zeros((2, groups.number), dtype=np.int64)
        edge[:, groups.present] = cells
        sides = [
            self.along.sum(lambda group, cell, at=at: np.where(cell <= at[group], 1.0 - p, -p))  # type: ignore[misc]
            for at in edge
        ]
        determined, shared = [], Shared()
        for index, terms in enumerate(evaluation.terms(sides)):
            determined.append(terms is not None)
            if terms is None:
                continue
            noises = shared.noises(terms)
            self.modelled[index] |= bool(noises.model.any())
            for row, cell in enumerate(cells[:, index].tolist()):
                if cell not in self.widths[index]:
                    value, low, high = range(3 * row, 3 * row + 3)
                    self.widths[index][cell] = (
                        noises.width_along(low, evaluation.confidence),
                        noises.width_along(high, evaluation.confidence),
                    )
                    self.errors[index][cell] = noises.stderr(noises.weights[:, value])
        return determined

    def error(self, index: int, value: float) -> tuple[float, float]:
        """Standard errors of a quantile, from noise and from model: those of its rank over the density of rows."""
        low, high = self.values
        cell = min(int((high < value).sum()), len(high) - 1)
        before = float(self.sums[0][index, cell - 1]) if cell else -self.share * float(self.rows[index])
        rows = max(float(self.sums[0][index, cell]) - before, 1.0)
        nearest = min(self.errors[index], key=lambda at: abs(at - cell))
        unit = max(float(high[cell] - low[cell]), 1.0 if self.along.axis.discrete else 0.0)
        drawn, assumed = self.errors[index][nearest]
        return drawn * unit / rows, assumed * unit / rows

    @cached_property
    def values(self) -> tuple[Floats, Floats]:
        """Least and greatest value of each cell, (cells,)."""
        return values_along(self.along)


def slack_of(share: float, few: float) -> tuple[float, float]:
    """Least T_j and greatest T_(j-1) in the cell of a quantile. few: estimates below it may be of no row."""
    if share not in (0.0, 1.0):
        return -share, 1.0 - share
    low, high = (2.0 - few, few - 1e-6)
    return (low, high) if share == 0.0 else (-high, -low)


def values_along(along: ValueCounts) -> tuple[Floats, Floats]:
    """Least and greatest value of each cell of the attribute, (cells,), within the query's condition on it."""
    axis = along.axis
    # A cell of days ends with its last day, one of hours with its last second.
    low, high = axis.edges[:-1], axis.edges[1:] - (1.0 if axis.discrete else SECOND if axis.timed else 0.0)
    spans = [span for box in along.predicate.boxes for span in box[axis.name].spans]
    if spans:  # a condition on the attribute itself
        least, most = min(a for (a, _), _ in spans), max(b for _, (b, _) in spans)
        low, high = np.clip(low, min(least, high[-1]), None), np.clip(high, None, max(most, low[0]))
    if axis.missing:  # a cell behind all others, without any of the rows
        low, high = np.append(low, high[-1]), np.append(high, high[-1])
    return np.minimum(low, high), np.maximum(low, high)


def _estimate(search: _Search, index: int, determined: bool, whole: bool) -> Estimate:
    """Estimate of the quantile of group `index`: value, interval, and standard errors from its rank.

    determined: whether the noise of its counts is known. whole: round values of a discrete attribute down.
    """
    confidence = search.along.evaluation.confidence
    low, high = search.values
    first, last = search.ends(index)
    value = _value(search, index, first, last) if determined else nan
    if whole and search.along.axis.discrete:
        value = float(np.floor(value))
    least, most = float(low[first]), float(high[last])
    if isnan(value):
        least, most = float(low.min()), float(high.max())
    value = min(max(value, least), most) if not isnan(value) else value
    error = (most / 2.0 - least / 2.0) / NormalDist().inv_cdf((1.0 + confidence) / 2.0)
    error = min(error, float(high.max()) / 2.0 - float(low.min()) / 2.0)  # of any values between these
    model = 0.0
    if isnan(value):
        error = model = nan
    elif search.errors[index]:
        drawn, assumed = search.error(index, value)
        if most == least:  # one value alone is left, and where the error of ranks lies beside the rows that it has
            error = hypot(drawn, assumed)
        in_bins = float(high[last] - low[last]) / 12**0.5
        model = min(hypot(in_bins, error * assumed / max(hypot(drawn, assumed), 1e-300)), error)
    noise = error * max(1.0 - (model / error) ** 2, 0.0) ** 0.5 if error > 0.0 else error
    dates, timed = search.along.axis.kind == "date", search.along.axis.timed
    return Estimate(value, error, least, most, confidence, noise, model, dates, timed)


def _value(search: _Search, index: int, first: int, last: int) -> float:
    """Point estimate: zero of the monotone version of T_j, rows spread evenly in a cell.

    A minimum or maximum is the end of the interval by which rows are sure to exist.
    """
    low, high = search.values
    tested = search.sums[0][index]
    if not search.rows[index] > 0.0:
        return nan
    if search.share == 0.0:
        return float(low[last])
    if search.share == 1.0:
        return float(high[first])
    # Noisy counts go up and down; what lies between the highest so far and the lowest to come never goes down.
    before = float(search.rows[index]) * -search.share
    rising = (np.maximum.accumulate(tested) + np.minimum.accumulate(tested[::-1])[::-1]) / 2.0
    cell = min(int((rising < 0.0).sum()), len(rising) - 1)
    start = float(rising[cell - 1]) if cell else min(before, 0.0)
    climb = float(rising[cell]) - start
    part = min(max(-start / climb, 0.0), 1.0) if climb > 0.0 else 0.5
    return float(low[cell] + part * (high[cell] - low[cell]))
