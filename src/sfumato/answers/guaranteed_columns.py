"""Ends of intervals that any table can have: no count is negative, and no sum of amounts that never are.

The value is left as it is. A count of -3 says that noise took more than there was; as 0 it would be off to one side,
and sums and averages of many such values would be off by as much as all of them together.

What a content is asked for ends that hold whatever its table is like.

Quantiles with ends that hold for every table, from the ends of the counts that they are read off.

Let C_j be the rows up to cell j of the attribute and N all of them. In the cell of the quantile p, T_j = C_j - p N is
at least about 0, and T_(j-1) at most (answers/quantiles.py). Which cell that is does not hang on noise. So where
every T_j has ends that hold, cells that these rule out are ruled out wrongly only if the ends of two T_j err, those of
the true cell and of the one before it, each with the tail asked for: all cells are tested and nothing is split.

Where that would be too many tests, cells are halved. As long as nothing was ruled out wrongly it is the true cell alone
that decides which are tested next, so each of these few tests has its part of the tail.

Every column of an answer with ends that hold for every table, from the ends of the sums that it is made of.

A ratio N / D is r + (N - r D) / D for any r that is settled beforehand, here the middle of what is possible: sums of
two kinds, each with half of what the confidence leaves. A share A / (A + B) is least with the least A and the most B.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, floor, inf, isfinite, isnan, log2
from typing import ClassVar, Protocol

import numpy as np

from sfumato.answers.evaluate import Evaluation, Sum
from sfumato.answers.fitted_noise import spread_over
from sfumato.answers.formulas import Range, work_out
from sfumato.answers.noise_sum import Ends, Find
from sfumato.answers.quantiles import slack_of, values_along
from sfumato.answers.question import Gathered, Kinds
from sfumato.answers.results import Estimate
from sfumato.answers.spreads import Along
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql import Amount, Column, Formula
from sfumato.sql.plan import Quantile


def possible(column: Column, found: list[Estimate], schema: Schema) -> list[Estimate]:
    """Estimates of a column with ends within what is possible."""
    least, most = _bounds(column, schema)
    return [replace(one, low=_within(one.low, least, most), high=_within(one.high, least, most)) for one in found]


def _within(end: float, least: float, most: float) -> float:
    return min(max(end, least), most)


def _bounds(column: Column, schema: Schema) -> tuple[float, float]:
    """What a column cannot leave, whatever the table holds."""
    if column.rule is not None:
        return -inf, inf
    if column.denominator is not None:
        least, most = column.bounds or (-inf, inf)
        ends = sorted((least * column.scale, most * column.scale))
        return ends[0], ends[1]
    signs = {_sign(amount, schema) * (1 if column.scale >= 0.0 else -1) for amount in column.numerator}
    return (0.0 if signs <= {1} else -inf), (0.0 if signs <= {-1} else inf)


def _sign(amount: Amount, schema: Schema) -> int:
    """1 where it is never negative, -1 where it is never positive, 0 where it can be either."""
    if amount.of is None:
        least, most = 1.0, 1.0
    elif amount.of in schema.measures:
        least, most = float(schema.measures[amount.of].lower), float(schema.measures[amount.of].upper)
    else:
        below, _, above = schema.domain[amount.of].amounts
        least, most = float(below.min()), float(above.max())
    ends = sorted((least * amount.factor, most * amount.factor))
    return 1 if ends[0] >= 0.0 else -1 if ends[1] <= 0.0 else 0


@dataclass(frozen=True, eq=False)
class Asked:
    """One sum for one group: weights on the cells that a view shows, by statistic; and on what it does not show.

    low, high: what each cell weighs at least and at most. unseen: how many cells that are not shown may belong to it.
    """

    low: Mapping[str, Floats]
    high: Mapping[str, Floats]
    unseen: float = 0.0

    @property
    def statistics(self) -> tuple[str, ...]:
        """Those that weigh anything."""
        return tuple(of for of in self.low if self.low[of].any() or self.high[of].any())

    def less(self, other: Asked, factor: float = 1.0) -> Asked:
        """This sum less a factor times another of which no cell is cut."""
        of_any = dict.fromkeys((*self.low, *other.low))

        def apart(mine: Mapping[str, Floats], theirs: Mapping[str, Floats]) -> dict[str, Floats]:
            return {of: np.asarray(mine.get(of, 0.0) - factor * theirs.get(of, 0.0)) for of in of_any}

        return Asked(apart(self.low, other.low), apart(self.high, other.high), self.unseen - factor * other.unseen)


class Source(Protocol):
    """Finds the ends of sums. signed: also of those in which some cells weigh less than nothing."""

    signed: ClassVar[bool]

    @property
    def work(self) -> int:
        """How many numbers are looked at for the ends of one sum, besides the cells of a view."""

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """A QueryError where sums of such amounts have no ends."""

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        """Between which the truth lies; `tail` is the probability that it lies beyond, for each end."""


@dataclass(frozen=True, eq=False)
class FromFits:
    """Ends from fits of all statistics, over the cells of a domain; kinds: of values that a question tells apart."""

    signed: ClassVar[bool] = True

    domain: Domain
    finders: Mapping[str, Find]
    kinds: Kinds

    @property
    def work(self) -> int:
        return self.domain.size

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """Every sum has ends."""

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        names, parts = tuple(cells.codes), asked.statistics
        found = Ends(0.0, 0.0)
        for of in parts:
            both = np.stack([asked.low[of], asked.high[of]], axis=1)
            both = spread_over(self.domain, names, both if cells.many is None else self._single(both, names))
            found += self.finders[of](both[:, 0], both[:, 1], tail / len(parts))
        return found

    def _single(self, weights: Floats, names: Sequence[str]) -> Floats:
        """Weights of cells that were taken together, as those of single cells."""
        kinds = [np.asarray(self.kinds[name]) for name in names]
        few = weights.reshape([int(kind.max(initial=0)) + 1 for kind in kinds] + [weights.shape[1]])
        return np.asarray(few[np.ix_(*kinds)]).reshape(-1, weights.shape[1])


MOST_TESTED = 256  # cells of all groups together that are tested one by one


def quantile_ends(rule: Quantile, at: Evaluation, source: Source, tail: float) -> list[Ends]:
    """The values between which the quantile of each present group lies. tail: beyond each end."""
    along = Along.of(rule, at)
    source.refuse((along.counted,))
    groups = along.evaluation.groups
    low, high = values_along(along)
    one_by_one = along.axis.size * len(groups.present) <= MOST_TESTED
    found = []
    for number in groups.present:
        first, last = _Cells(along, rule.share, int(number), source).ends(tail, one_by_one=one_by_one)
        found.append(Ends(float(low[first]), float(high[last])))
    return found if rule.grouped else found * len(at.groups.present)


def quantile_tests(size: int, groups: int) -> int:
    """How many sums the quantiles of so many groups are worth, of an attribute of so many values.

    A cell that is tested takes two sums, and as much again to lay out the weights of each.
    """
    tested = size if size * groups <= MOST_TESTED else 2 * max(1, ceil(log2(size)))
    return 4 * groups * tested


@dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of an attribute that may hold the quantile of one group."""

    along: Along
    share: float
    group: int
    source: Source

    def ends(self, tail: float, *, one_by_one: bool) -> tuple[int, int]:
        """The first and the last of them."""
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
        """The ends of T_j, in one piece where cells may weigh less than nothing, otherwise from two counts."""
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

    def _asked(self, cell: int, before: float, beyond: float) -> Asked:
        """The rows up to a cell and beyond it, each times a number."""
        mine = (self.along.evaluation.group == self.group).astype(np.float64)
        weights = self.along.sum(lambda group, code: np.where(code <= cell, before, beyond)).split["count"]
        sides = np.where(np.arange(self.along.axis.size) <= cell, before, beyond)
        unseen = float(np.abs(sides) @ self.along.rests[1][self.group])
        low, high = ({"count": np.asarray(end * mine)} for end in (weights.low, weights.high))
        return Asked(low, high, unseen)


