"""The errors that a shrinkage fit has in sums of many groups, from its buckets down to cells.

The same as ShrinkageFit.errors group by group; a part of a bucket is halved further for those groups only that have
cells in it, and not where these fill it with equal weights. All other cells of the part have one weight in the answer,
and are counted.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from sfumato.answers.grouped import Grouped, squares_by_group, summed
from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.models.partition.halvings import Halvings


@dataclass(frozen=True, eq=False)
class Counted:
    """Cells that have the same weight in the answer of a group, and how many they are."""

    group: Codes
    weights: Floats
    count: Codes


@dataclass(frozen=True, eq=False)
class Parts:
    """Parts of buckets that groups touch.

    start, stop: where a part lies. low, high: where the group's weights in it lie. value: what it has got so far.
    """

    group: Codes
    start: Codes
    stop: Codes
    low: Codes
    high: Codes
    value: Floats

    def some(self, which: Flags) -> Parts:
        places = np.flatnonzero(which)
        return Parts(*(part[places] for part in vars(self).values()))

    def beside(self, others: Parts) -> Parts:
        """One of these, one of the others, and so on: parts stay in order, so that what is looked up lies close by."""
        pairs = zip(vars(self).values(), vars(others).values(), strict=True)
        return Parts(*(np.stack(pair, axis=1).reshape(-1, *pair[0].shape[1:]) for pair in pairs))

    @property
    def counted(self) -> Counted:
        return Counted(self.group, self.value, self.stop - self.start)


@dataclass(frozen=True, eq=False)
class Sorted:
    """The weights of all groups, one group after another, each in the order of the cells."""

    asked: Grouped
    cells: int

    @cached_property
    def key(self) -> Codes:
        return np.sort(self.asked.group * self.cells + self.asked.place)

    @cached_property
    def weights(self) -> Floats:
        return self.asked.weights[np.argsort(self.asked.group * self.cells + self.asked.place)]

    @cached_property
    def sums(self) -> Floats:
        """Of all weights before each."""
        return np.concatenate([np.zeros((1, self.asked.sums)), np.cumsum(self.weights, axis=0)])

    @cached_property
    def changes(self) -> Codes:
        """How often the weights have changed so far."""
        changed = (self.weights[1:] != self.weights[:-1]).any(axis=1)
        return np.concatenate([[0], np.cumsum(changed)])

    def until(self, group: Codes, place: Codes) -> Codes:
        """How many weights lie before some places of groups."""
        return np.searchsorted(self.key, group * self.cells + place)

    def even(self, parts: Parts) -> Flags:
        """Which parts the group fills with equal weights."""
        full = parts.high - parts.low == parts.stop - parts.start
        return np.asarray(full & (self.changes[parts.high - 1] == self.changes[parts.low]))


@dataclass(frozen=True, eq=False)
class Shrunk:
    """What enters the sums of each group: the noise of cells and of buckets, and what was left out.

    apart: the covariance of what was left out. together: its sizes added up within halvings of one size, then squared.
    """

    cells: Counted
    buckets: Counted
    apart: Floats
    together: Floats


def shrunk(asked: Grouped, sizes: Codes, halvings: Halvings, lean: Floats, keep: Floats, left_out: Floats) -> Shrunk:
    """asked: weights of cells in the order in which they are halved. left_out: the deviation of each family's rest."""
    rows, groups, sums = Sorted(asked, int(sizes.sum())), asked.groups, asked.sums
    stops = np.cumsum(sizes)
    group, place = rows.key // rows.cells, rows.key % rows.cells
    bucket = np.searchsorted(stops, place, side="right")
    low = np.flatnonzero(np.append(True, (np.diff(group) != 0) | (np.diff(bucket) != 0))[: len(group)])
    high = np.append(low[1:], len(group))
    group, bucket = group[low], bucket[low]
    means = (rows.sums[high] - rows.sums[low]) / sizes[bucket, None]
    buckets = Counted(group, (1.0 - lean[bucket])[:, None] * means, np.ones_like(bucket))
    parts = Parts(group, stops[bucket] - sizes[bucket], stops[bucket], low, high, lean[bucket, None] * means)
    apart, heights = np.zeros((groups, sums, sums)), int(halvings.heights.max(initial=0)) + 1
    size_of_rest = np.zeros((heights * groups, sums))
    done: list[Counted] = []
    ends = np.searchsorted(halvings.depth[halvings.family], np.arange(int(halvings.depth.max(initial=-1)) + 2))
    for first, end in pairwise(ends):
        even = rows.even(parts)
        if even.any():
            done.append(parts.some(even).counted)
            parts = parts.some(~even)
        which = first + np.searchsorted(halvings.start[first:end], parts.start)
        middle, family = halvings.middle[which], halvings.family[which]
        between = rows.until(parts.group, middle)
        of_first, of_second = halvings.in_halves(which)
        contrasts = of_first * (rows.sums[between] - rows.sums[parts.low])
        contrasts -= of_second * (rows.sums[parts.high] - rows.sums[between])
        rest, kept = left_out[family, None] * contrasts, keep[family, None] * contrasts
        apart += squares_by_group(parts.group, groups, np.ones(len(rest)), rest)
        size_of_rest += summed(halvings.heights[which] * groups + parts.group, np.abs(rest), heights * groups)
        first_half = replace(parts, stop=middle, high=between, value=parts.value + of_first * kept)
        second_half = replace(parts, start=middle, low=between, value=parts.value - of_second * kept)
        halves = first_half.beside(second_half)
        touched = halves.high > halves.low
        done.append(halves.some(~touched).counted)
        parts = halves.some(touched)
    cells = [vars(one).values() for one in (*done, parts.counted)]
    together = (size_of_rest**2).reshape(heights, groups, sums).sum(axis=0)
    return Shrunk(Counted(*(np.concatenate(each) for each in zip(*cells, strict=True))), buckets, apart, together)
