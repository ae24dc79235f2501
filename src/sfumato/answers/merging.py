"""Noises of groups without laying out the cells of a domain, where cells that count alike can be taken together.

A group is mostly a box among the cells that a query mentions: one value of each attribute that it is grouped by, all or
some values of those it is filtered by. Along each attribute the weights tell which values are alike, and the fit finds
the rest (least_squares/merged.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sfumato.answers.fit import Errors, Fit
from sfumato.answers.intervals.fieller import Term
from sfumato.answers.intervals.noise_terms import terms_of
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.least_squares.classes import Along, told_apart
from sfumato.least_squares.merged import Merged, Weighed

Noise = Sequence[Term] | None  # of one statistic in one group; None where what was measured does not determine it


@dataclass(frozen=True, eq=False)
class Asked:
    """What is asked of one statistic: weights on the cells of a group, and on all cells, (cells mentioned, sums)."""

    fit: Fit
    split: Floats
    whole: Floats


def merged_terms(
    asked: Asked, fit: Merged, domain: Domain, names: Sequence[str], group: Codes, present: Codes, answer: Sequence[int]
) -> list[Noise]:
    """The noises of every present group; () where they have to be found by laying out all cells."""
    found: list[Noise] = [() for _ in present]
    places = sorted(domain.place(name) for name in names)
    grid = tuple(domain.shape[place] for place in places)
    statistic = _Statistic(fit, asked, group.reshape(grid), places, answer)
    order = np.argsort(group, kind="stable")
    starts, ends = (np.searchsorted(group[order], present, side=side) for side in ("left", "right"))
    for place, number in enumerate(present.tolist()):
        box = _box(order[starts[place] : ends[place]], grid)
        errors = None if box is None else statistic.errors(number, box)
        if errors is not None:
            found[place] = statistic.noises(errors)
    return found


def _box(cells: Codes, grid: tuple[int, ...]) -> tuple[Codes, ...] | None:
    """The values along each axis that some cells, in order, are all combinations of; None if they are not that."""
    sides = tuple(np.unique(codes, return_index=True)[0] for codes in np.unravel_index(cells, grid)) if grid else ()
    return sides if prod(map(len, sides)) == len(cells) else None


class _Statistic:
    """One statistic of a query, for all groups."""

    def __init__(self, fit: Merged, asked: Asked, group: Codes, places: list[int], answer: Sequence[int]) -> None:
        grid, sums = group.shape, asked.split.shape[1]
        self._fit, self._group, self._places, self._answer = fit, group, places, answer
        self._split, self._whole = asked.split.reshape(*grid, sums), asked.whole.reshape(*grid, sums)
        whole = asked.whole.any()
        self._base = [
            told_apart(np.moveaxis(self._whole, axis, 0)) if whole else np.zeros(size, dtype=np.int64)
            for axis, size in enumerate(grid)
        ]
        self._known: dict[int, tuple[Weighed, list[Term] | None]] = {}

    def errors(self, number: int, box: tuple[Codes, ...]) -> Weighed | None:
        """The errors of one group; None where too many cells are told apart."""
        axes = self._axes(box)
        if axes is None or self._fit.too_many(axes):
            return None
        mentioned = np.ix_(*(axes[place].first for place in self._places))
        weights = self._split[mentioned] * (self._group[mentioned] == number)[..., None] + self._whole[mentioned]
        shape = [len(axis.first) for axis in axes]
        narrow = [size if place in self._places else 1 for place, size in enumerate(shape)]
        sums = weights.shape[-1]
        spread = np.broadcast_to(weights.reshape(*narrow, sums), (*shape, sums)).reshape(-1, sums)
        return self._fit.errors(axes, np.ascontiguousarray(spread))

    def noises(self, found: Weighed) -> list[Term] | None:
        """The noises of one group, or of another with the same errors; None if nothing determines it."""
        if id(found) not in self._known:
            sums = found.weights.shape[1]
            errors = Errors(found.design, found.weights, np.zeros((sums, sums)), ~found.known, found.counts)
            unknown = errors.unknown[list(self._answer)].any()
            # The errors are kept too, so that the number by which they are known stays their own.
            self._known[id(found)] = found, None if unknown else terms_of(errors, self._answer)
        return self._known[id(found)][1]

    def _axes(self, box: tuple[Codes, ...]) -> list[Along] | None:
        """The classes along every axis of the domain, mentioned or not."""
        inside = self._split[np.ix_(*box)]
        found = []
        for place, size in enumerate(self._fit.shape):
            told = np.zeros(size, dtype=np.int64)
            if place in self._places:
                axis = self._places.index(place)
                alike = told_apart(np.moveaxis(inside, axis, 0))
                told[box[axis]] = 1 + alike
                told = told * (int(self._base[axis].max()) + 1) + self._base[axis]
            along = self._fit.along(place, told)
            if along is None:
                return None
            found.append(along)
        return found
