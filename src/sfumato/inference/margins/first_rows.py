"""Rows drawn one attribute after the other, each given the few earlier ones that tell most about it.

The order is that of a tree grown along the strongest ties (Chow, Liu 1968), but each attribute looks at up to three
earlier ones, and what these together say of it is the joined table of largest entropy. Ties that this leaves out are
mended afterwards (mending.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Protocol

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.joining import join_counts
from sfumato.inference.margins.table import Places

MOST_GIVEN = 3  # earlier attributes that one is drawn by
MOST_CELLS = 2**15  # of an attribute and those it is drawn by
CLOSE = 1e-3  # of the rows: how near such a table comes to its pairs; what is left is mended
LAST = 1.0 - 2.0**-30  # of a span, so that adding the number of a span cannot round up to the next


class Random(Protocol):
    """Where random numbers come from."""

    def uniform(self, count: int) -> Floats:
        """Numbers from 0 up to, not including, 1."""

    def order(self, count: int) -> Codes:
        """The numbers 0, 1, ..., count - 1 in random order."""


@dataclass(frozen=True, eq=False)
class Step:
    """One attribute's turn. ends: for each combination of the given ones, a span of 1 in which each value has its part.

    Spans follow each other on one line, so that all rows are looked up at once.
    """

    place: int
    given: Places
    sizes: tuple[int, ...]
    ends: Floats

    @classmethod
    def by(cls, place: int, given: Places, table: Floats) -> Step:
        """table: along the given ones, then the attribute; where it is empty no row should be."""
        values = table.shape[-1]
        flat = table.reshape(-1, values)
        ends = np.cumsum(np.where(flat.sum(axis=1, keepdims=True) > 0, flat, flat.sum(axis=0)), axis=1)
        ends /= ends[:, -1:]
        # The last value that can be has all that is left: rounding must not lead to one that cannot.
        ends[ends >= ends[:, -1:]] = 1.0
        line: Floats = (ends + np.arange(len(flat), dtype=np.float64)[:, None]).reshape(-1)
        return cls(place, given, table.shape[:-1], line)

    def draw(self, rows: Codes, random: Random) -> Codes:
        """A value for every row, each by itself. rows: codes by attribute and row."""
        return self._values(self._cells(rows), random.uniform(rows.shape[1]))

    def draw_evenly(self, rows: Codes, random: Random) -> Codes:
        """The same, but rows with the same given values have values as their number allows (stratified sampling)."""
        cells, order = self._cells(rows), random.order(rows.shape[1])
        order = order[np.argsort(cells[order], kind="stable")]
        sorted_cells, held = cells[order], np.bincount(cells)
        rank = np.arange(len(order)) - (np.cumsum(held) - held)[sorted_cells]
        found = np.empty_like(cells)
        found[order] = self._values(sorted_cells, (rank + random.uniform(len(order))) / held[sorted_cells])
        return found

    def _cells(self, rows: Codes) -> Codes:
        cells = np.zeros(rows.shape[1], dtype=np.int64)
        for place, size in zip(self.given, self.sizes, strict=True):
            cells = cells * size + rows[place]
        return cells

    def _values(self, cells: Codes, within: Floats) -> Codes:
        values = len(self.ends) // prod(self.sizes)
        places = cells + np.minimum(within, LAST)
        return np.asarray(np.searchsorted(self.ends, places, side="right") - cells * values, dtype=np.int64)


def plan_steps(one_way: Sequence[Floats], known: Mapping[Places, Floats], ties: Floats) -> list[Step]:
    """The turns of all attributes. one_way: their margins. known: tables along two axes and more, none negative."""
    left, placed, steps = set(range(len(one_way))), list[int](), []
    while left:
        near = {place: ties[place, placed].max() if placed else ties[place].sum() for place in sorted(left)}
        place = max(near, key=lambda each: near[each])
        given = _given(place, placed, ties, one_way)
        steps.append(Step.by(place, given, _joined((*given, place), one_way, known)))
        left.remove(place)
        placed.append(place)
    return steps


def all_ties(one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """How much two attributes tell of each other, in nats."""
    ties = np.zeros((len(one_way), len(one_way)))
    for places, table in known.items():
        if len(places) == 2:
            product = np.outer(one_way[places[0]], one_way[places[1]]) / table.sum()
            held = (table > 0) & (product > 0)
            ties[places] = (table[held] * np.log(table[held] / product[held])).sum() / table.sum()
    return ties + ties.T


def _given(place: int, placed: Sequence[int], ties: Floats, one_way: Sequence[Floats]) -> Places:
    """Those that tell most about an attribute, as many as can be laid out."""
    found: Places = ()
    for other in sorted(placed, key=lambda one: -ties[place, one]):
        cells = prod(len(one_way[one]) for one in (*found, other, place))
        if ties[place, other] > 0 and len(found) < MOST_GIVEN and (cells <= MOST_CELLS or not found):
            found = (*found, other)
    return found


def _joined(places: Places, one_way: Sequence[Floats], known: Mapping[Places, Floats]) -> Floats:
    """What is known along some places, in their order."""
    among = tuple(sorted(places))
    inside = {
        tuple(among.index(one) for one in each): table for each, table in known.items() if set(each) <= set(among)
    }
    joint = join_counts([one_way[one] for one in among], inside, CLOSE)
    return np.transpose(joint, [among.index(place) for place in places])
