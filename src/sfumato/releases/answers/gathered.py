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
    in each gathered cell, in steps. merged: how many cells of the domain one gathered cell is the sum of.
    """

    codes: dict[str, Codes]
    values: Mapping[str, Floats]
    merged: int

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


def gather(domain: Domain, values: Mapping[str, Floats], names: tuple[str, ...]) -> Gathered:
    """All cells of a domain, along the named attributes."""
    places = sorted(domain.place(name) for name in names)
    others = tuple(place for place in range(len(domain.axes)) if place not in places)
    summed = {of: each.reshape(domain.shape).sum(axis=others).reshape(-1) for of, each in values.items()}
    return gathered(domain, summed, places)


def gather_listed(domain: Domain, cells: Codes, values: Mapping[str, Floats], names: tuple[str, ...]) -> Gathered:
    """Some cells of a domain, each by itself."""
    return Gathered({name: domain.codes_along(name, cells) for name in names}, values, 1)
