"""Boxes: products of value sets, one per attribute, and how one box covers the cells of a domain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Cover, Domain, ValueSet
from sfumato.frozen import dataclass

Part = Literal["share", "sure", "possible"]

_SMALL_AXIS = 4096  # of larger axes only a few covers are kept, so that memory stays within bounds
_EVERYTHING = ValueSet.everything()


@dataclass(frozen=True)
class Box:
    """Rows whose attributes lie each in a set of values; an attribute that is not named may have any value.

    sets: in order of name, none of them everything. A box with an empty set holds no row and is false.
    """

    sets: tuple[tuple[str, ValueSet], ...] = ()

    @classmethod
    def of(cls, sets: Mapping[str, ValueSet]) -> Box:
        """A box from a mapping.

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
        """The same box with another set for one attribute."""
        return Box.of({**dict(self.sets), name: values})

    def minus(self, other: Box) -> list[Box]:
        """What of this box lies outside another, as disjoint boxes."""
        if not self & other:
            return [self]
        pieces, rest = [], self
        for name, values in other.sets:
            pieces.append(rest.replaced(name, rest[name] & ~values))
            rest = rest.replaced(name, rest[name] & values)
        return [piece for piece in pieces if piece]

    def cuts(self, domain: Domain) -> list[str]:
        """The attributes along which this box cuts cells."""
        return [name for name, values in self.sets if not cover(domain[name], values).exact]

    def weights(self, domain: Domain, codes: Mapping[str, Codes], size: int, part: Part) -> Floats:
        """One part of the cover of each listed cell: the product along the axes."""
        inside = np.ones(size)
        for name, values in self.sets:
            along: Floats = getattr(cover(domain[name], values), part)
            inside *= along[codes[name]]
        return inside

    def volume(self, domain: Domain) -> float:
        """The sum of the shares of all cells of the domain."""
        named = {name: math.fsum(cover(domain[name], values).share) for name, values in self.sets}
        return math.prod(named.get(axis.name, float(axis.size)) for axis in domain)


def cover(axis: Axis, values: ValueSet) -> Cover:
    """How a set of values covers the cells of an axis; kept for the next time, for one query asks it often."""
    return (_small_cover if axis.size <= _SMALL_AXIS else _large_cover)(axis, values)


@lru_cache(maxsize=256)
def _small_cover(axis: Axis, values: ValueSet) -> Cover:
    return axis.cover(values)


@lru_cache(maxsize=6)
def _large_cover(axis: Axis, values: ValueSet) -> Cover:
    return axis.cover(values)
