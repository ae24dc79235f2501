"""What is known of one statistic along some attributes, and sums of such tables over kinds of values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass

Places = tuple[int, ...]  # of axes in their domain, rising
Noisy = tuple[Floats, float]  # numbers along some axes, and the variance of the noise on each


@dataclass(frozen=True, eq=False)
class Table:
    """An estimate along some axes, an array with an axis each.

    noise, model: variances, cell by cell, of what its own noise and what was assumed of it add to what its margins
    leave open: errors of the margins themselves stand in the margins' own tables.
    """

    places: Places
    estimate: Floats
    noise: Floats
    model: Floats

    def errors_of(self, cells: Flags) -> Table:
        """The errors of some cells alone."""
        return Table(self.places, self.estimate, self.noise * cells, self.model * cells)

    def summed(self, kinds: Mapping[int, Codes]) -> Table:
        """The same over kinds of values. kinds: for each of the axes, the kind of every value."""
        parts = self.estimate, self.noise, self.model
        return Table(self.places, *(sum_kinds(part, [kinds[place] for place in self.places]) for part in parts))


def sum_kinds(values: Floats, kinds: Sequence[Codes]) -> Floats:
    """An array whose values of one kind, along each axis, are added up."""
    for axis, kind in enumerate(kinds):
        number = int(kind.max(initial=-1)) + 1
        if number == values.shape[axis] and np.array_equal(kind, np.arange(number)):
            continue
        member = np.zeros((number, len(kind)))
        member[kind, np.arange(len(kind))] = 1.0
        values = np.moveaxis(np.tensordot(member, values, axes=(1, axis)), 0, axis)
    return np.asarray(values, dtype=np.float64)


def spread_out(values: Floats, places: Places, among: Sequence[int]) -> Floats:
    """An array along some axes as one with an axis for each of `among`, of length 1 where it is not one of them."""
    sizes = dict(zip(places, values.shape, strict=True))
    return values.reshape([sizes.get(place, 1) for place in among])


def sum_out(values: Floats, places: Iterable[int], among: Sequence[int]) -> Floats:
    """An array with an axis for each of `among`, added up over all but some places, whose axes stay."""
    kept = set(places)
    return np.asarray(values.sum(axis=tuple(axis for axis, place in enumerate(among) if place not in kept)))


def subsets(places: Sequence[int]) -> list[Places]:
    """All subsets, the smaller ones first.

    >>> subsets((3, 5))
    [(), (3,), (5,), (3, 5)]
    """
    return [part for size in range(len(places) + 1) for part in combinations(places, size)]


def pooled(noisy: Sequence[tuple[Places, Noisy]], places: Places) -> tuple[Floats, float]:
    """A margin from all noisy tables that have it, each by its precision, and the variance of each of its cells."""
    top, weight = np.zeros(()), 0.0
    for of, (sums, variance) in noisy:
        if set(places) <= set(of):
            margin = sum_out(sums, places, of)
            precision = margin.size / (sums.size * variance)
            top, weight = top + precision * margin, weight + precision
    return top / weight, 1.0 / weight


def independent(one_way: Sequence[Floats], total: float) -> Floats:
    """The table of attributes that have nothing to do with each other."""
    joint: Floats = np.full([1] * len(one_way), total)
    for axis, margin in enumerate(one_way):
        joint = joint * spread_out(margin / max(total, 1e-9), (axis,), range(len(one_way)))
    return joint


def guess_of(guessed: Sequence[Floats], pair: Places) -> Floats:
    """The whole numbers that the counts of a pair are compared with; guessed: all rows, and then every margin."""
    return np.asarray(np.rint(independent([guessed[1 + place] for place in pair], float(guessed[0][0]))))
