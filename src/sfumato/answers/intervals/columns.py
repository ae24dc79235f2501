"""Every column of an answer with ends that hold for every table, from the ends of the sums that it is made of.

A ratio N / D is r + (N - r D) / D for any r that is settled beforehand, here the middle of what is possible: sums of
two kinds, each with half of what the confidence leaves. A share A / (A + B) is least with the least A and the most B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, floor, inf, isfinite, isnan

import numpy as np

from sfumato.answers.estimate import Estimate
from sfumato.answers.evaluate import Evaluation
from sfumato.answers.guaranteed.ends import Ends
from sfumato.answers.intervals.quantiles import quantile_ends, quantile_tests
from sfumato.answers.intervals.source import Asked, Source
from sfumato.answers.statistics.arithmetic import Range, work_out
from sfumato.answers.view import Sum
from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql import Amount, Column, Formula
from sfumato.sql.statistics.rules import Quantile


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