def _halving(holds: Callable[[int], bool], last: int) -> int:
    """The first cell of which something holds, if it holds of all beyond it; of the last it does."""
    low, high = 0, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return high


def guaranteed(column: Column, found: list[Estimate], at: Evaluation, source: Source) -> list[Estimate]:
    """The estimates of a column, for every present group, with guaranteed ends. found: with typical ones."""
    each = _Columns(at, source).ends(column, (1.0 - at.confidence) / 2.0)
    return [with_ends(one, around(one, ends)) for one, ends in zip(found, each, strict=True)]


def around(typical: Estimate, ends: Ends) -> Ends:
    """Ends that the value shown lies between, so that no reader wonders."""
    if isnan(typical.value):
        return ends
    return Ends(min(ends.low, typical.value), max(ends.high, typical.value))


def narrower(
    typical: Sequence[Estimate], sure: Sequence[Estimate], wide: Sequence[Estimate], narrow: Sequence[Estimate]
) -> list[Estimate]:
    """Of every two estimates the one with a guaranteed interval where that is narrower, otherwise the typical one.

    wide, narrow: both, with the part of their intervals that is possible, by which they are compared.
    """
    each = zip(typical, sure, wide, narrow, strict=True)
    return [other if b.high - b.low < a.high - a.low else one for one, other, a, b in each]


def sums_tested(column: Column, groups: int, domain: Domain) -> int:
    """How many sums have their ends worked out for the guaranteed intervals of a column, in so many groups."""
    if isinstance(column.rule, Formula):
        return sum(sums_tested(part, groups, domain) for part in column.rule.columns)
    if isinstance(column.rule, Quantile):
        return quantile_tests(domain[column.rule.of].size, groups)
    return groups if column.denominator is None else 2 * groups


