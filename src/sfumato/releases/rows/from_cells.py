"""Row samplers of cubes: from an estimate of every cell, or of listed cells and an evenly spread remainder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.releases.rows.measures import Sums, fit_means, summed
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, gather_margin, volumes
from sfumato.releases.rows.raking import LaidOut, Listed, ends_of, fit_all_cells, fit_margins, possible_margins
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class RowsOfCells:
    """Row sampler from an estimate of every cell.

    values: estimates by statistic, (cells,) each. errors: standard error of one cell by statistic.
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
        """Non-negative cells with the release's marginals, in the shape of the domain."""
        rows, structure = fit_all_cells(self.schema.domain, self.values["count"]), self.schema.structure
        return np.asarray(rows * structure.whole.reshape(rows.shape)) if structure is not None else rows

    @cached_property
    def _ends(self) -> Floats:
        """Cumulative distribution over the cells, (cells,)."""
        return ends_of(self._rows.reshape(-1))

    @cached_property
    def _means(self) -> dict[str, Floats]:
        """Mean of each measure in every cell, (cells,) each."""
        domain, means = self.schema.domain, {}
        for name, measure in summed(self.schema).items():
            sums = self.values[name].reshape(domain.shape)
            estimated = Sums(measure, sums, self.errors[name], self.total, float(sums.sum()))
            means[name] = fit_means(estimated, self._rows, LaidOut(domain.shape), domain).reshape(-1)
        return means


MOST_RANKED = 2**50  # cells of a domain of which each can still be hit by a random number


@dataclass(frozen=True, eq=False)
class RowsOfListedCells:
    """Row sampler from estimates of listed cells. remainder: sum over the others, by statistic."""

    schema: Schema
    values: Mapping[str, Floats]
    errors: Mapping[str, float]
    listed: Codes
    remainder: Mapping[str, float]

    @property
    def total(self) -> float:
        return float(self.values["count"].sum()) + self.remainder["count"]

    @property
    def _hidden(self) -> int:
        return self.schema.domain.size - len(self.listed)

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        """Marginal counts of the listed cells with an even share of the remainder, as the release answers."""
        domain, shape = self.schema.domain, tuple(grouping.size for grouping in groupings)
        label = np.zeros(len(self.listed), dtype=np.int64)
        for grouping in groupings:
            label = label * grouping.size + grouping.labels(domain.codes_along(grouping.name, self.listed))
        size = prod(shape)
        counts = np.bincount(label, weights=self.values["count"], minlength=size)
        shown = np.bincount(label, minlength=size)
        hidden = volumes(groupings, dict(zip(domain.names, domain.shape, strict=True))) - shown.reshape(shape)
        each = self.remainder["count"] / self._hidden if self._hidden else 0.0
        return np.asarray(counts.reshape(shape) + hidden * each, dtype=np.float64)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        domain = self.schema.domain
        index = np.searchsorted(self._ends, places, side="right")
        elsewhere = index == len(self.listed)
        cells = np.append(self.listed, 0)[index]
        codes = {name: domain.codes_along(name, cells) for name in domain.names}
        if elsewhere.any():
            others = self._anywhere(int(elsewhere.sum()), random)
            for name, along in codes.items():
                along[elsewhere] = others[name]
        return Block(codes, {name: means[index] for name, means in self._means.items()})

    def _anywhere(self, rows: int, random: RandomNumbers) -> dict[str, Codes]:
        """Cells drawn uniformly from those that are not listed."""
        domain = self.schema.domain
        if domain.size > MOST_RANKED:  # listed ones are too few to be hit
            drawn = {axis.name: np.floor(random.uniform(rows) * axis.size) for axis in domain}
            return {name: np.minimum(codes, domain[name].size - 1).astype(np.int64) for name, codes in drawn.items()}
        ranks = np.minimum((random.uniform(rows) * self._hidden).astype(np.int64), self._hidden - 1)
        # The listed cell number i has listed[i] - i others before it.
        cells = ranks + np.searchsorted(self.listed - np.arange(len(self.listed)), ranks, side="right")
        return {name: domain.codes_along(name, cells) for name in domain.names}

    @cached_property
    def _rows(self) -> Floats:
        """Rows of each listed cell, then of all others, (listed + 1,)."""
        counts, remainder = self.values["count"], self.remainder["count"] if self._hidden else 0.0
        if remainder >= 0:
            return np.append(np.maximum(counts, 0.0), remainder)
        domain = self.schema.domain

        def answers(axes: tuple[int, ...]) -> Floats:
            return self.margin([Grouping.of(domain.axes[place], domain.size) for place in axes])

        singles, pairs = possible_margins(domain, answers)
        fitted = fit_margins(Listed(domain, self.listed), np.maximum(counts, 0.0), singles, pairs)
        return np.append(fitted, 0.0)

    @cached_property
    def _ends(self) -> Floats:
        return ends_of(self._rows)

    @cached_property
    def _means(self) -> dict[str, Floats]:
        domain, result = self.schema.domain, {}
        for name, measure in summed(self.schema).items():
            whole = float(self.values[name].sum()) + self.remainder[name]
            estimated = Sums(measure, self.values[name], self.errors[name], self.total, whole)
            hidden_rows = max(self._rows[-1], 0.0) + estimated.worth
            pull = (estimated.overall - float(measure.centre)) / float(measure.step) * estimated.worth
            means = fit_means(estimated, self._rows[:-1], Listed(domain, self.listed), domain)
            result[name] = np.append(means, estimated.mean(self.remainder[name] + pull, hidden_rows))
        return result
