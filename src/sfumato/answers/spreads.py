"""Variances and standard deviations from noisy counts by bins.

With N rows, M the sum of their bin midpoints and S the sum of squared midpoints, the variance of the midpoints is S / N
- (M / N)^2, a function of three noisy sums (function_interval.py). A row lies within half a bin of its midpoint, so the
interval of the standard deviation is widened by the root mean square of half a bin. The value is that of the midpoints:
rows spread evenly in each bin would have a variance larger by width^2 / 12, rows of a smooth density one smaller by as
much (Sheppard 1898).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from math import hypot, inf, isfinite, isnan, nan, sqrt

import numpy as np

from sfumato.answers.evaluate import Evaluation, Sum, Terms
from sfumato.answers.fieller import Functional, Interval, Term, ratio_interval
from sfumato.answers.function_interval import function_interval
from sfumato.answers.question import ByStatistic, Groups, Weights, cell_weights
from sfumato.answers.results import Estimate
from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql import Amount, Column
from sfumato.sql.plan import Quantile, Spread

Factor = Callable[[Codes, Codes], Floats]  # of groups and of cells along the attribute

MOST_BY_GROUP = 2**24  # counts of all groups by value that are laid out at once
EVERY_ROW = Groups((), (), np.zeros(1, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class ValueCounts:
    """Rows of a predicate by group and by cell of one attribute."""

    evaluation: Evaluation
    predicate: Predicate
    axis: Axis

    @classmethod
    def of(cls, rule: Quantile | Spread, evaluation: Evaluation) -> ValueCounts:
        """Rows that a quantile or variance is about; all groups merged where GROUP BY does not split it."""
        if not rule.grouped:
            evaluation = replace(evaluation, groups=EVERY_ROW)
        axis = evaluation.view.schema.domain[rule.of]
        if evaluation.groups.number * axis.size > MOST_BY_GROUP:
            raise QueryError(
                f"quantiles and variances of {axis.name} lay out {evaluation.groups.number * axis.size:,} counts here "
                f"and {MOST_BY_GROUP:,} is the most; group by fewer attributes"
            )
        return cls(evaluation, rule.predicate, axis)

    @property
    def counted(self) -> Amount:
        """Amount that counts the rows."""
        return Amount(self.predicate, None)

    @cached_property
    def code(self) -> Codes:
        """Code of each gathered cell along the attribute, (cells,)."""
        return np.asarray(self.evaluation.view.cells.codes[self.axis.name], dtype=np.int64)

    @cached_property
    def base(self) -> Weights:
        """Weights of the gathered cells in the count of the rows."""
        cells = self.evaluation.view.cells
        return cell_weights(self.counted, self.evaluation.view.schema, cells.codes, cells.size)["count"]

    @cached_property
    def rests(self) -> tuple[Floats, Floats]:
        """Share of the suppressed remainder, and number of suppressed cells, each (groups, axis size)."""
        groups = self.evaluation.groups
        shares, unseen = (np.zeros((groups.number, self.axis.size)) for _ in range(2))
        suppressed, cells = self.evaluation.view.suppressed, self.evaluation.view.cells
        if suppressed is not None:
            for cell in range(self.axis.size):
                here = Predicate.where(self.axis.name, self.axis.values_in(cell))
                amount = replace(self.counted, predicate=self.predicate & here)
                rest = suppressed.rest_weights(amount, cells, groups, self.evaluation.group)
                shares[:, cell], unseen[:, cell] = rest.weights["count"].value, rest.unseen
        return shares, unseen

    @cached_property
    def everyone(self) -> bool:
        """Whether the predicate covers all rows of the table, so that the whole remainder belongs to it."""
        return not self.evaluation.groups.names and not self.predicate.names and bool(self.predicate)

    def sum(self, factor: Factor) -> Sum:
        """Weights of a sum over the rows, each times factor(group, value)."""
        groups = self.evaluation.groups
        split: ByStatistic = {"count": times(self.base, factor(self.evaluation.group, self.code))}
        if self.evaluation.view.suppressed is None:
            return Sum(split, {}, {}, np.zeros(groups.number))
        shares, unseen = self.rests
        group, cell = np.divmod(np.arange(groups.number * self.axis.size), self.axis.size)
        factors = factor(group, cell).reshape(shares.shape)
        low, high = (
            end(factors, axis=1, where=unseen > 0.5, initial=edge)
            for end, edge in ((np.min, np.inf), (np.max, -np.inf))
        )
        some = unseen.sum(axis=1) > 0.5
        if not self.everyone:
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
        rest = Weights((shares * factors).sum(axis=1), np.where(some, low, 0.0), np.where(some, high, 0.0))
        return Sum(split, {}, {"count": rest}, unseen.sum(axis=1))

    def histogram(self) -> tuple[Floats, Floats, Floats]:
        """Noisy counts by group and value, (groups, axis size) each, without the suppressed cells' rows.

        Three tables: cells that the condition cuts are weighed by their estimated, least and greatest share."""
        groups, values = self.evaluation.groups, self.evaluation.view.cells.values["count"]
        index = self.evaluation.group * self.axis.size + self.code
        size = groups.number * self.axis.size
        value, low, high = (
            np.asarray(np.bincount(index, weights=part * values, minlength=size), dtype=np.float64)
            for part in (self.base.value, self.base.low, self.base.high)
        )
        shape = groups.number, self.axis.size
        return value.reshape(shape), low.reshape(shape), high.reshape(shape)


def times(base: Weights, factor: Floats) -> Weights:
    """Multiply weights by a factor for each cell, (cells,); low and high swap where it is negative."""
    if base.exact:
        return Weights.exactly(base.value * factor)
    ends = base.low * factor, base.high * factor
    return Weights(base.value * factor, np.where(factor > 0, *ends), np.where(factor > 0, *reversed(ends)))


def by_factor(weights: ByStatistic, factor: Floats) -> ByStatistic:
    """Multiply the weights of every statistic by a factor for each cell, (cells,)."""
    return {of: times(one, factor) for of, one in weights.items()}


def spreads(column: Column, rule: Spread, evaluation: Evaluation) -> list[Estimate]:
    """Variance or standard deviation with its interval for every present group."""
    along = ValueCounts.of(rule, evaluation)
    at = along.evaluation
    low, middle, high = along.axis.amounts
    centre = _centres(along, middle)  # squares of large numbers would cost digits
    half = (high - low) / 2.0
    sums = [
        at.sum_of((along.counted,)),
        along.sum(lambda group, cell: middle[cell] - centre[group]),
        along.sum(lambda group, cell: (middle[cell] - centre[group]) ** 2),
        along.sum(lambda _group, cell: half[cell] ** 2),
    ]
    values = [at.values_of(one) for one in sums]
    estimates = []
    for group, terms in zip(at.groups.present, at.terms(sums), strict=True):
        if terms is None:
            evaluation.undetermined.append(column)
        numbers = [Functional(*(float(part[group]) for part in each)) for each in values]
        bins = float(half.min()), float(half.max())
        estimates.append(_estimate(numbers, terms, rule, at.confidence, bins, float(high.max() - low.min())))
    return estimates if rule.grouped else estimates * len(evaluation.groups.present)


def _centres(along: ValueCounts, middle: Floats) -> Floats:
    """Approximate mean of each group, (groups,), to centre the squares."""
    counts = np.maximum(along.histogram()[0], 0.0)
    total = counts.sum(axis=1)
    return np.where(total > 0.0, counts @ middle / np.where(total > 0.0, total, 1.0), middle.mean())


def _estimate(
    sums: list[Functional], terms: Terms, rule: Spread, confidence: float, bins: tuple[float, float], span: float
) -> Estimate:
    """Estimate of one group's variance or standard deviation.

    sums: N, M, S and the sum of squared half widths. bins: half the width of the narrowest and of the widest bin. span:
    range of the attribute.
    """
    less = 1.0 if rule.sample else 0.0
    most = span / (sqrt(2.0) if rule.sample else 2.0)  # two rows, at either end
    reach = widest = bins[1]

    def variance(x: Floats) -> tuple[float, Floats]:
        rows, first, second = x[0], x[1], x[2]
        divisor = rows - less
        value = (second - first**2 / rows) / divisor
        along = np.array([(first / rows) ** 2 - value, -2.0 * first / rows, 1.0, 0.0]) / divisor
        return float(value), along

    def rows_left(x: Floats) -> tuple[float, Floats]:
        return float(x[0] - less), np.array([1.0, 0.0, 0.0, 0.0])

    determined = terms is not None and sums[0].value > less
    value = sqrt(max(variance(np.array([one.value for one in sums]))[0], 0.0)) if determined else nan
    interval = (
        function_interval(variance, [rows_left], sums, terms, confidence) if terms is not None and determined else None
    )
    if interval is None or terms is None:
        interval = Interval(nan, nan, 0.0, inf, nan)
    elif bins[0] < widest:
        # Of bins of several widths: their mean square, as far as it is sure.
        parts = [
            replace(
                Term.of(term.noise, term.multiplicity, *term.weights[9:], *term.weights[:3]),
                model=term.model,
                far=term.far,
            )
            for term in terms
        ]
        reach = sqrt(min(ratio_interval(sums[3], sums[0], parts, confidence, (0.0, widest**2)).high, widest**2))
    wider = reach * (sqrt(sums[0].value / (sums[0].value - less)) if determined else 1.0)
    low = max(sqrt(max(interval.low, 0.0)) - wider, 0.0)
    high = min(sqrt(max(interval.high, 0.0)) + wider, most)
    value = min(value, most)
    noise, model = (high - low) / 4.0, wider / sqrt(3.0)  # as wide as what is possible, where no more is known
    if value > 0.0 and isfinite(interval.noise):
        noise, model = interval.noise / (2.0 * value), hypot(interval.model / (2.0 * value), model)
    if isnan(value):
        noise = model = nan
    if rule.root:
        return Estimate(value, hypot(noise, model), low, high, confidence, noise, model)
    noise, model = 2.0 * value * noise, 2.0 * value * model
    return Estimate(value * value, hypot(noise, model), low * low, high * high, confidence, noise, model)
