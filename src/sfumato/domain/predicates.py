"""Predicates: the sets of rows that a WHERE can describe, as unions of disjoint boxes.

A box is a product of value sets, one per attribute. Anything additive (a count, a volume, a share of a cell) is a plain
sum over the boxes of a predicate. Predicates know nothing of bins; their cover of the cells of a domain is computed
separately, and there a cell may be cut.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property, lru_cache, reduce
from operator import and_, or_
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Cover, Domain, ValueSet
from sfumato.effort import spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass

Part = Literal["share", "sure", "possible"]

_SMALL_AXIS = 4096  # of larger axes only a few covers are kept, so that memory stays within bounds
_EVERYTHING = ValueSet.everything()


@dataclass(frozen=True)
class Box:
    """Product of value sets: rows whose attributes each lie in a set; an attribute not named may have any value.

    sets: in order of name, none of them everything. A box with an empty set holds no row and is false.
    """

    sets: tuple[tuple[str, ValueSet], ...] = ()

    @classmethod
    def of(cls, sets: Mapping[str, ValueSet]) -> Box:
        """Box from a mapping of attributes to value sets.

        >>> Box.of({"age": ValueSet.everything()}) == Box()
        True
        """
        return cls(tuple(sorted((name, values) for name, values in sets.items() if values != _EVERYTHING)))

    def __getitem__(self, name: str) -> ValueSet:
        return dict(self.sets).get(name, _EVERYTHING)

    def __bool__(self) -> bool:
        return all(values for _, values in self.sets)

    def __and__(self, other: Box) -> Box:
        both = dict(self.sets)
        for name, values in other.sets:
            both[name] = both[name] & values if name in both else values
            if not both[name]:
                return Box(((name, both[name]),))
        return Box(tuple(sorted(both.items())))

    def replaced(self, name: str, values: ValueSet) -> Box:
        """Box with another set for one attribute."""
        return Box.of({**dict(self.sets), name: values})

    def minus(self, other: Box) -> list[Box]:
        """The difference of this box and another, as disjoint boxes."""
        if not self & other:
            return [self]
        pieces, rest = [], self
        for name, values in other.sets:
            pieces.append(rest.replaced(name, rest[name] & ~values))
            rest = rest.replaced(name, rest[name] & values)
        return [piece for piece in pieces if piece]

    def cuts(self, domain: Domain) -> list[str]:
        """The attributes along which this box cuts cells."""
        parted = [(name, values) for name, values in self.sets if domain[name].kind != "category"]
        return [name for name, values in parted if not cover(domain[name], values).exact]

    def weights(self, domain: Domain, codes: Mapping[str, Codes], size: int, part: Part) -> Floats:
        """One field of the cover (share, sure or possible) of each listed cell: the product along the axes."""
        inside = np.ones(size)
        for name, values in self.sets:
            along: Floats = getattr(cover(domain[name], values), part)
            inside *= along[codes[name]]
        return inside

    def volume(self, domain: Domain) -> float:
        """Volume of the box: the sum of its shares over all cells of the domain."""
        named = {name: math.fsum(cover(domain[name], values).share) for name, values in self.sets}
        return math.prod(named.get(axis.name, float(axis.size)) for axis in domain)


def cover(axis: Axis, values: ValueSet) -> Cover:
    """The cover of an axis by a set of values, cached, because one query needs it often."""
    return (_small_cover if axis.size <= _SMALL_AXIS else _large_cover)(axis, values)


@lru_cache(maxsize=256)
def _small_cover(axis: Axis, values: ValueSet) -> Cover:
    return axis.cover(values)


@lru_cache(maxsize=6)
def _large_cover(axis: Axis, values: ValueSet) -> Cover:
    return axis.cover(values)


__all__ = ["MOST_BOXES", "Box", "Predicate", "intersection", "union"]

MOST_BOXES = 1000
_OF_A_BOX = 40  # steps to compare two boxes
_FEW_PREDICATES = 16  # that are put together one after the other
_FEW_BOXES = 50  # the outside of larger predicates is not worked out, for it can take seconds


@dataclass(frozen=True)
class Predicate:
    """A set of rows: a union of disjoint boxes, built with `&`, `|`, `-` and `~`.

    >>> first = Predicate.where("age", ValueSet.one_of([1])) | Predicate.where("age", ValueSet.one_of([2]))
    >>> first == Predicate.where("age", ValueSet.one_of([1, 2]))
    True
    >>> bool(first & ~first)
    False
    """

    boxes: tuple[Box, ...]

    @classmethod
    def everything(cls) -> Predicate:
        """Predicate that holds for all rows."""
        return cls((Box(),))

    @classmethod
    def nothing(cls) -> Predicate:
        """Predicate that holds for no row."""
        return cls(())

    @classmethod
    def where(cls, name: str, values: ValueSet) -> Predicate:
        """The rows for which one attribute lies in a set of values."""
        return _joined([Box.of({name: values})])

    def __bool__(self) -> bool:
        return bool(self.boxes)

    def __and__(self, other: Predicate) -> Predicate:
        for one, every in ((self, other), (other, self)):
            if len(every.boxes) == 1 and not every.boxes[0].sets:  # all rows
                return one
        spend(_OF_A_BOX * len(self.boxes) * len(other.boxes), "a condition")
        return _joined(a & b for a in self.boxes for b in other.boxes)

    def __sub__(self, other: Predicate) -> Predicate:
        left = list(self.boxes)
        for box in other.boxes:
            spend(_OF_A_BOX * len(left), "a condition")
            left = _limited(piece for mine in left for piece in mine.minus(box))
        return _joined(left)

    def __or__(self, other: Predicate) -> Predicate:
        return _joined([*self.boxes, *(other - self).boxes])

    def __invert__(self) -> Predicate:
        return Predicate.everything() - self

    def inside(self, other: Predicate) -> bool:
        """Whether every row of this predicate is in the other one, whatever the domain."""
        return not self - other

    @property
    def names(self) -> tuple[str, ...]:
        """Attributes that the predicate restricts, in order of name."""
        return tuple(sorted({name for box in self.boxes for name, _ in box.sets}))

    def exact(self, domain: Domain) -> bool:
        """Whether no cell is cut: each lies wholly inside or wholly outside."""
        return not self.cuts(domain)

    def cuts(self, domain: Domain) -> list[str]:
        """The attributes whose cells are cut, in the order of the domain."""
        cutting = [box for box in self.boxes if box.cuts(domain)]
        found = {name for box in cutting for name in box.cuts(domain)}
        if found and self._outside is not None:
            # A cell is cut where a box from inside and a box from outside both reach into it. Looking at boxes from
            # inside alone would blame `income < 2500 OR sex = 'F'` for cutting the cells of women too.
            touched = cache(lambda name, values: cover(domain[name], values).possible > 0)
            pairs = ((mine, other) for mine in cutting for other in self._outside.boxes)
            found = {name for mine, other in pairs for name in _torn(mine, other, touched)}
        return [name for name in domain.names if name in found]

    def weights(self, domain: Domain, codes: Mapping[str, Codes]) -> tuple[Floats, Floats, Floats]:
        """The part of each listed cell that lies inside: share, sure and possible, as in `Cover`.

        codes: where each cell of the list lies on the axes, for at least the attributes in `names`. Without any codes
        there is one cell, the whole table. The arrays are read-only, and may be one and the same.
        """
        missing = [name for name in self.names if name not in codes]
        if missing:
            raise QueryError(f"the cells' places on {', '.join(missing)} are needed, and only {list(codes)} are given")
        share = self._summed(domain, codes, "share")
        if all(not box.cuts(domain) for box in self.boxes):
            return share, share, share
        possible = self._summed(domain, codes, "possible")
        if self._outside is None:
            sure = self._summed(domain, codes, "sure")  # too low where boxes share a cell, so on the safe side
        else:
            sure = _read_only(1.0 - self._outside._summed(domain, codes, "possible"))
        return _read_only(np.clip(share, sure, possible)), sure, possible

    def volume(self, domain: Domain) -> float:
        """Volume of the predicate: the sum of its shares over all cells of the domain."""
        return math.fsum(box.volume(domain) for box in self.boxes)

    def _summed(self, domain: Domain, codes: Mapping[str, Codes], part: Part) -> Floats:
        total = np.zeros(len(next(iter(codes.values()))) if codes else 1)
        for box in self.boxes:
            total += box.weights(domain, codes, len(total), part)
        return _read_only(np.minimum(total, 1.0, out=total))

    @cached_property
    def _outside(self) -> Predicate | None:
        """Complement of the predicate; None where computing it takes too much work."""
        if len(self.boxes) > _FEW_BOXES:
            return None
        try:
            return ~self
        except QueryError:
            return None


def union(predicates: Sequence[Predicate]) -> Predicate:
    """The union of many predicates, halves first: long chains of OR then cost little more than their length."""
    if len(predicates) <= 1:
        return predicates[0] if predicates else Predicate.nothing()
    middle = len(predicates) // 2
    return union(predicates[:middle]) | union(predicates[middle:])


def intersection(predicates: Sequence[Predicate]) -> Predicate:
    """The rows that many predicates share, halves first where they are many, as in `union`."""
    if len(predicates) <= _FEW_PREDICATES:
        return reduce(and_, predicates) if predicates else Predicate.everything()
    middle = len(predicates) // 2
    return intersection(predicates[:middle]) & intersection(predicates[middle:])


def _limited(boxes: Iterable[Box]) -> list[Box]:
    """List of the boxes; a QueryError if there are too many."""
    kept = []
    for box in boxes:
        kept.append(box)
        if len(kept) > MOST_BOXES:
            raise QueryError(
                f"the conditions are too complicated: they fall into more than {MOST_BOXES} boxes; "
                "use fewer OR and NOT across different attributes, or ask in parts"
            )
    return kept


def _joined(boxes: Iterable[Box]) -> Predicate:
    """Predicate of disjoint boxes, after merging boxes that differ in one attribute only."""
    kept = _limited(box for box in boxes if box)
    before = len(kept) + 1
    while 1 < len(kept) < before:
        before = len(kept)
        spend(_OF_A_BOX * before, "a condition")
        for name in sorted({name for box in kept for name, _ in box.sets}):
            kept = _joined_along(name, kept)
    return Predicate(tuple(kept))


def _joined_along(name: str, boxes: list[Box]) -> list[Box]:
    alike: dict[tuple[tuple[str, ValueSet], ...], list[Box]] = {}
    for box in boxes:
        alike.setdefault(tuple(pair for pair in box.sets if pair[0] != name), []).append(box)
    return [
        group[0] if len(group) == 1 else group[0].replaced(name, reduce(or_, (box[name] for box in group)))
        for group in alike.values()
    ]


def _torn(mine: Box, other: Box, touched: Callable[[str, ValueSet], NDArray[np.bool_]]) -> list[str]:
    """Attributes along which the border of two disjoint boxes cuts a cell; empty if no cell is in both."""
    torn = []
    for name in {name for name, _ in (*mine.sets, *other.sets)}:
        if not np.any(touched(name, mine[name]) & touched(name, other[name])):
            return []
        if not mine[name] & other[name]:
            torn.append(name)
    return torn


def _read_only(weights: Floats) -> Floats:
    weights.setflags(write=False)
    return weights
