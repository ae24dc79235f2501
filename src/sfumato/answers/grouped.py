"""Sums of cells for many groups at once, where every cell lies in one group.

Laid out, a hundred groups of a million cells are a hundred million weights, nearly all of them zero. Kept are only
those of a group in the places, cells at first, that it touches: as many as there are cells, for all groups together.
Weights that all groups have in common, as the denominator of a share does, stand beside them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import numpy as np

from sfumato.answers.fit import Errors
from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass

ROUNDING = 1e-13  # of the mean square


@dataclass(frozen=True, eq=False)
class Grouped:
    """Weights of sums in some places, group by group.

    place, group: where each row of weights stands, ordered by place and then by group. weights: (rows, sums).
    whole: what is added in every group, (places, sums); None: nothing. groups: how many there are.
    """

    place: Codes
    group: Codes
    weights: Floats
    whole: Floats | None
    groups: int

    @classmethod
    def of_cells(cls, group: Codes, groups: int, weights: Floats, whole: Floats | None) -> Grouped:
        """group: of every cell, -1 where it lies in none that is asked about. weights: of each cell in its group."""
        there = np.flatnonzero((group >= 0) & weights.any(axis=1))
        return cls(there, group[there], weights[there], whole, groups)

    @property
    def sums(self) -> int:
        return int(self.weights.shape[1])

    def moved(self, to: Codes) -> Grouped:
        """With every place under another number, each its own."""
        place, whole = to[self.place], None
        order = np.lexsort((self.group, place)) if (np.diff(place) < 0).any() else np.arange(len(place))
        if self.whole is not None:
            whole = np.empty_like(self.whole)
            whole[to] = self.whole
        return replace(self, place=place[order], group=self.group[order], weights=self.weights[order], whole=whole)

    def together(self, place: Codes) -> tuple[Codes, Codes]:
        """The rows that share a new place and a group: their numbers, counted in order, and an example of each."""
        key = place * self.groups + self.group
        if (np.diff(key) >= 0).all():
            new = np.append(True, key[1:] != key[:-1])[: len(key)]
            return np.cumsum(new) - 1, np.flatnonzero(new)
        _, example, number = np.unique(key, return_index=True, return_inverse=True)
        return number.reshape(-1), example


@runtime_checkable
class ByGroup(Protocol):
    """A fit that knows the errors of all groups at once."""

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """The errors of every group's sums; None where they have to be found group by group."""


def in_buckets(asked: Grouped, labels: Codes, sizes: Codes) -> tuple[Grouped, Floats, Floats | None]:
    """Means of weights over the cells of each bucket, and the covariance of the weights around them.

    The covariance is that of each row of means, with the weights that all groups have, and then of those alone.
    """
    label = labels[asked.place]
    number, example = asked.together(label)
    place, group = label[example], asked.group[example]
    size, means = sizes[place, None], summed(number, asked.weights, len(example)) / sizes[place, None]
    ones = np.ones(len(number))
    if asked.whole is None:
        squares = squares_by_group(number, len(example), ones, asked.weights) / size[:, :, None]
        covariance = _cleaned(squares - products(means, means), squares)
        return Grouped(place, group, means, None, asked.groups), covariance, None
    whole, beside = summed(labels, asked.whole, len(sizes)) / sizes[:, None], asked.whole[asked.place]
    in_all = squares_by_group(labels, len(sizes), np.ones(len(labels)), asked.whole) / sizes[:, None, None]
    squares = squares_by_group(number, len(example), ones, asked.weights + beside, beside) / size[:, :, None]
    squares += in_all[place]
    full = means + whole[place]
    covariance = _cleaned(squares - products(full, full), squares)
    alone = _cleaned(in_all - products(whole, whole), in_all)
    return Grouped(place, group, means, whole, asked.groups), covariance, alone


def _cleaned(covariance: Floats, squares: Floats) -> Floats:
    """Without what rounding leaves where nothing varies."""
    scale = np.sqrt(np.diagonal(squares, axis1=1, axis2=2))
    return np.where(np.abs(covariance) > ROUNDING * products(scale, scale), covariance, 0.0)


def summed(numbers: Codes, values: Floats, count: int) -> Floats:
    """Rows of values summed by number, (count, sums)."""
    # Of no rows at all NumPy counts in whole numbers, to which no fraction can be added in place.
    each = [np.bincount(numbers, weights=one, minlength=count) for one in values.T]
    return np.stack(each, axis=1).astype(np.float64, copy=False)


def products(left: Floats, right: Floats) -> Floats:
    """Every product of two sums, row by row: (rows, sums, sums)."""
    return left[:, :, None] * right[:, None, :]


def squares_by_group(group: Codes, groups: int, scale: Floats, values: Floats, less: Floats | None = None) -> Floats:
    """The sum over each group's rows of scale * (v v^T - l l^T): (groups, sums, sums)."""
    sums = values.shape[1]
    found = np.empty((groups, sums, sums))
    for i in range(sums):
        for j in range(i + 1):
            product = values[:, i] * values[:, j]
            if less is not None:
                product -= less[:, i] * less[:, j]
            found[:, i, j] = found[:, j, i] = np.bincount(group, weights=scale * product, minlength=groups)
    return found
