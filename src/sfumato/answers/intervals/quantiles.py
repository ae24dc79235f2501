"""Quantiles with ends that hold for every table, from the ends of the counts that they are read off.

Let C_j be the rows up to cell j of the attribute and N all of them. In the cell of the quantile p, T_j = C_j - p N is
at least about 0, and T_(j-1) at most (statistics/quantiles.py). Which cell that is does not hang on noise. So where
every T_j has ends that hold, cells that these rule out are ruled out wrongly only if the ends of two T_j err, those of
the true cell and of the one before it, each with the tail asked for: all cells are tested and nothing is split.

Where that would be too many tests, cells are halved. As long as nothing was ruled out wrongly it is the true cell alone
that decides which are tested next, so each of these few tests has its part of the tail.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil, log2

import numpy as np

from sfumato.answers.evaluate import Evaluation
from sfumato.answers.guaranteed.ends import Ends
from sfumato.answers.intervals.source import Asked, Source
from sfumato.answers.statistics.along import Along
from sfumato.answers.statistics.quantiles import slack_of, values_along
from sfumato.frozen import dataclass
from sfumato.sql.statistics.rules import Quantile

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
