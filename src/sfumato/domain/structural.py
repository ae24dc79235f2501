"""Structural zeros: combinations of values that no row can have, by public knowledge.

A factor says of a set of axes which combinations of their cells are possible. Factors come from a schema: combinations
that it calls impossible, and attributes that are functions of others. Further ones follow (a county lies in one state,
so what cannot be in the state cannot be in the county): `Structure.possible` marginalises the conjunction of all
factors by eliminating axes one by one. Where that would take too much, a factor is left out: a combination may then be
impossible without being known as such, never the other way round.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from functools import cached_property
from math import prod
from typing import TypeVar

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass

MOST_CELLS = 2**22  # of a table of possible combinations that is laid out
MOST_JOINED = 2**20  # cells of factors that are joined to eliminate an axis
Places = tuple[int, ...]
_A = TypeVar("_A", Flags, Floats)


@dataclass(frozen=True, eq=False)
class Excluded:
    """A product of sets of cells, two axes or more, that holds no row. sides: for each axis, flags of its cells."""

    sides: Mapping[int, Flags]

    @property
    def places(self) -> Places:
        return tuple(sorted(self.sides))

    def possible(self) -> Flags:
        """Flags of the combinations that are not excluded, an axis for each of `places`."""
        inside = np.ones([1] * len(self.sides), dtype=bool)
        for axis, place in enumerate(self.places):
            inside = inside & _along(self.sides[place], axis, len(self.sides))
        return ~inside


@dataclass(frozen=True, eq=False)
class Function:
    """An attribute that is a function of another. image: for each cell of the finer axis, the cell of the coarser."""

    fine: int
    coarse: int
    image: Codes
    values: int  # of the coarser axis

    @property
    def places(self) -> Places:
        return min(self.fine, self.coarse), max(self.fine, self.coarse)

    def possible(self) -> Flags:
        """Flags of the pairs of cells that agree with the function."""
        flags = self.image[:, None] == np.arange(self.values)
        return np.asarray(flags if self.fine < self.coarse else flags.T)


@dataclass(frozen=True, eq=False)
class Structure:
    """All that is known of impossible combinations of a domain. shape: cells of each axis."""

    shape: tuple[int, ...]
    excluded: tuple[Excluded, ...] = ()
    functions: tuple[Function, ...] = ()
    _kept: dict[Places, Flags | None] = field(default_factory=dict)

    @property
    def axes(self) -> frozenset[int]:
        """Axes that a rule mentions."""
        rules: tuple[Excluded | Function, ...] = (*self.excluded, *self.functions)
        return frozenset(place for rule in rules for place in rule.places)

    def possible(self, places: Sequence[int]) -> Flags | None:
        """Flags of possible combinations along some axes, in rising order; None where all are, or they are too many.

        >>> married = Excluded({0: np.array([True, False]), 1: np.array([False, True, True])})
        >>> Structure((2, 3), (married,)).possible((0, 1)).tolist()
        [[True, False, False], [True, True, True]]
        """
        asked = tuple(sorted(places))
        if not self.axes & {*asked}:
            return None
        if asked not in self._kept:
            self._kept[asked] = self._marginal(asked)
        return self._kept[asked]

    def impossible(self, places: Sequence[int]) -> Flags | None:
        """Flags of impossible combinations along some axes; None where there are none."""
        flags = self.possible(places)
        return None if flags is None else ~flags

    def by_class(self, kinds: Mapping[int, Codes]) -> Flags | None:
        """Flags of combinations of classes that some possible combination of values belongs to; None where all are.

        kinds: for each axis, rising, the class of every value.
        """
        places = tuple(kinds)
        if not self.axes & {*places}:
            return None
        flags = self.possible(places)
        if flags is not None:
            flags = _classes(flags, list(kinds.values()))
        elif prod(self.shape[place] for place in places) > MOST_CELLS:  # table by table, which finds fewer
            flags = np.ones([int(kind.max(initial=0)) + 1 for kind in kinds.values()], dtype=bool)
            for part, each in self._factors(places):
                shape = [flags.shape[axis] if place in part else 1 for axis, place in enumerate(places)]
                flags = flags & _classes(each, [kinds[place] for place in part]).reshape(shape)
        return None if flags is None or flags.all() else flags

    @cached_property
    def ordered(self) -> tuple[Function, ...]:
        """Functions, those to the coarsest attributes first; in a chain of functions the finer comes later."""
        depth = {each.coarse: len(self._behind(each.coarse)) for each in self.functions}
        return tuple(sorted(self.functions, key=lambda each: -depth[each.coarse]))

    def _behind(self, place: int) -> list[int]:
        """Finer axes that determine an axis, the nearest first."""
        from_which = {each.coarse: each.fine for each in self.functions}
        found: list[int] = []
        while place in from_which:
            place = from_which[place]
            found.append(place)
        return found

    def above(self, place: int) -> list[int]:
        """Coarser axes that an axis determines, directly or through others."""
        return [each.coarse for each in self.functions if place in self._behind(each.coarse)]

    @cached_property
    def kin(self) -> dict[int, frozenset[int]]:
        """Axes that an axis is tied to by functions, directly or through others.

        >>> Structure((3, 2), (), (Function(0, 1, np.array([0, 0, 1]), 2),)).kin
        {0: frozenset({1}), 1: frozenset({0})}
        """
        root = {place: (self._behind(place) or [place])[-1] for place in range(len(self.shape))}
        tied = {place: frozenset(other for other in root if root[other] == root[place]) - {place} for place in root}
        return {place: others for place, others in tied.items() if others}

    def essential(self, places: Sequence[int]) -> Places:
        """Axes without those that another of them determines.

        >>> county_of = Function(0, 1, np.array([0, 0, 1]), 2)
        >>> Structure((3, 2), (), (county_of,)).essential((0, 1))
        (0,)
        """
        if not self.functions:
            return tuple(places)
        return tuple(place for place in places if not {*places} & {*self._behind(place)})

    def behind(self, place: int, among: Sequence[int]) -> tuple[int, Codes]:
        """Axis of `among` that determines axis `place`, and the cell of `place` for each of its cells."""
        steps = {each.coarse: each for each in self.functions}
        image = np.arange(self.shape[place])
        here = place
        while here not in among:
            each = steps[here]
            image = image[each.image]
            here = each.fine
        return here, image

    @cached_property
    def whole(self) -> Flags:
        """Flags of possible cells of the whole domain, flat. Only where all cells can be laid out."""
        flags = np.ones(self.shape, dtype=bool)
        every = range(len(self.shape))
        rules: tuple[Excluded | Function, ...] = (*self.excluded, *self.functions)
        for rule in rules:
            flags &= rule.possible().reshape([self.shape[place] if place in rule.places else 1 for place in every])
        return flags.reshape(-1)

    @property
    def countable(self) -> bool:
        """Whether the cells of all axes that rules mention can be laid out together."""
        return prod(self.shape[place] for place in self.axes) <= MOST_CELLS

    @property
    def cells(self) -> int:
        """Number of possible cells; of all cells, where they are not countable."""
        if not self.countable:
            return prod(self.shape)
        linked = int(np.count_nonzero(self._linked))
        return linked * prod(size for place, size in enumerate(self.shape) if place not in self.axes)

    def summed(self, weights: Sequence[Floats], kept: Sequence[int] = ()) -> Floats:
        """Sum, over possible cells, of the product of weights along all axes, by the cells of some axes.

        weights: of each axis, (cells of the axis,). Only where cells are countable.

        >>> married = Excluded({0: np.array([True, False]), 1: np.array([False, True, True])})
        >>> Structure((2, 3), (married,)).summed([np.ones(2), np.ones(3)], [0]).tolist()
        [1.0, 3.0]
        """
        table, order = self._linked.astype(np.float64), list[int]()
        for place in sorted(self.axes):
            axis = len(order)
            if place in kept:
                table = table * _along(weights[place], axis, table.ndim)
                order.append(place)
            else:
                table = np.tensordot(table, weights[place], axes=(axis, 0))
        for place, along in enumerate(weights):
            if place not in self.axes:
                table = np.multiply.outer(table, along) if place in kept else table * along.sum()
                order += [place] if place in kept else []
        return np.asarray(table.transpose([order.index(place) for place in kept]))

    @cached_property
    def _linked(self) -> Flags:
        """Flags of possible combinations along all axes that rules mention."""
        places = sorted(self.axes)
        flags = self.possible(places)
        return np.ones([self.shape[place] for place in places], dtype=bool) if flags is None else flags

    def agrees(self, rows: Codes) -> Flags:
        """Flags of rows that no rule excludes, (rows,). rows: cells (axes, rows)."""
        good = np.ones(rows.shape[1], dtype=bool)
        for rule in self.excluded:
            inside = np.ones(rows.shape[1], dtype=bool)
            for place, flags in rule.sides.items():
                inside &= flags[rows[place]]
            good &= ~inside
        for each in self.functions:
            good &= each.image[rows[each.fine]] == rows[each.coarse]
        return good

    def _marginal(self, places: Places) -> Flags | None:
        shape = [self.shape[place] for place in places]
        if prod(shape) > MOST_CELLS:
            return None
        flags = np.ones(shape, dtype=bool)
        for part, each in self._factors(places):
            flags = flags & each.reshape([self.shape[place] if place in part else 1 for place in places])
        return None if flags.all() else flags

    def _factors(self, places: Places) -> list[tuple[Places, Flags]]:
        """Factors along some axes alone, after elimination of all others."""
        left = self._joined_to(places)
        out = {place for part, _ in left for place in part} - {*places}
        while out:
            neighbours = {place: _union(part for part, _ in left if place in part) for place in out}
            cells = {place: prod(self.shape[each] for each in neighbours[place]) for place in out}
            place = min(out, key=lambda each: (cells[each], each))
            inside = [item for item in left if place in item[0]]
            left = [item for item in left if place not in item[0]]
            out.remove(place)
            if inside and cells[place] <= MOST_JOINED:
                every = neighbours[place]
                flags = np.ones([self.shape[each] for each in every], dtype=bool)
                for part, each in inside:
                    flags = flags & each.reshape([self.shape[axis] if axis in part else 1 for axis in every])
                rest = tuple(each for each in every if each != place)
                if rest:
                    left.append((rest, np.asarray(flags.any(axis=every.index(place)))))
        return left

    def _joined_to(self, places: Places) -> list[tuple[Places, Flags]]:
        """Factors that are connected with some axes, by attributes that rules share."""
        reached, size = {*places}, -1
        while size != len(reached):
            size = len(reached)
            reached |= {place for part in self._stated for place in part if reached & {*part}}
        return [(part, each) for part, each in self._stated.items() if reached & {*part}]

    @cached_property
    def _stated(self) -> dict[Places, Flags]:
        """Conjunction of the stated rules by their axes, without those that are too large to lay out."""
        result: dict[Places, Flags] = {}
        rules: tuple[Excluded | Function, ...] = (*self.excluded, *self.functions)
        for rule in rules:
            if prod(self.shape[place] for place in rule.places) <= MOST_CELLS:
                result[rule.places] = rule.possible() & result.get(rule.places, np.bool_(True))
        return result


def _union(parts: Iterable[Places]) -> Places:
    return tuple(sorted({place for part in parts for place in part}))


def _along(flags: _A, axis: int, axes: int) -> _A:
    return flags.reshape([len(flags) if each == axis else 1 for each in range(axes)])


def _classes(flags: Flags, kinds: Sequence[Codes]) -> Flags:
    """Whether any cell of each combination of classes is flagged."""
    for axis, kind in enumerate(kinds):
        number = int(kind.max(initial=0)) + 1
        if number == len(kind) and np.array_equal(kind, np.arange(number)):
            continue
        order = np.argsort(kind, kind="stable")
        starts = np.searchsorted(kind[order], np.arange(number))
        flags = np.logical_or.reduceat(flags.take(order, axis=axis), starts, axis=axis)
    return flags
