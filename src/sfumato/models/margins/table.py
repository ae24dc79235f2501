"""What is known of one statistic along some attributes, and sums of such tables over kinds of values.

The errors of sums over a table that was joined from margins.

The error of a joined table has a part for each set T of its axes. The part of T is the error of table T beyond that of
its margins, spread over the other axes in proportion to a public base (the one-way margins, or evenly):

    e(cell) = sum over T of  base(axes not in T) * (C_T z_T)(cell along T),

where the z_T are independent, with a variance for each cell of table T, and C_T takes away what would change a margin.
So a sum of cells with weights w has variance  sum over T of  sum over cells of T of  variance * w_T^2, where w_T is the
part of w that varies along all axes of T and along no others: its analysis of variance under the base. A total carries
the error of the total alone, a one-way count that of its margin, and only what a question really asks of three
attributes carries the error of three.

One-way margins are brought to the total in another way (one_way.onto_total): by the same number of rows for every value
that holds any. Their errors are centred so, and that of the total goes where they go: along one axis evenly over such
values, not in proportion to rows, by which most of the error of a margin of many values would fall on its largest.

Errors of a set of attributes are not independent from cell to cell: neighbours are off to the same side. So a set may
have variances for blocks of its cells beside those of single cells (`Coarse`): errors of whole blocks, spread inside
each in proportion to the base. Only the mean of a question's weights over a block meets them.

All groups of a GROUP BY are worked out at once. For a group g the weights are those of the question inside g and 0
outside; along a grouping axis the part that varies is then (1 at g, else 0) - base(g), whose square is 1 - 2 base(g) at
g plus base(g)^2 everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations, combinations_with_replacement
from typing import TypeVar

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


Weights = Sequence[Floats | None]
Key = TypeVar("Key")


@dataclass(frozen=True, eq=False)
class Coarse:
    """Errors of blocks. shares: for each axis, of every block by value, the part of its base that the value has.

    variances: of every set of axes, block by block; below zero where single cells claim more than blocks are off by.
    """

    shares: tuple[Floats, ...]
    variances: Mapping[Places, Floats]


@dataclass(frozen=True, eq=False)
class JoinedErrors:
    """bases: for each axis, how errors spread along it, with sum 1. variances: of every set of axes, cell by cell.

    coarse: further errors of blocks of cells, at one scale and another.

    levels: for each axis, how its own margin was brought to the total, with sum 1; as the base, if not told. apart: for
    an axis, further variances of its margin's values that were not.
    """

    bases: tuple[Floats, ...]
    variances: Mapping[Places, Floats]
    levels: tuple[Floats, ...] | None = None
    apart: Mapping[int, Floats] = field(default_factory=dict)
    coarse: Sequence[Coarse] = ()

    def __add__(self, other: JoinedErrors) -> JoinedErrors:
        """Independent errors of the same table, together; both have the same scales."""
        coarse = tuple(
            Coarse(mine.shares, _added(mine.variances, its.variances))
            for mine, its in zip(self.coarse, other.coarse, strict=True)
        )
        variances, apart = _added(self.variances, other.variances), _added(self.apart, other.apart)
        return replace(self, variances=variances, apart=apart, coarse=coarse)

    def without(self, part: Places) -> JoinedErrors:
        """The errors but for those of one set of axes."""
        left = {each: variances for each, variances in self.variances.items() if each != part}
        return replace(self, variances=left)

    def alone(self, part: Places) -> JoinedErrors:
        """The errors of the cells of one set of axes."""
        return JoinedErrors(self.bases, {each: v for each, v in self.variances.items() if each == part})

    def of_cells(self) -> Floats:
        """The variance of every single cell."""
        every = tuple(range(len(self.bases)))
        return self.covariances([np.ones([1] * len(every))], [None], every)[..., 0, 0]

    def covariances(self, split: Weights, whole: Weights, groups: Places) -> Floats:
        """The covariance matrix of several sums, for every group: an array along the grouping axes, then (sum, sum).

        split, whole: for each sum, weights on the cells of the group, and on all cells whatever the group; arrays that
        can be stretched to the table, or None where there are none.
        """
        axes = tuple(range(len(self.bases)))
        found = np.zeros([*(len(self.bases[axis]) for axis in groups), len(split), len(split)])
        for part in subsets(axes):
            if part not in self.variances or not self.variances[part].any():
                continue
            if not part and self.levels is not None:
                self._add_total(found, self.levels, split, whole, groups)
                continue
            centres = self.levels if len(part) == 1 and self.levels is not None else self.bases
            self._add(found, part, self.variances[part], centres, split, whole, groups)
        for axis, variance in self.apart.items():
            nowhere = tuple(np.zeros_like(base) for base in self.bases)
            self._add(found, (axis,), variance, nowhere, split, whole, groups)
        for scale in self.coarse:
            for part, variances in scale.variances.items():
                self._add_coarse(found, part, variances, scale.shares, split, whole, groups)
        return found

    def _add_coarse(
        self,
        found: Floats,
        part: Places,
        variances: Floats,
        shares: Sequence[Floats],
        split: Weights,
        whole: Weights,
        groups: Places,
    ) -> None:
        """What errors of the blocks of one part add: met by the means of weights over blocks, less their own mean."""
        axes = tuple(range(len(self.bases)))
        others = tuple(axis for axis in axes if axis not in groups)
        shape = [len(self.bases[axis]) for axis in groups]
        variance = spread_out(variances, part, axes)
        inside = [None if w is None else self._over_blocks(w, part, others, shares) for w in split]
        outside = [None if w is None else self._over_blocks(w, part, axes, shares) for w in whole]
        squares, moves = variance, []
        for axis in groups:  # what a group's own values are of every block, less what they are of all rows
            base = self.bases[axis]
            if axis in part:
                moved = shares[axis].T - base[:, None]
                squares = along(moved**2, squares, axis)
            else:
                moved = base[:, None]
                squares = squares * spread_out(base**2, (axis,), axes)
            moves.append((axis, moved))

        def met(other: Floats) -> Floats:
            found = variance * other
            for axis, moved in moves:
                found = along(moved, found, axis)
            return found

        self._fill(found, (inside, outside), variance, squares, met, (others, shape))

    def _over_blocks(self, weights: Floats, part: Places, axes: Places, shares: Sequence[Floats]) -> Floats:
        """The means of weights over blocks along the axes of a part, less their mean; over all along the others."""
        for axis in axes:
            if weights.shape[axis] == 1:
                mean = weights * float(self.bases[axis].sum())
                weights = weights - mean if axis in part else mean
                continue
            mean = along(self.bases[axis][None], weights, axis)
            weights = along(shares[axis], weights, axis) - mean if axis in part else mean
        return weights

    def _add_total(
        self, found: Floats, levels: Sequence[Floats], split: Weights, whole: Weights, groups: Places
    ) -> None:
        """What the error of the total adds: to first order it moves every margin by its own level."""
        full = [len(base) if axis in groups else 1 for axis, base in enumerate(self.bases)]
        moved = [np.zeros(full) for _ in split]
        for place, (mine, every) in enumerate(zip(split, whole, strict=True)):
            for weights, fixed in ((mine, groups), (every, ())):
                if weights is not None:
                    moved[place] = moved[place] + self._along_levels(weights, levels, fixed)
        shape = [len(self.bases[axis]) for axis in groups]
        for i, first in enumerate(moved):
            for j, second in enumerate(moved):
                found[..., i, j] += float(self.variances[()]) * (first * second).reshape(shape)

    def _along_levels(self, weights: Floats, levels: Sequence[Floats], fixed: Places) -> Floats:
        """A sum's part in an error that moves all margins, for every group along fixed axes."""
        axes = tuple(range(len(self.bases)))

        def through(changed: int | None) -> Floats:
            found = weights
            for axis in axes:
                base = self.bases[axis] if axis != changed else levels[axis] - self.bases[axis]
                held = spread_out(base, (axis,), axes)
                if axis in fixed:
                    found = found * held
                elif found.shape[axis] == 1:
                    found = found * float(base.sum())
                else:
                    found = (found * held).sum(axis=axis, keepdims=True)
            return found

        return np.asarray(through(None) + sum(through(axis) for axis in axes))

    def _add(
        self,
        found: Floats,
        part: Places,
        variances: Floats,
        centres: Sequence[Floats],
        split: Weights,
        whole: Weights,
        groups: Places,
    ) -> None:
        """What one part adds to the covariances. centres: what of it goes along its own axes, to be taken away."""
        axes = tuple(range(len(self.bases)))
        others = tuple(axis for axis in axes if axis not in groups)
        shape = [len(self.bases[axis]) for axis in groups]
        variance = spread_out(variances, part, axes)
        inside = [None if w is None else self._varying(w, part, others, centres) for w in split]
        outside = [None if w is None else self._varying(w, part, axes, centres) for w in whole]
        scale = np.ones([1] * len(axes))
        squares = variance
        for axis in groups:
            if axis in part:
                centre = spread_out(centres[axis], (axis,), axes)
                squares = (1.0 - 2.0 * centre) * squares + centre**2 * squares.sum(axis=axis, keepdims=True)
            else:
                scale = scale * spread_out(self.bases[axis], (axis,), axes)

        def met(other: Floats) -> Floats:
            found = variance * other
            for axis in groups:
                if axis in part:
                    centre = spread_out(centres[axis], (axis,), axes)
                    found = found - centre * found.sum(axis=axis, keepdims=True)
            return found * scale

        self._fill(found, (inside, outside), variance, scale**2 * squares, met, (others, shape))

    def _fill(
        self,
        found: Floats,
        weights: tuple[Weights, Weights],
        variance: Floats,
        squares: Floats,
        met: Callable[[Floats], Floats],
        groups: tuple[Places, list[int]],
    ) -> None:
        """Add the covariances of several sums under independent errors of one part.

        weights: on the cells of a group, and on all cells. squares: variances as a group's own cells meet them; met:
        what a group meets of errors that weights on all cells have. groups: the axes besides, and sizes along theirs.
        """
        (inside, outside), (others, shape) = weights, groups

        def over(values: Floats) -> Floats:
            return self._over_groups(values.sum(axis=others, keepdims=True), others, shape)

        for i, j in combinations_with_replacement(range(len(inside)), 2):
            value: Floats = np.zeros(shape)
            for one, other in ((inside[i], outside[j]), (inside[j], outside[i])):
                if one is not None and other is not None:
                    value = value + over(one * met(other))
            for one, other, weight in ((inside[i], inside[j], squares), (outside[i], outside[j], None)):
                if one is not None and other is not None:
                    both = one * other
                    value = value + (over(both * weight) if weight is not None else float((both * variance).sum()))
            found[..., i, j] += value
            if i != j:
                found[..., j, i] += value

    def _varying(self, weights: Floats, part: Places, along: Places, centres: Sequence[Floats]) -> Floats:
        """What of the weights varies along the axes of a part: of `along`, the others are averaged out."""
        for axis in along:
            base = centres[axis] if axis in part else self.bases[axis]
            same = weights.shape[axis] == 1  # all along the axis
            held = float(base.sum()) if same else spread_out(base, (axis,), range(len(self.bases)))
            mean = (weights * held).sum(axis=axis, keepdims=True)
            weights = weights - mean if axis in part else mean
        return weights

    def _over_groups(self, values: Floats, others: Places, shape: list[int]) -> Floats:
        full = [len(base) if axis not in others else 1 for axis, base in enumerate(self.bases)]
        return np.broadcast_to(values, full).reshape(shape)


def along(matrix: Floats, values: Floats, axis: int) -> Floats:
    """A matrix times the values along one axis."""
    return np.asarray(np.moveaxis(np.tensordot(matrix, values, axes=(1, axis)), 0, axis), dtype=np.float64)


def _added(first: Mapping[Key, Floats], second: Mapping[Key, Floats]) -> dict[Key, Floats]:
    found = {**first}
    for key, variances in second.items():
        found[key] = found[key] + variances if key in found else variances
    return found
