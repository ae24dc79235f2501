"""Guaranteed intervals of the columns of an answer, built from bounds of weighted sums (guaranteed_sums.py).

A ratio N / D equals r + (N - r D) / D for any fixed r, here the middle of its possible range: two sums, each with half
of the tail. A share A / (A + B) is least at the least A and the greatest B.

Quantiles: T_j = C_j - p N (quantiles.py) is at least about 0 in the cell of the quantile and T_(j-1) at most. That cell
does not depend on the noise, so it is excluded wrongly only if the bounds of T_j or T_(j-1) err: all cells are tested
and no level is split. Where that takes too many tests, each of the log2(cells) tests of a bisection gets its part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, inf, isfinite, isnan, log2
from statistics import NormalDist

import numpy as np

from sfumato.answers.distinct import settled, values_with_rows
from sfumato.answers.evaluate import Evaluation, Sum
from sfumato.answers.fit import Fit
from sfumato.answers.fitted_noise import spread_over
from sfumato.answers.formulas import work_out
from sfumato.answers.noise_sum import Ends, Find
from sfumato.answers.quantiles import slack_of, values_along
from sfumato.answers.question import Gathered, Kinds, WeightRange
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import ValueCounts
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql import Amount, Column, Formula
from sfumato.sql.plan import Distinct, Extreme, Quantile


def possible(column: Column, estimates: list[Estimate], schema: Schema) -> list[Estimate]:
    """Clip the intervals of a column to the range of values over all tables.

    A value is not taken to be further outside than one standard error, so that low noise alone bounds no count by 0.
    """
    least, most = _bounds(column, schema)
    return [_clipped(one, least, most) for one in estimates]


def _clipped(one: Estimate, least: float, most: float) -> Estimate:
    """Clip an interval to [least, most]; widened first where the value lies over one standard error outside."""
    down, up = one.value - most - one.stderr, least - one.value - one.stderr
    low, high = one.low - max(0.0, down), one.high + max(0.0, up)  # of an unknown value both are NaN, and 0 is first
    return replace(one, low=_within(low, least, most), high=_within(high, least, most))


def _within(end: float, least: float, most: float) -> float:
    """Clip a number to [least, most]."""
    return min(max(end, least), most)


def _bounds(column: Column, schema: Schema) -> tuple[float, float]:
    """Range of a column over all tables."""
    if column.rule is not None:
        return -inf, inf
    if column.denominator is not None:
        least, most = column.bounds or (-inf, inf)
        ends = sorted((least * column.scale, most * column.scale))
        return ends[0], ends[1]
    signs = {_sign(amount, schema) * (1 if column.scale >= 0.0 else -1) for amount in column.numerator}
    return (0.0 if signs <= {1} else -inf), (0.0 if signs <= {-1} else inf)


def _sign(amount: Amount, schema: Schema) -> int:
    """Sign of an amount over all tables: 1 if never negative, -1 if never positive, 0 otherwise."""
    if amount.of is None:
        least, most = 1.0, 1.0
    elif amount.of in schema.summed:
        least, most = float(schema.summed[amount.of].lower), float(schema.summed[amount.of].upper)
    else:
        below, _, above = schema.domain[amount.of].amounts
        least, most = float(below.min()), float(above.max())
    ends = sorted((least * amount.factor, most * amount.factor))
    return 1 if ends[0] >= 0.0 else -1 if ends[1] <= 0.0 else 0


class Source(ABC):
    """Source of guaranteed bounds of sums."""

    @property
    def signed(self) -> bool:
        """Whether weights may be negative."""
        return True

    @property
    @abstractmethod
    def work(self) -> int:
        """Numbers read for the bounds of one sum, besides the cells of a view."""

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """Raise a QueryError where sums of such amounts have no bounds."""
        return

    @abstractmethod
    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        """Bounds of a sum; each end is exceeded with probability at most `tail`."""

    def ends_within(self, query: WeightRange, cells: Gathered, tail: float, beyond: float) -> Ends:
        """Bounds of a sum; the lower may be any lower one where the upper is greater than `beyond`."""
        return self.ends(query, cells, tail)

    def ends_by_cell(self, tail: float, beyond: Floats) -> tuple[Floats, Floats] | None:
        """Bounds of the count of each cell of a view, (cells,), where all are known at once; `beyond` as above."""
        return None


@dataclass(frozen=True, eq=False)
class FromFits(Source):
    """Bounds from the fits of all statistics over a domain. kinds: class of each value of the mentioned attributes."""

    domain: Domain
    finders: Mapping[str, Find]
    kinds: Kinds

    @property
    def work(self) -> int:
        return self.domain.size

    def ends(self, query: WeightRange, cells: Gathered, tail: float) -> Ends:
        """Bounds of a sum: those of each statistic, with the tail split evenly between them."""
        names, parts, low, high = tuple(cells.codes), query.statistics, 0.0, 0.0
        for of in parts:
            both = np.stack([query.low[of], query.high[of]], axis=1)
            both = spread_over(self.domain, names, both if cells.many is None else self._single(both, names))
            ends = self.finders[of](both[:, 0], both[:, 1], tail / len(parts))
            low, high = low + ends.low, high + ends.high
        return Ends(low, high)

    def _single(self, weights: Floats, names: Sequence[str]) -> Floats:
        """Expand weights on merged cells to weights on single cells, (cells, k)."""
        kinds = [np.asarray(self.kinds[name]) for name in names]
        few = weights.reshape([int(kind.max(initial=0)) + 1 for kind in kinds] + [weights.shape[1]])
        return np.asarray(few[np.ix_(*kinds)]).reshape(-1, weights.shape[1])


def finders(fits: Sequence[Fit], domain: Domain) -> dict[str, Find]:
    """Bounding functions by statistic; those of measures may use that of the count, the first fit."""
    rows = fits[0].guaranteed(domain)
    return {fits[0].of: rows} | {fit.of: fit.guaranteed(domain, rows) for fit in fits[1:]}


MOST_TESTED = 256  # cells of all groups together that are tested one by one


def quantile_ends(rule: Quantile, at: Evaluation, source: Source, tail: float) -> list[Ends]:
    """Bounds of a quantile in each present group. tail: probability beyond each end."""
    along = ValueCounts.of(rule, at)
    source.refuse((along.counted,))
    groups = along.evaluation.groups
    low, high = values_along(along)
    one_by_one = along.axis.size * len(groups.present) <= MOST_TESTED
    bounds = []
    for number in groups.present:
        first, last = _Cells(along, rule.share, int(number), source).ends(tail, one_by_one=one_by_one)
        bounds.append(Ends(float(low[first]), float(high[last])))
    return bounds if rule.grouped else bounds * len(at.groups.present)


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of an attribute that may hold the quantile of one group."""

    along: ValueCounts
    share: float
    group: int
    source: Source

    def ends(self, tail: float, *, one_by_one: bool) -> tuple[int, int]:
        """First and last cell that the tests do not exclude: all cells tested, or bisection."""
        last = self.along.axis.size - 1
        at_least, at_most = slack_of(self.share, 1.0)
        levels = 1 if one_by_one else max(1, ceil(log2(last + 1)))

        def enough(cell: int) -> bool:
            return cell == last or self._tested(cell, tail / levels).high >= at_least - 1e-9

        def too_many(cell: int) -> bool:
            return cell == last or not self._tested(cell, tail / levels).low <= at_most + 1e-9

        if one_by_one:
            begin = next(cell for cell in range(last + 1) if enough(cell))
            end = next((cell + 1 for cell in range(last - 1, -1, -1) if not too_many(cell)), 0)
        else:
            begin, end = _halving(enough, last), _halving(too_many, last)
        return min(begin, end), max(begin, end)

    def _tested(self, cell: int, tail: float) -> Ends:
        """Bounds of T_j, from one signed sum or else from two counts."""
        p, cells = self.share, self.along.evaluation.view.cells
        if self.source.signed:
            return self.source.ends(self._asked(cell, 1.0 - p, -p), cells, tail)
        parts = [(1.0 - p, (1.0, 0.0)), (-p, (0.0, 1.0))]
        some = [(weight, which) for weight, which in parts if weight]
        low = high = 0.0
        for weight, which in some:
            ends = self.source.ends(self._asked(cell, *which), cells, tail / len(some))
            both = weight * max(ends.low, 0.0), weight * max(ends.high, 0.0)
            low, high = low + min(both), high + max(both)
        return Ends(low, high)

    def _asked(self, cell: int, before: float, beyond: float) -> WeightRange:
        """Weights of `before` on the rows up to a cell and `beyond` on the rows after it."""
        mine = (self.along.evaluation.group == self.group).astype(np.float64)
        weights = self.along.sum(lambda group, code: np.where(code <= cell, before, beyond)).split["count"]
        sides = np.where(np.arange(self.along.axis.size) <= cell, before, beyond)
        unseen = float(np.abs(sides) @ self.along.rests[1][self.group])
        low, high = ({"count": np.asarray(end * mine)} for end in (weights.low, weights.high))
        return WeightRange(low, high, unseen)


