"""Ends from a tree whose every measurement was decided by earlier ones.

Noise decides what is measured next, so noises are not what they seem once one knows what was measured: a region that
was not looked into any further has, more often than not, noise below zero. What holds for every rule by which a tree
is descended is this: a region's noise is fresh when it is asked for. So regions are gone through in the order in which
they were measured, and whether one counts, with which weight and with which share of the tail, is settled by what was
*asked* until then, itself included, and never by what is asked later.

Let w be the weights of the cells. The regions that were measured first hold every cell once; each counts with the least
weight of its cells. What a cell weighs beyond that is never negative. It is added by the first region around it in
which all cells weigh the same beyond it. What no such region holds is at least nothing. So the sum of all these regions
is, noise aside, a lower end; the upper one is the lower end of the negative weights, turned round. Regions measured at
once are disjoint, with independent noises of known sizes, and reach as far as their exact distribution says. Those of
the last round needed get all that is left of the tail, earlier ones half of what is left.

A sum that lies inside one region is also at most that region, times the largest weight.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.noise_sum import Ends, lowest, reach
from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.queries import Ranges

if TYPE_CHECKING:
    from sfumato.models.tree.fit import TreeFit


@dataclass(frozen=True, eq=False)
class Descent:
    """A measured tree. rounds: the rows that were measured at once, in order."""

    order: Codes
    measured: Measurement
    ranges: Ranges
    rounds: tuple[Codes, ...]

    @classmethod
    def of(cls, fit: TreeFit) -> Descent:
        assert isinstance(fit.measurement.queries, Ranges)  # noqa: S101 (as every tree is measured)
        ranges = fit.measurement.queries
        return cls(fit.tree.order, fit.measurement, ranges, tuple(rounds_of(ranges)))

    def ends(self, low: Floats, high: Floats, tail: float) -> Ends:
        """Between which the sum lies. low, high: what each cell weighs at least and at most. tail: beyond each end."""
        least, most = low[self.order], high[self.order]
        inside = self._around(most, tail / 2.0)
        return Ends(self._lower(least, tail), min(-self._lower(-most, tail / 2.0), inside))

    def _lower(self, weights: Floats, tail: float) -> float:
        first = self.rounds[0][np.argsort(self.ranges.lows[self.rounds[0]])]
        starts, ends = self.ranges.lows[first], self.ranges.highs[first] + 1
        if starts[0] or (starts[1:] != ends[:-1]).any() or ends[-1] < len(weights):
            return 0.0 if weights.min() >= 0.0 else -inf  # something was not measured at first
        least = np.minimum.reduceat(weights, starts)
        beyond = weights - np.repeat(least, ends - starts)
        found, left, needed = 0.0, tail, beyond > 0.0
        if least.any():
            share = left / 2.0 if needed.any() else left
            part, left = lowest(self.measured, first[least != 0.0], least[least != 0.0], share), left - share
            found = max(part, 0.0) if least.min() >= 0.0 else part  # counts are not negative
        for rows in self.rounds[1:]:
            if not needed.any():
                break
            alike = self._alike(rows, beyond, needed)
            needed &= ~self._inside(alike)
            if len(alike):
                share = left / 2.0 if needed.any() else left
                found += max(lowest(self.measured, alike, beyond[self.ranges.lows[alike]], share), 0.0)
                left -= share
        return found

    def _alike(self, rows: Codes, beyond: Floats, needed: Flags) -> Codes:
        """The regions all of whose cells are needed and weigh the same."""
        lows, highs = self.ranges.lows[rows], self.ranges.highs[rows]
        changes = np.append(0, np.cumsum(beyond[1:] != beyond[:-1]))
        count = np.append(0, np.cumsum(needed))
        taken = (changes[lows] == changes[highs]) & (count[highs + 1] - count[lows] == highs - lows + 1)
        return np.asarray(rows[taken])

    def _inside(self, rows: Codes) -> Flags:
        """The cells of some regions."""
        steps = np.zeros(len(self.order) + 1, dtype=np.int64)
        np.add.at(steps, self.ranges.lows[rows], 1)
        np.add.at(steps, self.ranges.highs[rows] + 1, -1)
        return np.asarray(np.cumsum(steps)[:-1] > 0)

    def _around(self, weights: Floats, tail: float) -> float:
        """The most that regions around everything that weighs allow; the k-th has 1 / k (k + 1) of the tail."""
        weigh = np.flatnonzero(weights)
        if not len(weigh) or weights.min() < 0.0:
            return inf if len(weigh) else 0.0
        around = np.flatnonzero((self.ranges.lows <= weigh[0]) & (self.ranges.highs >= weigh[-1]))
        one = np.ones(1)
        reaches = [reach(self.measured.design, around[k : k + 1], one, _part(tail, k)) for k in range(len(around))]
        most = float((self.measured.answers[around] + np.array(reaches)).min(initial=inf))
        return float(weights.max()) * max(0.0, most)


def _part(tail: float, earlier: int) -> float:
    """The part of a tail that is left to a region after so many others."""
    return tail / ((earlier + 1) * (earlier + 2))


def rounds_of(ranges: Ranges) -> Iterator[Codes]:
    """Rows of a descent in runs of disjoint ones: a region that overlaps one of its run was asked for after it.

    What is asked inside or around a region hangs on noises of regions measured together with one that it overlaps, so
    those of its own run have no say in it (models/tree/descent.py).
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
    order = np.argsort(ranges.lows[start:end], kind="stable")
    lows, highs = ranges.lows[start:end][order], ranges.highs[start:end][order]
    return bool((lows[1:] > highs[:-1]).all())
