"""Rows from tables along few attributes at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.drawing import Drawing
from sfumato.inference.margins.table import Places
from sfumato.releases.rows.measures import summed
from sfumato.releases.rows.model import Block, Grouping, gather_margin
from sfumato.releases.rows.raking import possible_margins
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.schema import Schema

ROUNDS = 5  # of fitting what is expected of rows to all sums


@dataclass(frozen=True, eq=False)
class RowsOfMargins:
    """Rows of a content of margins.

    answers: the release's own, along one or two axes, of any sign. larger: tables of more axes that rows keep too.
    sums: of each measure, by the axes of their tables, in the measure's steps.
    """

    schema: Schema
    total: float
    answers: Callable[[Places], Floats]
    larger: Mapping[Places, Floats]
    sums: Mapping[str, Mapping[Places, Floats]]

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        places = tuple(self.schema.domain.place(grouping.name) for grouping in groupings)
        table = self.answers(tuple(sorted(places)))
        return gather_margin(table if places == tuple(sorted(places)) else table.T, groupings)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        rows = self._drawing.draw(len(places), random)
        codes = dict(zip(self.schema.domain.names, rows, strict=True))
        return Block(codes, {name: self._means(name, rows) for name in self.sums})

    def _means(self, name: str, rows: Codes) -> Floats:
        measure, share = summed(self.schema)[name], rows.shape[1] / max(self.total, 1.0)
        most = float(measure.half_units)
        steps = row_means(rows, {places: share * table for places, table in self.sums[name].items()}, most)
        means = float(measure.centre) + steps * float(measure.step)
        return np.clip(means, float(measure.lower), float(measure.upper))

    @cached_property
    def _drawing(self) -> Drawing:
        singles, pairs = possible_margins(self.schema.domain, self.answers)
        return Drawing.by([single for _, single in singles], dict(pairs) | dict(self.larger))


def row_means(rows: Codes, sums: Mapping[Places, Floats], largest: float) -> Floats:
    """What is expected of each row, so that rows add up to sums along some axes: a part from every table's cell.

    rows: codes by attribute and row. largest: what is expected of no row, up or down.

    >>> sums = {(0,): np.array([6.0, 2.0]), (1,): np.array([4.0, 4.0])}
    >>> row_means(np.array([[0, 0, 1], [0, 1, 1]]), sums, 9.0).round(1)
    array([4., 2., 2.])
    """
    means: Floats = np.zeros(rows.shape[1])
    cells = {places: np.ravel_multi_index(tuple(rows[list(places)]), table.shape) for places, table in sums.items()}
    held = {places: np.maximum(np.bincount(cell, minlength=sums[places].size), 1) for places, cell in cells.items()}
    for _ in range(ROUNDS):
        for places, cell in cells.items():
            lacking = sums[places].reshape(-1) - np.bincount(cell, means, minlength=sums[places].size)
            means = np.clip(means + (lacking / held[places])[cell], -largest, largest)
    return means
