"""Cells that are nowhere negative and keep the release's own one-way and two-way answers.

First the answers are made possible, those about one attribute by themselves, those about two so that they sum to these.
Then cells are raked to them (iterative proportional fitting): scaled, one pair of attributes after the other, until all
of them fit. Where the release answers nothing below zero, the margins of the rows are its answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.releases.rows.layouts import LaidOut, Layout
from sfumato.releases.rows.possible import halved_without_negatives, without_negatives

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
    """All cells of a domain, of any sign but with a positive sum, made to fit their own answers."""
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
    """One-way and two-way answers that rows can have: none negative, and all with the same total."""
    every = range(len(domain.axes))
    singles = [_single(domain, place, answers((place,))) for place in every]
    pairs: list[Margin] = []
    for one, two in combinations(every, 2):
        if domain.axes[one].size * domain.axes[two].size <= max(MOST_OF_A_PAIR, domain.size * (len(every) == 2)):
            pairs.append(((one, two), _pair(answers((one, two)), singles[one], singles[two])))
    return [((place,), single) for place, single in enumerate(singles)], pairs


def fit_margins(layout: Layout, base: Floats, singles: Sequence[Margin], pairs: Sequence[Margin]) -> Floats:
    """Cells like those of `base`, none negative, that fit all margins as far as they go together."""
    total = float(singles[0][1].sum())
    even: Floats = np.array(FLOOR * total)
    for axes, single in singles:
        even = even * layout.back(single / total, axes)
    covered = {place for axes, _ in pairs for place in axes}
    return rake(layout, base + even, [*(one for one in singles if one[0][0] not in covered), *pairs])


def rake(layout: Layout, cells: Floats, margins: Sequence[Margin]) -> Floats:
    """Scale positive cells until they sum to the margins, all of which have the same total; changes `cells`."""
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


def _single(domain: Domain, place: int, answers: Floats) -> Floats:
    """Answers by one attribute, made possible: at every scale, where neighbours mean something."""
    return halved_without_negatives(answers) if domain.axes[place].ordered else without_negatives(answers)


def _pair(answers: Floats, first: Floats, second: Floats) -> Floats:
    """Answers by two attributes, made possible, with the sums that were settled for each."""
    if answers.min() >= -ROUNDING * answers.sum():
        return np.maximum(answers, 0.0)
    singles: list[Margin] = [((0,), first), ((1,), second)]
    return fit_margins(LaidOut(answers.shape), halved_without_negatives(answers), singles, ())
