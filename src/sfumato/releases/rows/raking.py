"""Raking (iterative proportional fitting) of non-negative cells to a release's one-way and two-way answers.

Noise makes answers negative where there are few rows. Truncating each cell at zero would bias every sum, so marginals
are projected first and their parts after them: one-way answers to non-negative ones with the same total, two-way
answers to those with these one-way sums. Then cells are scaled to one pair of attributes after the other until all fit.
Where the release answers nothing below zero, the marginals of the rows are its answers.

A `Layout` sums cells along axes and broadcasts back: a dense array (`LaidOut`) or a list of cells (`Listed`).

Balanced samples: rows exchanged for spare ones until counts by every attribute are the expected ones, rounded.

Rows and spare rows come from one distribution, so that an exchange is as likely a sample as any (rejective sampling,
Hajek 1964; Deville and Tille 2004 for the aim). In each sweep random pairs of a row and a spare row are compared by

    sum over attributes and values of  max(|expected - held| - 1, 0)^2 / (expected + 1)

and pairs that lower it are exchanged with probability proportional to the gain, by the factor at which all exchanges
together lower it most.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from math import prod
from typing import Protocol

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.releases.rows.model import Block, RandomNumbers


class Layout(Protocol):
    """Cells that can be summed along some axes, and sums broadcast back to the cells."""

    def along(self, values: Floats, axes: Sequence[int]) -> Floats:
        """Marginal along some axes: sums over all others."""

    def back(self, sums: Floats, axes: Sequence[int]) -> Floats:
        """Broadcast a marginal to the cells, in a shape compatible with theirs."""


@dataclass(frozen=True)
class LaidOut:
    """All cells as a dense array with an axis for each attribute."""

    shape: tuple[int, ...]

    def along(self, values: Floats, axes: Sequence[int]) -> Floats:
        others = tuple(place for place in range(len(self.shape)) if place not in axes)
        return np.asarray(values.sum(axis=others), dtype=np.float64)

    def back(self, sums: Floats, axes: Sequence[int]) -> Floats:
        return sums.reshape([size if place in axes else 1 for place, size in enumerate(self.shape)])


@dataclass(frozen=True, eq=False)
class Listed:
    """List of some cells of a domain; cells: their indices, (n,)."""

    domain: Domain
    cells: Codes

    def along(self, values: Floats, axes: Sequence[int]) -> Floats:
        shape = tuple(self.domain.shape[place] for place in axes)
        summed = np.bincount(self._labels(axes), weights=values, minlength=prod(shape))
        return np.asarray(summed, dtype=np.float64).reshape(shape)

    def back(self, sums: Floats, axes: Sequence[int]) -> Floats:
        return np.asarray(sums.reshape(-1)[self._labels(axes)], dtype=np.float64)

    def _labels(self, axes: Sequence[int]) -> Codes:
        """Index of each cell in the marginal along some axes, (n,)."""
        label = np.zeros(len(self.cells), dtype=np.int64)
        for place in axes:
            axis = self.domain.axes[place]
            label = label * axis.size + self.domain.codes_along(axis.name, self.cells)
        return label


def ends_of(rows: Floats) -> Floats:
    """Cumulative distribution of the rows over cells, (cells,), ending at 1.

    >>> ends_of(np.array([1.0, 0.0, 3.0])).tolist()
    [0.25, 0.25, 1.0]
    """
    ends = np.cumsum(rows)
    ends /= ends[-1]
    last = int(np.flatnonzero(rows)[-1])
    ends[last:] = 1.0  # no place is lost to rounding, and none reaches a cell without rows
    return ends


def without_negatives(answers: Floats) -> Floats:
    """Euclidean projection onto the non-negative vectors with the same sum (simplex projection), (n,).

    >>> without_negatives(np.array([5.0, -2.0, 1.0])).tolist()
    [4.0, 0.0, 0.0]
    """
    total = float(answers.sum())
    if total <= 0:
        return np.zeros(len(answers))
    if answers.min() >= 0:
        return answers
    falling = np.sort(answers)[::-1]
    lowered = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    by = lowered[np.flatnonzero(falling > lowered)[-1]]
    return np.asarray(np.maximum(answers - by, 0.0), dtype=np.float64)


def halved_without_negatives(answers: Floats) -> Floats:
    """Non-negative array with the same sum by recursive bisection: parents are split in proportion to their halves.

    The array is cut in two, across its longest axis, and so on down to single numbers; each half gets its share of its
    parent's sum, none where its answer is negative. So a range far from a negative one keeps its sum, while Euclidean
    projection would leave positive noise all over a long empty range.

    >>> halved_without_negatives(np.array([30.0, 10.0, 8.0, -3.0])).tolist()
    [30.0, 10.0, 5.0, 0.0]
    """
    if answers.min() >= 0:
        return answers
    levels, level = [], answers
    while level.size > 1:
        axis = int(np.argmax(level.shape))
        levels.append((level, axis))
        first, second = _halves(level, axis)
        level = first.copy()
        level[_first(axis, second.shape[axis])] += second
    fixed = np.maximum(level, 0.0)
    while levels:
        level, axis = levels.pop()
        fixed = _divide(fixed, level, axis)
    return fixed


def _divide(parents: Floats, children: Floats, axis: int) -> Floats:
    """Split each parent between its two children in proportion to their positive parts; an only child gets all."""
    children_rows = np.maximum(children, 0.0)
    first, second = _halves(children_rows, axis)
    pairs = _first(axis, second.shape[axis])
    sums = first.copy()
    sums[pairs] += second
    nothing = sums <= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(nothing, 0.0, parents / sums)
    first *= scale
    second *= scale[pairs]
    if nothing.any():  # neither child is known to hold anything: evenly
        alone = np.ones(first.shape[axis])
        alone[: second.shape[axis]] = 0.5
        evenly = np.where(nothing, parents * alone.reshape([-1 if a == axis else 1 for a in range(first.ndim)]), 0.0)
        first += evenly
        second += evenly[pairs]
    return children_rows


def _halves(level: Floats, axis: int) -> tuple[Floats, Floats]:
    """Views of the even and of the odd entries along an axis."""
    before = (slice(None),) * axis
    return level[(*before, slice(0, None, 2))], level[(*before, slice(1, None, 2))]


def _first(axis: int, count: int) -> tuple[slice, ...]:
    """Index of the first `count` entries along an axis."""
    return (*(slice(None),) * axis, slice(0, count))


Margin = tuple[tuple[int, ...], Floats]  # along which axes, and what the cells must sum to
Answers = Callable[[tuple[int, ...]], Floats]  # the release's own, along one or two axes

FIT = 2e-5  # how far sums may stay off, as a share of all rows: less than a sample of a hundred million rows would show
ROUNDING = 1e-9  # negative by less, as a share of all rows, is no more than a number that was rounded
MOST_SWEEPS = 100
LEAST_SWEEPS = 3
MOST_WORK = 5 * 10**8  # cells that are scaled, over all sweeps: a few seconds
MOST_OF_A_PAIR = 2**24  # cells of a two-way answer that is fitted to
# Every cell gets so much of what it would have if attributes had nothing to do with each other: then no answer is out
# of reach because noise left nothing above zero where it needs rows.
FLOOR = 1e-3


def fit_all_cells(domain: Domain, cells: Floats) -> Floats:
    """Non-negative cells, in the shape of the domain, raked to their own projected marginals.

    cells: of any sign but with a positive sum, (cells,).
    """
    layout, table = LaidOut(domain.shape), cells.reshape(domain.shape)
    if cells.min() >= -ROUNDING * cells.sum():
        return np.maximum(table, 0.0)
    if len(domain.axes) == 1:
        return _single(domain, 0, table)
    singles, pairs = possible_margins(domain, lambda axes: layout.along(table, axes))
    if len(domain.axes) == 2:
        return pairs[0][1]
    return fit_margins(layout, halved_without_negatives(table), singles, pairs)


def possible_margins(domain: Domain, answers: Answers) -> tuple[list[Margin], list[Margin]]:
    """Projected one-way and two-way marginals: non-negative, with the same total."""
    every = range(len(domain.axes))
    singles = [_single(domain, place, answers((place,))) for place in every]
    pairs: list[Margin] = []
    for first, second in combinations(every, 2):
        if domain.axes[first].size * domain.axes[second].size <= max(MOST_OF_A_PAIR, domain.size * (len(every) == 2)):
            pairs.append(((first, second), _pair(answers((first, second)), singles[first], singles[second])))
    return [((place,), single) for place, single in enumerate(singles)], pairs


def fit_margins(layout: Layout, base: Floats, singles: Sequence[Margin], pairs: Sequence[Margin]) -> Floats:
    """Rake `base` plus a small independent table to all marginals, as far as they are consistent."""
    total = float(singles[0][1].sum())
    even: Floats = np.array(FLOOR * total)
    for axes, single in singles:
        even = even * layout.back(single / total, axes)
    covered = {place for axes, _ in pairs for place in axes}
    return rake(layout, base + even, [*(one for one in singles if one[0][0] not in covered), *pairs])


def rake(layout: Layout, cells: Floats, margins: Sequence[Margin]) -> Floats:
    """Iterative proportional fitting: scale positive cells, in place, to marginals that have the same total."""
    sweeps = MOST_WORK // (cells.size * len(margins))
    for _ in range(max(LEAST_SWEEPS, min(MOST_SWEEPS, sweeps))):
        furthest = 0.0
        for axes, wanted in margins:
            have = layout.along(cells, axes)
            furthest = max(furthest, float(np.abs(have - wanted).sum() / wanted.sum()))
            scale = np.divide(wanted, have, out=np.zeros_like(have), where=have > 0)
            cells *= layout.back(scale, axes)
        if furthest <= FIT:
            break
    return cells


def _single(domain: Domain, number: int, answers: Floats) -> Floats:
    """Projected one-way marginal: by bisection along an ordered attribute, otherwise Euclidean."""
    return halved_without_negatives(answers) if domain.axes[number].ordered else without_negatives(answers)


def _pair(answers: Floats, first: Floats, second: Floats) -> Floats:
    """Projected two-way marginal with given one-way sums."""
    if answers.min() >= -ROUNDING * answers.sum():
        return np.maximum(answers, 0.0)
    singles: list[Margin] = [((0,), first), ((1,), second)]
    return fit_margins(LaidOut(answers.shape), halved_without_negatives(answers), singles, ())


# -- balance

SWEEPS = 40  # at most: counts are then off by a few rows, of which a sample of thousands is off by dozens
PAIRS = 2**13  # that are compared in one sweep
FEW = 2**14  # rows


def balanced(rows: Codes, many: int, wanted: Sequence[Floats], random: RandomNumbers) -> Codes:
    """Indices of `many` of the rows, of which the first ones are exchanged for later ones where this helps.

    rows: codes (attributes, rows). wanted: shares of each attribute's values, (values,) each.

    >>> codes = np.repeat([[0, 1]], 50, axis=1)
    >>> int(codes[0, balanced(codes, 40, [np.array([0.5, 0.5])], RandomNumbers(1))].sum()) in (19, 20, 21)
    True
    """
    chosen, spare = np.arange(many), np.arange(many, rows.shape[1])
    pairs = min(len(chosen), len(spare), PAIRS)
    expected = [many * share / share.sum() for share in wanted]
    off = [each - np.bincount(codes[chosen], minlength=len(each)) for each, codes in zip(expected, rows, strict=True)]
    for _ in range(SWEEPS if pairs else 0):
        if max(float(np.abs(each).max()) for each in off) <= 1.0:
            break
        out, into = _some(len(chosen), pairs, random), _some(len(spare), pairs, random)
        out, into = out[: len(into)], into[: len(out)]
        gain = np.zeros(len(out))
        for codes, wants, lacks in zip(rows, expected, off, strict=True):
            now = _beyond(lacks) ** 2
            coming, going = ((now - _beyond(lacks + by) ** 2) / (wants + 1.0) for by in (-1.0, 1.0))
            old, new = codes[chosen[out]], codes[spare[into]]
            gain += np.where(old != new, coming[new] + going[old], 0.0)
        better = np.flatnonzero(gain > 0)
        out, into, gain = out[better], into[better], gain[better]
        slope = bend = 0.0
        for codes, wants, lacks in zip(rows, expected, off, strict=True):
            change = _entering(codes, chosen[out], spare[into], len(lacks), gain)
            slope += float(change / (wants + 1.0) @ _beyond(lacks))
            bend += float(change / (wants + 1.0) @ change)
        done = random.uniform(len(better)) < gain * (max(slope, 0.0) / bend if bend > 0 else 1.0)
        out, into = out[done], into[done]
        for codes, lacks in zip(rows, off, strict=True):
            np.subtract(lacks, _entering(codes, chosen[out], spare[into], len(lacks)), out=lacks)
        chosen[out], spare[into] = spare[into], chosen[out]
    return chosen


def _some(many: int, few: int, random: RandomNumbers) -> Codes:
    """About `few` of the numbers 0 .. many - 1, each once, in random order."""
    if few * 4 > many:
        return random.order(many)[:few]
    found = np.unique((random.uniform(few) * many).astype(np.int64))
    return found[random.order(len(found))]


def _beyond(off: Floats) -> Floats:
    """Residuals beyond a tolerance of one row, so that rare values still occur."""
    return np.asarray(np.sign(off) * np.maximum(np.abs(off) - 1.0, 0.0))


def draw_balanced(
    draw: Callable[[Floats, RandomNumbers], Block], places: Floats, shares: Mapping[str, Floats], random: RandomNumbers
) -> Block:
    """Draw a row at each place; if these are few, exchange rows for spare ones so that counts by attribute fit better.

    places: in [0, 1), ascending (`RowModel.draw`). shares: of each attribute's values, (values,) each.
    """
    block = draw(places, random)
    if len(places) >= FEW:  # stratified places alone are near enough
        return block
    both = Block.joined([block, draw(np.sort(random.uniform(FEW)), random)])
    codes = np.array([both.codes[name] for name in shares])
    return both[balanced(codes, len(places), list(shares.values()), random)]


def _entering(codes: Codes, old: Codes, new: Codes, values: int, weights: Floats | None = None) -> Floats:
    """Change of the rows of each value if some rows are exchanged for others, by weights if given, (values,)."""
    into = np.bincount(codes[new], weights, minlength=values)
    return np.asarray(into - np.bincount(codes[old], weights, minlength=values), dtype=np.float64)