def _halving(holds: Callable[[int], bool], last: int) -> int:
    """Bisection: the first index for which a monotone predicate holds; it holds for the last."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def guaranteed(
    column: Column, estimates: list[Estimate], at: Evaluation, source: Source, beyond: Sequence[float] | None = None
) -> list[Estimate]:
    """Replace the intervals of a column's estimates by guaranteed ones, for every present group.

    beyond: for each group, a limit; where the upper end exceeds it, the lower end need not be the best.
    """
    bounds = _Columns(at, source).ends(column, (1.0 - at.confidence) / 2.0, beyond)
    found = [with_ends(one, ends_around_value(one, ends)) for one, ends in zip(estimates, bounds, strict=True)]
    return [settled(one) for one in found] if isinstance(column.rule, Distinct) else found


def ends_around_value(typical: Estimate, ends: Ends) -> Ends:
    """Extend the bounds to include the reported value."""
    if isnan(typical.value):
        return ends
    return Ends(min(ends.low, typical.value), max(ends.high, typical.value))


def narrower(
    typical: Sequence[Estimate], sure: Sequence[Estimate], wide: Sequence[Estimate], narrow: Sequence[Estimate]
) -> list[Estimate]:
    """Choose pairwise the guaranteed estimate where its interval is narrower, else the typical one.

    wide, narrow: the typical and the guaranteed estimates clipped to the possible range, on which they are compared.
    """
    each = zip(typical, sure, wide, narrow, strict=True)
    return [other if b.high - b.low < a.high - a.low else one for one, other, a, b in each]


def sums_tested(column: Column, groups: int, domain: Domain) -> int:
    """Number of sums bounded for the guaranteed intervals of a column in so many groups."""
    if isinstance(column.rule, Formula | Extreme):
        return sum(sums_tested(part, groups, domain) for part in column.rule.columns)
    if isinstance(column.rule, Distinct):
        return groups * len(column.rule.predicates)
    if isinstance(column.rule, Quantile):
        size = domain[column.rule.of].size
        tested = size if size * groups <= MOST_TESTED else 2 * max(1, ceil(log2(size)))
        return 4 * groups * tested  # a cell costs two sums, and as much again to lay out their weights
    return groups if column.denominator is None else 2 * groups


@dataclass(frozen=True, eq=False)
class _Columns:
    """Guaranteed bounds of columns of any kind, for every present group."""

    at: Evaluation
    source: Source

    def ends(self, column: Column, tail: float, beyond: Sequence[float] | None = None) -> list[Ends]:
        """Bounds of a column in each present group; each end is exceeded with probability at most `tail`.

        beyond: for each group, an upper end of a sum beyond which its lower one is not needed.
        """
        if isinstance(column.rule, Formula):
            return self._formula(column, column.rule, tail)
        if isinstance(column.rule, Extreme):
            return [ends * Ends(column.scale, column.scale) for ends in self._extreme(column.rule, tail)]
        if isinstance(column.rule, Quantile):
            scale = Ends(column.scale, column.scale)
            return [ends * scale for ends in quantile_ends(column.rule, self.at, self.source, tail)]
        if isinstance(column.rule, Distinct):
            counts = column.rule.counts
            by_value = [self.ends(count, tail / len(counts)) for count in counts]
            present = len(self.at.groups.present)
            numbers = [values_with_rows([ends[place] for ends in by_value]) for place in range(present)]
            return [Ends(*number) * Ends(column.scale, column.scale) for number in numbers]
        if column.rule is not None:
            raise QueryError(
                f"{column.name} has no guaranteed interval in a release that was fitted: variances have typical ones "
                "only; ask for quantiles, or for the counts that it is read off"
            )
        if column.denominator is None:
            present = len(self.at.groups.present)
            limits = beyond if beyond is not None and column.scale == 1.0 else [inf] * present
            bounds = self._by_cell(column.numerator, tail, limits) or [
                self._sum(one, tail, limit) for one, limit in zip(self._asked(column.numerator), limits, strict=True)
            ]
        else:
            top, bottom = self._asked(column.numerator), self._asked(column.denominator)
            bounds = [self._ratio(one, other, column, tail / 2.0) for one, other in zip(top, bottom, strict=True)]
        ends = [one * Ends(column.scale, column.scale) for one in bounds]
        return [whole(one) for one in ends] if column.kind == "count" and column.scale == 1.0 else ends

    def _sum(self, query: WeightRange, tail: float, beyond: float = inf) -> Ends:
        """Bounds of a sum, clipped at 0 where counts have weights of one sign.

        Noise that took a count below 0 does not bound it by 0: the bound is that of a count one standard error below
        (power-constrained limits: Cowan, Cranmer, Gross, Vitells 2011).
        """
        bounds = self.source.ends_within(query, self.at.view.cells, tail, beyond)
        counts = query.statistics == ("count",)
        least = 0.0 if counts and query.low["count"].min(initial=0.0) >= 0.0 else -inf
        most = 0.0 if counts and query.high["count"].max(initial=0.0) <= 0.0 and not query.unseen else inf
        return _clip(bounds, least, most, tail)

    def _by_cell(self, amounts: tuple[Amount, ...], tail: float, limits: Sequence[float]) -> list[Ends] | None:
        """Bounds of a count of all rows in groups of one cell each, where the source knows all at once."""
        side, cells = self.at.sum_of(amounts), self.at.group
        counts = side.split.get("count")
        one_each = np.array_equal(np.sort(cells), self.at.groups.present)
        if counts is None or len(side.split) > 1 or side.whole or not side.exact or side.unseen.any() or not one_each:
            return None
        if (counts.value != 1.0).any():
            return None
        order = np.argsort(cells)
        found = self.source.ends_by_cell(tail, np.asarray(limits)[np.argsort(order)])
        if found is None:
            return None
        both = zip(*(end[order].tolist() for end in found), strict=True)
        return [_clip(Ends(low, high), 0.0, inf, tail) for low, high in both]

    def _ratio(self, top: WeightRange, bottom: WeightRange, column: Column, tail: float) -> Ends:
        """Bounds of a ratio: a share by its two disjoint counts, any other by r + (N - r D) / D."""
        least, most = column.bounds or (-inf, inf)
        exact = all((asked.low[of] == asked.high[of]).all() for asked in (top, bottom) for of in asked.low)
        if column.kind == "share" and exact:
            inside, beside = self._sum(top, tail), self._sum(bottom.less(top), tail)
            low, high = max(inside.low, 0.0), max(beside.low, 0.0)
            return Ends(_share(low, beside.high), _share(max(inside.high, low), high, of_nothing=1.0))
        middle = (least + most) / 2.0 if exact and isfinite(least) and isfinite(most) else 0.0
        above, below = self._sum(top.less(bottom, middle), tail), self._sum(bottom, tail)
        ratio = above / below + Ends(middle, middle)
        return Ends(max(ratio.low, least), min(ratio.high, most))

    def _formula(self, column: Column, rule: Formula, tail: float) -> list[Ends]:
        """Bounds of a formula by interval arithmetic; the tail is split evenly between its parts."""
        by_column = {one: self.ends(one, tail / len(rule.columns)) for one in rule.columns}

        def in_group(place: int) -> Ends:
            return work_out(rule, lambda part: Ends(part, part) if isinstance(part, float) else by_column[part][place])

        return [in_group(place) for place in range(len(self.at.groups.present))]

    def _extreme(self, rule: Extreme, tail: float) -> list[Ends]:
        """Bounds of the greatest or least of several columns, whose bounds hold together (Bonferroni)."""
        parts = [self.ends(one, tail / len(rule.columns)) for one in rule.columns]
        choose = max if rule.greatest else min
        groups = zip(*parts, strict=True)
        return [Ends(choose(one.low for one in ends), choose(one.high for one in ends)) for ends in groups]

    def _asked(self, amounts: tuple[Amount, ...]) -> list[WeightRange]:
        """Weights of a sum, for every present group."""
        self.source.refuse(amounts)
        side = self.at.sum_of(amounts)
        result = []
        for number in self.at.groups.present:
            mine = (self.at.group == number).astype(np.float64)
            low = _weights(side, "low", mine)
            high = low if side.exact else _weights(side, "high", mine)
            result.append(WeightRange(low, high, float(side.unseen[number])))
        return result


def _clip(bounds: Ends, least: float, most: float, tail: float) -> Ends:
    """Clip bounds of a sum to the possible range, but keep a width that low noise cannot shrink (`_Columns._sum`)."""
    high, errors = bounds.high, -NormalDist().inv_cdf(tail)
    if least == 0.0 and errors > 1.0 and bounds.low > -inf and high < inf:
        high = max(high, (high - bounds.low) / 2.0 * (1.0 - 1.0 / errors))
    return Ends(max(bounds.low, least), max(min(high, most), least))


def _weights(side: Sum, end: str, mine: Floats) -> dict[str, Floats]:
    """Weights of the cells in one group by statistic, (cells,); mine: indicator of the group's cells, (cells,)."""
    result: dict[str, Floats] = {}
    for kind, mask in ((side.split, mine), (side.whole, np.ones_like(mine))):
        for of, weights in kind.items():
            result[of] = result.get(of, np.zeros_like(mine)) + getattr(weights, end) * mask
    return result


