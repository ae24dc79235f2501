"""Rows from an estimate for every cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.releases.rows.layouts import LaidOut, ends_of
from sfumato.releases.rows.measures import Sums, fit_means, summed
from sfumato.releases.rows.model import Block, Grouping, gather_margin
from sfumato.releases.rows.raking import fit_all_cells
from sfumato.releases.rows.random_numbers import RandomNumbers
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class RowsOfCells:
    """Rows of a content with an estimate for every cell.

    values: the estimates of each statistic in each cell. errors: the standard error of one cell.
    """

    schema: Schema
    values: Mapping[str, Floats]
    errors: Mapping[str, float]

    @property
    def total(self) -> float:
        return float(self.values["count"].sum())

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        domain = self.schema.domain
        axes = tuple(domain.place(grouping.name) for grouping in groupings)
        table = LaidOut(domain.shape).along(self.values["count"].reshape(domain.shape), axes)
        return gather_margin(table if axes == tuple(sorted(axes)) else table.T, groupings)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        cells = np.searchsorted(self._ends, places, side="right")
        domain = self.schema.domain
        codes = {name: domain.codes_along(name, cells) for name in domain.names}
        return Block(codes, {name: means[cells] for name, means in self._means.items()})

    @cached_property
    def _rows(self) -> Floats:
        return fit_all_cells(self.schema.domain, self.values["count"])

    @cached_property
    def _ends(self) -> Floats:
        """Where each cell ends, on a line from 0 to 1."""
        return ends_of(self._rows.reshape(-1))

    @cached_property
    def _means(self) -> dict[str, Floats]:
        domain, found = self.schema.domain, {}
        for name, measure in summed(self.schema).items():
            sums = self.values[name].reshape(domain.shape)
            known = Sums(measure, sums, self.errors[name], self.total, float(sums.sum()))
            found[name] = fit_means(known, self._rows, LaidOut(domain.shape), domain).reshape(-1)
        return found