@dataclass(frozen=True, eq=False)
class _Columns:
    at: Evaluation
    source: Source

    def ends(self, column: Column, tail: float) -> list[Ends]:
        if isinstance(column.rule, Formula):
            return self._formula(column, column.rule, tail)
        if isinstance(column.rule, Quantile):
            return self._scaled(quantile_ends(column.rule, self.at, self.source, tail), column.scale)
        if column.rule is not None:
            raise QueryError(
                f"{column.name} has no guaranteed interval in a release that was fitted: variances have typical ones "
                "only; ask for quantiles, or for the counts that it is read off"
            )
        top = self._asked(column.numerator)
        if column.denominator is None:
            found = [self._sum(one, tail) for one in top]
        else:
            bottom = self._asked(column.denominator)
            found = [self._ratio(one, other, column, tail / 2.0) for one, other in zip(top, bottom, strict=True)]
        ends = self._scaled(found, column.scale)
        return [whole(one) for one in ends] if column.kind == "count" and column.scale == 1.0 else ends

    def _scaled(self, found: list[Ends], scale: float) -> list[Ends]:
        spans = [Range(one.low, one.high) * Range(scale, scale) for one in found]
        return [Ends(one.low, one.high) for one in spans]

    def _sum(self, asked: Asked, tail: float) -> Ends:
        found = self.source.ends(asked, self.at.view.cells, tail)
        counts = asked.statistics == ("count",)
        least = 0.0 if counts and asked.low["count"].min(initial=0.0) >= 0.0 else -inf
        most = 0.0 if counts and asked.high["count"].max(initial=0.0) <= 0.0 and not asked.unseen else inf
        return Ends(max(found.low, least), max(min(found.high, most), least))

    def _ratio(self, top: Asked, bottom: Asked, column: Column, tail: float) -> Ends:
        least, most = column.bounds or (-inf, inf)
        exact = all((asked.low[of] == asked.high[of]).all() for asked in (top, bottom) for of in asked.low)
        if column.kind == "share" and exact:
            inside, beside = self._sum(top, tail), self._sum(bottom.less(top), tail)
            low, high = max(inside.low, 0.0), max(beside.low, 0.0)
            return Ends(_share(low, beside.high), _share(max(inside.high, low), high, of_nothing=1.0))
        middle = (least + most) / 2.0 if exact and isfinite(least) and isfinite(most) else 0.0
        above, below = self._sum(top.less(bottom, middle), tail), self._sum(bottom, tail)
        ratio = Range(above.low, above.high) / Range(below.low, below.high) + Range(middle, middle)
        return Ends(max(ratio.low, least), min(ratio.high, most))

    def _formula(self, column: Column, rule: Formula, tail: float) -> list[Ends]:
        each = {one: self.ends(one, tail / len(rule.columns)) for one in rule.columns}
        found = []
        for place in range(len(self.at.groups.present)):

            def span(part: Column | float, place: int = place) -> Range:
                ends = Ends(part, part) if isinstance(part, float) else each[part][place]
                return Range(ends.low, ends.high)

            one = work_out(rule, span)
            found.append(Ends(one.low, one.high))
        return found

    def _asked(self, amounts: tuple[Amount, ...]) -> list[Asked]:
        """The weights of a sum, for every present group."""
        self.source.refuse(amounts)
        side = self.at.sum_of(amounts)
        found = []
        for number in self.at.groups.present:
            mine = (self.at.group == number).astype(np.float64)
            low, high = (_weights(side, end, mine) for end in ("low", "high"))
            found.append(Asked(low, high, float(side.unseen[number])))
        return found


def _weights(side: Sum, end: str, mine: Floats) -> dict[str, Floats]:
    """What each cell weighs in one group, by statistic."""
    found: dict[str, Floats] = {}
    for kind, mask in ((side.split, mine), (side.whole, np.ones_like(mine))):
        for of, weights in kind.items():
            found[of] = found.get(of, np.zeros_like(mine)) + getattr(weights, end) * mask
    return found


def whole(ends: Ends) -> Ends:
    """Counts are whole; outwards, so that nothing is lost by it."""
    return Ends(*(turn(end) if isfinite(end) else end for turn, end in ((floor, ends.low), (ceil, ends.high))))


def with_ends(one: Estimate, ends: Ends) -> Estimate:
    """An estimate with guaranteed ends instead of its own."""
    real = None if one.real is None else bool(ends.low > 0.0 or ends.high < 0.0)
    return replace(one, low=ends.low, high=ends.high, real=real)


def _share(part: float, other: float, of_nothing: float = 0.0) -> float:
    """part / (part + other)."""
    if part == inf:
        return 1.0 if other < inf else of_nothing
    return part / (part + other) if part + other > 0.0 else of_nothing
