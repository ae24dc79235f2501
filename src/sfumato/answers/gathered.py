"""Cells as one query sees them: summed over the attributes it does not mention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False)
class Gathered:
    """Cells of a domain summed over the attributes a query does not mention.

    codes: for each attribute mentioned, where each gathered cell lies on it. values: for each statistic, the estimate
    in each gathered cell, in steps. merged: how many cells of the domain one gathered cell is the sum of; many: times
    this, where values that the query does not tell apart were taken together, and cells are sums of different numbers.
    """

    codes: dict[str, Codes]
    values: Mapping[str, Floats]
    merged: int
    many: Codes | None = None

    @property
    def size(self) -> int:
        return len(self.values["count"])


def gathered(domain: Domain, summed: Mapping[str, Floats], places: Sequence[int]) -> Gathered:
    """All cells along some axes of a domain, in order; summed: for each statistic, the sums over the other axes."""
    others = tuple(place for place in range(len(domain.axes)) if place not in places)
    shape = tuple(domain.shape[place] for place in places)
    codes = {
        domain.names[place]: np.broadcast_to(
            np.arange(domain.shape[place]).reshape([-1 if p == place else 1 for p in places]), shape
        ).reshape(-1)
        for place in places
    }
    return Gathered(codes, summed, prod(domain.shape[place] for place in others))


def gathered_by_kind(domain: Domain, summed: Mapping[str, Floats], kinds: Mapping[int, Codes]) -> Gathered:
    """The same with values of one kind taken together; kinds: by place of the axis, in order, numbered from 0."""
    shape = tuple(domain.shape[place] for place in kinds)
    values = {of: each.reshape(shape) for of, each in summed.items()}
    for along, kind in enumerate(kinds.values()):
        values = {of: _by_kind(each, along, kind) for of, each in values.items()}
    few = next(iter(values.values())).shape
    codes, many = {}, np.ones((), dtype=np.int64)
    for along, (place, kind) in enumerate(kinds.items()):
        _, first, number = np.unique(kind, return_index=True, return_counts=True)
        flat = [-1 if other == along else 1 for other in range(len(few))]
        codes[domain.names[place]] = np.broadcast_to(first.reshape(flat), few).reshape(-1)
        many = many * number.reshape(flat)
    others = prod(size for place, size in enumerate(domain.shape) if place not in kinds)
    return Gathered(codes, {of: each.reshape(-1) for of, each in values.items()}, others, many.reshape(-1))


def _by_kind(values: Floats, along: int, kind: Codes) -> Floats:
    """Sums over the values of each kind along one axis. Kinds are runs of neighbours, or few runs each."""
    starts = np.flatnonzero(np.append(True, kind[1:] != kind[:-1]))
    if len(starts) == len(kind) == int(kind.max()) + 1:
        return values
    runs = np.add.reduceat(values, starts, axis=along)
    summed = np.zeros((int(kind.max()) + 1, *np.delete(runs.shape, along)))
    np.add.at(summed, kind[starts], np.moveaxis(runs, along, 0))
    return np.moveaxis(summed, 0, along)


def gather(domain: Domain, values: Mapping[str, Floats], names: tuple[str, ...]) -> Gathered:
    """All cells of a domain, along the named attributes."""
    places = sorted(domain.place(name) for name in names)
    others = tuple(place for place in range(len(domain.axes)) if place not in places)
    summed = {of: each.reshape(domain.shape).sum(axis=others).reshape(-1) for of, each in values.items()}
    return gathered(domain, summed, places)


def gather_listed(domain: Domain, cells: Codes, values: Mapping[str, Floats], names: tuple[str, ...]) -> Gathered:
    """Some cells of a domain, each by itself."""
    return Gathered({name: domain.codes_along(name, cells) for name in names}, values, 1)
