"""Unbiased estimates of what every table tells beyond its margins, from all noisy tables that tell it.

A noisy table with noise of one variance in every cell says something of each part within it: its sums along the axes
of the part, less what changes a margin. Parts of one table have errors that do not go together, so least squares over
all tables is, part by part, their mean by precision.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.table import Places, Table, subsets, sum_out


@dataclass(frozen=True, eq=False)
class Observed:
    """A noisy table. always: axes that it is contrasts along, so that it tells nothing of parts without them.

    variance: of every cell, before what changes a margin is taken away along those axes.
    """

    places: Places
    values: Floats
    variance: float
    always: Places = ()


def parts(observed: Iterable[Observed]) -> dict[Places, Table]:
    """The parts of all tables that were observed, which add up to nothing along every axis."""
    tops: dict[Places, Floats] = {}
    weights: dict[Places, float] = {}
    for table in observed:
        others = tuple(place for place in table.places if place not in table.always)
        for some in subsets(others):
            part = tuple(sorted((*table.always, *some)))
            found = sum_out(table.values, part, table.places)
            for axis, place in enumerate(part):
                if place in some:
                    found = found - found.mean(axis=axis, keepdims=True)
            precision = found.size / (prod(table.values.shape) * table.variance)
            tops[part] = tops.get(part, 0.0) + precision * found
            weights[part] = weights.get(part, 0.0) + precision
    return {
        part: Table(part, tops[part] / weights[part], *_even(tops[part], 1.0 / weights[part]))
        for part in sorted(tops, key=lambda part: (len(part), part))
    }


def _even(like: Floats, variance: float) -> tuple[Floats, Floats]:
    return np.full(like.shape, variance), np.zeros(like.shape)
