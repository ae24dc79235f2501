"""Confidence bounds for sums of cells from adaptive counts of a tree, valid for every rule of descent.

The noise of a count decides what is measured next, so that, given what was measured, noises are not centred: a node
that was not refined has a negative noise more often than not. What holds for every rule is that a node's noise is fresh
when the node is asked for. So rounds of counts are gone through in the order of measurement; whether a node enters,
with which weight and with which share of the error probability, depends on queries up to its own round only.

Lower bound for sum_c w_c x_c. The nodes of the first round partition the cells; each enters with the least weight of
its cells. The remainder of the weights is not negative; in later rounds a node enters if the remainder is constant on
it and not yet covered. A remainder that is never covered counts as zero. Nodes of one round are disjoint, with
independent noises, and their quantile is that of the exact distribution of the weighted noise sum. The last round that
is needed gets all of the error probability left, earlier ones half of it. The upper bound is the negative of the lower
bound for -w; a sum within one node is also at most the largest weight times that node's upper bound.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import numpy as np

from sfumato.answers.noise_sum import Ends, lowest, reach
from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.queries import Ranges


@dataclass(frozen=True, eq=False)
class Descent:
    """Counts of a tree in the order of measurement; rounds: row numbers of counts measured at once."""

    order: Codes
    measured: Measurement
    ranges: Ranges
    rounds: tuple[Codes, ...]

    @classmethod
    def of(cls, measured: Measurement, order: Codes) -> Descent:
        """Counts of a tree, grouped into rounds; order: the cells from left to right."""
        assert isinstance(measured.queries, Ranges)  # noqa: S101 (as every tree is measured)
        return cls(order, measured, measured.queries, tuple(rounds_of(measured.queries)))

    def ends(self, low: Floats, high: Floats, tail: float) -> Ends:
        """Confidence limits of a sum; tail: error probability of each end.

        low, high: lower and upper bound of each cell's weight, (cells,).
        """
        least, most = low[self.order], high[self.order]
        inside = self._around(most, tail / 2.0)
        return Ends(self._lower(least, tail), min(-self._lower(-most, tail / 2.0), inside))

    def _lower(self, weights: Floats, tail: float) -> float:
        """Lower confidence limit of sum_c weights_c x_c, (cells,) weights in tree order."""
        first = self.rounds[0][np.argsort(self.ranges.lows[self.rounds[0]])]
        starts, ends = self.ranges.lows[first], self.ranges.highs[first] + 1
        if starts[0] or (starts[1:] != ends[:-1]).any() or ends[-1] < len(weights):
            return 0.0 if weights.min() >= 0.0 else -inf  # something was not measured at first
        least = np.minimum.reduceat(weights, starts)
        beyond = weights - np.repeat(least, ends - starts)
        bound, left, needed = 0.0, tail, beyond > 0.0
        if least.any():
            share = left / 2.0 if needed.any() else left
            term, left = lowest(self.measured, first[least != 0.0], least[least != 0.0], share), left - share
            bound = max(term, 0.0) if least.min() >= 0.0 else term  # counts are not negative
        for rows in self.rounds[1:]:
            if not needed.any():
                break
            alike = self._alike(rows, beyond, needed)
            needed &= ~self._inside(alike)
            if len(alike):
                share = left / 2.0 if needed.any() else left
                bound += max(lowest(self.measured, alike, beyond[self.ranges.lows[alike]], share), 0.0)
                left -= share
        return bound

    def _alike(self, rows: Codes, beyond: Floats, needed: Flags) -> Codes:
        """Nodes of a round on which the remaining weight is constant and wholly uncovered."""
        lows, highs = self.ranges.lows[rows], self.ranges.highs[rows]
        changes = np.append(0, np.cumsum(beyond[1:] != beyond[:-1]))
        count = np.append(0, np.cumsum(needed))
        taken = (changes[lows] == changes[highs]) & (count[highs + 1] - count[lows] == highs - lows + 1)
        return np.asarray(rows[taken])

    def _inside(self, rows: Codes) -> Flags:
        """Mask of the cells in some nodes, (cells,)."""
        steps = np.zeros(len(self.order) + 1, dtype=np.int64)
        np.add.at(steps, self.ranges.lows[rows], 1)
        np.add.at(steps, self.ranges.highs[rows] + 1, -1)
        return np.asarray(np.cumsum(steps)[:-1] > 0)

    def _around(self, weights: Floats, tail: float) -> float:
        """Upper confidence limit from nodes that contain every cell of non-zero weight.

        The k-th such node gets 1 / k (k + 1) of the error probability. weights: (cells,), in tree order.
        """
        weigh = np.flatnonzero(weights)
        if not len(weigh) or weights.min() < 0.0:
            return inf if len(weigh) else 0.0
        around = np.flatnonzero((self.ranges.lows <= weigh[0]) & (self.ranges.highs >= weigh[-1]))
        one = np.ones(1)
        reaches = [reach(self.measured.design, around[k : k + 1], one, _part(tail, k)) for k in range(len(around))]
        most = float((self.measured.answers[around] + np.array(reaches)).min(initial=inf))
        return float(weights.max()) * max(0.0, most)


def _part(tail: float, earlier: int) -> float:
    """Share of the error probability of the k-th of a sequence: tail / ((k + 1)(k + 2)), which sums to the tail."""
    return tail / ((earlier + 1) * (earlier + 2))


def rounds_of(ranges: Ranges) -> Iterator[Codes]:
    """Split the counts of a descent into runs of disjoint nodes, by doubling and bisection.

    A node that overlaps one of its run was asked for after it. Queries within or around a node depend on noises of
    earlier runs only, so that the noises of one run are independent given these (models/tree/descent.py).
    """
    start, rows = 0, ranges.rows
    while start < rows:
        step, end = 1, start + 1
        while end < rows and _disjoint(ranges, start, min(end + step, rows)):
            end, step = min(end + step, rows), 2 * step
        while step > 1:
            step //= 2
            if end + step <= rows and _disjoint(ranges, start, end + step):
                end += step
        yield np.arange(start, end)
        start = end


def _disjoint(ranges: Ranges, start: int, end: int) -> bool:
    """Whether the ranges with these row numbers are pairwise disjoint."""
    order = np.argsort(ranges.lows[start:end], kind="stable")
    lows, highs = ranges.lows[start:end][order], ranges.highs[start:end][order]
    return bool((lows[1:] > highs[:-1]).all())