def whole(ends: Ends) -> Ends:
    """Round the bounds of a count outwards to whole numbers."""
    return Ends(*(turn(end) if isfinite(end) else end for turn, end in ((floor, ends.low), (ceil, ends.high))))


def with_ends(estimate: Estimate, ends: Ends) -> Estimate:
    """Estimate with guaranteed bounds in place of its own interval.

    The standard error is at most that of a normal error whose interval reaches the farther end; `noise` and `model`
    keep their proportion.
    """
    guaranteed = replace(estimate, low=ends.low, high=ends.high)
    z = NormalDist().inv_cdf((1.0 + estimate.confidence) / 2.0)
    most = max(ends.high - estimate.value, estimate.value - ends.low) / z
    if most < estimate.stderr:  # neither is NaN
        kept = most / estimate.stderr  # 0 of an infinite one
        noise, model = (error * kept if isfinite(error) else most for error in (estimate.noise, estimate.model))
        guaranteed = replace(guaranteed, stderr=most, noise=noise, model=model)
    return guaranteed if estimate.real is None else replace(guaranteed, real=guaranteed.excludes_zero)


def _share(part: float, other: float, of_nothing: float = 0.0) -> float:
    """part / (part + other), with limits at infinity and at 0 / 0."""
    if part == inf:
        return 1.0 if other < inf else of_nothing
    return part / (part + other) if part + other > 0.0 else of_nothing
