"""Row samplers of cubes: from an estimate of every cell, or of listed cells and an evenly spread remainder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain.predicates import Predicate
from sfumato.frozen import dataclass
from sfumato.releases.rows.condition import EVERYTHING, possible_inside, share_of_cells, uniform_inside, volumes_under
from sfumato.releases.rows.measures import Sums, fit_means, summed
from sfumato.releases.rows.model import Block, Grouping, RandomNumbers, gather_margin
from sfumato.releases.rows.raking import (
    LaidOut,
    Listed,
    draw_balanced,
    ends_of,
    fit_all_cells,
    fit_margins,
    possible_margins,
)
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class RowsOfCells:
    """Row sampler from an estimate of every cell.

    values: estimates by statistic, (cells,) each. errors: standard error of one cell by statistic. whole, share: the
    sampler of all rows, and the share of each of its cells that fulfils a condition; then values are those inside.
    """

    schema: Schema
    values: Mapping[str, Floats]
    errors: Mapping[str, float]
    whole: RowsOfCells | None = None
    share: Floats | None = None

    @property
    def total(self) -> float:
        return float(self.values["count"].sum())

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        domain = self.schema.domain
        axes = tuple(domain.place(grouping.name) for grouping in groupings)
        table = LaidOut(domain.shape).along(self.values["count"].reshape(domain.shape), axes)
        return gather_margin(np.transpose(table, np.argsort(np.argsort(axes))), groupings)

    def given(self, where: Predicate) -> RowsOfCells:
        share, shape = share_of_cells(where, self.schema), self.schema.domain.shape
        values = {of: (cells.reshape(shape) * share).reshape(-1) for of, cells in self.values.items()}
        return replace(self, values=values, whole=self, share=share)

    def by(self, names: Sequence[str]) -> RowsOfGroups:
        return RowsOfGroups(self, tuple(map(self.schema.domain.place, names)))

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        def at(places: Floats, _: RandomNumbers) -> Block:
            return self.block(np.searchsorted(self._ends, places, side="right"))

        return draw_balanced(at, places, self._shares, random)

    @cached_property
    def _shares(self) -> dict[str, Floats]:
        """Rows of each attribute's values."""
        layout = LaidOut(self.rows.shape)
        return {name: layout.along(self.rows, (place,)) for place, name in enumerate(self.schema.domain.names)}

    def block(self, cells: Codes) -> Block:
        """Rows in given cells, (rows,)."""
        domain = self.schema.domain
        codes = {name: domain.codes_along(name, cells) for name in domain.names}
        return Block(codes, {name: means[cells] for name, means in self._means.items()})

    @cached_property
    def rows(self) -> Floats:
        """Non-negative cells with the release's marginals, in the shape of the domain."""
        if self.whole is not None and self.share is not None:
            return np.asarray(self.whole.rows * self.share)
        rows, structure = fit_all_cells(self.schema.domain, self.values["count"]), self.schema.structure
        return rows if structure is None else np.asarray(rows * structure.whole.reshape(rows.shape))

    @cached_property
    def _ends(self) -> Floats:
        """Cumulative distribution over the cells, (cells,)."""
        return ends_of(self.rows.reshape(-1))

    @cached_property
    def _means(self) -> dict[str, Floats]:
        """Mean of each measure in every cell, (cells,) each."""
        if self.whole is not None:
            return self.whole._means
        domain, means = self.schema.domain, {}
        for name, measure in summed(self.schema).items():
            sums = self.values[name].reshape(domain.shape)
            estimated = Sums(measure, sums, self.errors[name], self.total, float(sums.sum()))
            means[name] = fit_means(estimated, self.rows, LaidOut(domain.shape), domain).reshape(-1)
        return means


@dataclass(frozen=True, eq=False)
class RowsOfGroups:
    """Row sampler by group (`DivisibleModel.by`) from an estimate of every cell. first: axes of the groups."""

    cells: RowsOfCells
    first: tuple[int, ...]

    @property
    def total(self) -> float:
        return self.cells.total

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        return self.cells.margin(groupings)

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        index = np.searchsorted(self._ends, places, side="right")
        codes = np.unravel_index(index, [self.cells.rows.shape[axis] for axis in self._order])
        by_axis = dict(zip(self._order, codes, strict=True))
        shape = self.cells.rows.shape
        return self.cells.block(np.ravel_multi_index([by_axis[axis] for axis in range(len(shape))], shape))

    @property
    def _order(self) -> tuple[int, ...]:
        """All axes, those of the groups first."""
        return (*self.first, *(axis for axis in range(self.cells.rows.ndim) if axis not in self.first))

    @cached_property
    def _ends(self) -> Floats:
        """Cumulative distribution over the cells of each group, shifted by the group's number, (cells,)."""
        table = np.transpose(self.cells.rows, self._order)
        groups = table.reshape(prod(table.shape[: len(self.first)]), -1)
        return ends_by_group(np.where(groups.sum(axis=1, keepdims=True) > 0, groups, groups.sum(axis=0)))


def ends_by_group(rows: Floats) -> Floats:
    """Cumulative distributions over the columns of each row, plus the number of the row, in one line.

    >>> ends_by_group(np.array([[1.0, 3.0], [2.0, 0.0]])).tolist()
    [0.25, 1.0, 2.0, 2.0]
    """
    ends = np.cumsum(rows, axis=1)
    ends /= ends[:, -1:]
    ends[ends >= ends[:, -1:]] = 1.0  # the last that can be has all that is left
    return np.asarray((ends + np.arange(len(ends))[:, None]).reshape(-1))


MOST_RANKED = 2**50  # cells of a domain of which each can still be hit by a random number


TRIES = 30  # of drawing a cell that is not listed; where nearly all are, a listed one will do


@dataclass(frozen=True, eq=False)
class RowsOfListedCells:
    """Row sampler from estimates of listed cells. remainder: sum over the others, by statistic.

    where: condition that rows fulfil; all statistics are nevertheless those of all rows. first: attributes of the
    groups, where rows are drawn by group (`DivisibleModel.by`).
    """

    schema: Schema
    values: Mapping[str, Floats]
    errors: Mapping[str, float]
    listed: Codes
    remainder: Mapping[str, float]
    where: Predicate = EVERYTHING
    first: tuple[str, ...] = ()
    whole: RowsOfListedCells | None = None

    @property
    def total(self) -> float:
        if self.where != EVERYTHING:
            return float(self.margin(()))
        return float(self.values["count"].sum()) + self.remainder["count"]

    @property
    def _hidden(self) -> int:
        return self.schema.possible_cells - len(self.listed)

    def given(self, where: Predicate) -> RowsOfListedCells:
        return replace(self, where=self.where & where, whole=self.whole or self)

    def by(self, names: Sequence[str]) -> RowsOfListedCells:
        return replace(self, first=tuple(names), whole=self.whole or self)

    @cached_property
    def _share(self) -> Floats:
        """Share of each listed cell that fulfils the condition, (listed,)."""
        domain = self.schema.domain
        codes = {name: domain.codes_along(name, self.listed) for name in self.where.names}
        return np.broadcast_to(self.where.weights(domain, codes)[0], len(self.listed))

    def margin(self, groupings: Sequence[Grouping]) -> Floats:
        """Marginal counts of the listed cells with an even share of the remainder, as the release answers."""
        return self._gathered(groupings, self.values["count"], self.remainder["count"])

    def _gathered(self, groupings: Sequence[Grouping], counts: Floats, remainder: float) -> Floats:
        """Sums over the listed cells, with an even share of a remainder, under the condition."""
        shape = tuple(grouping.size for grouping in groupings)
        summed = np.bincount(self._labels(groupings), weights=counts * self._share, minlength=prod(shape))
        each = remainder / self._hidden if self._hidden else 0.0
        return np.asarray(summed.reshape(shape) + self._hidden_by(groupings) * each, dtype=np.float64)

    @cached_property
    def _shares(self) -> dict[str, Floats]:
        """Rows of each attribute's values."""
        groupings = [Grouping.of(axis, axis.size) for axis in self.schema.domain]
        return {by.name: self._gathered([by], self.rows[:-1], float(self.rows[-1])) for by in groupings}

    def _labels(self, groupings: Sequence[Grouping]) -> Codes:
        """Group of each listed cell, (listed,)."""
        label = np.zeros(len(self.listed), dtype=np.int64)
        for grouping in groupings:
            codes = self.schema.domain.codes_along(grouping.name, self.listed)
            label = label * grouping.size + grouping.labels(codes)
        return label

    def _hidden_by(self, groupings: Sequence[Grouping]) -> Floats:
        """Number of cells that fulfil the condition and are not listed, by group."""
        volumes = volumes_under(self.where, self.schema.domain, groupings, self.schema.structure)
        shown = np.bincount(self._labels(groupings), self._share, minlength=volumes.size)
        return np.asarray(np.maximum(volumes - shown.reshape(volumes.shape), 0.0))

    def draw(self, places: Floats, random: RandomNumbers) -> Block:
        return self._at(places, random) if self.first else draw_balanced(self._at, places, self._shares, random)

    def _at(self, places: Floats, random: RandomNumbers) -> Block:
        domain = self.schema.domain
        group = places.astype(np.int64)
        index = self._order[np.searchsorted(self._ends, places, side="right")]
        elsewhere = index == len(self.listed)
        cells = np.append(self.listed, 0)[index]
        codes = {name: domain.codes_along(name, cells) for name in domain.names}
        if elsewhere.any():
            others = self._anywhere(group[elsewhere], random)
            for name, along in codes.items():
                along[elsewhere] = others[name]
        return Block(codes, {name: means[index] for name, means in self._means.items()})

    def _anywhere(self, group: Codes, random: RandomNumbers) -> dict[str, Codes]:
        """Cells drawn uniformly from those of each row's group that fulfil the condition and are not listed."""
        domain, rows = self.schema.domain, len(group)
        if self.where != EVERYTHING or self.first or self.schema.structure is not None:
            return self._anywhere_inside(group, random)
        if domain.size > MOST_RANKED:  # listed ones are too few to be hit
            drawn = {axis.name: np.floor(random.uniform(rows) * axis.size) for axis in domain}
            return {name: np.minimum(codes, domain[name].size - 1).astype(np.int64) for name, codes in drawn.items()}
        ranks = np.minimum((random.uniform(rows) * self._hidden).astype(np.int64), self._hidden - 1)
        # The listed cell number i has listed[i] - i others before it.
        cells = ranks + np.searchsorted(self.listed - np.arange(len(self.listed)), ranks, side="right")
        return {name: domain.codes_along(name, cells) for name in domain.names}

    def _anywhere_inside(self, group: Codes, random: RandomNumbers) -> dict[str, Codes]:
        """As `_anywhere`, by rejection of listed and impossible cells, under a condition or with groups."""
        domain, structure = self.schema.domain, self.schema.structure
        along = np.unravel_index(group, self._group_shape) if self.first else ()
        held = dict(zip(self.first, along, strict=True))
        codes, left = np.zeros((len(domain.axes), len(group)), dtype=np.int64), np.arange(len(group))
        for _ in range(TRIES):
            now = {name: each[left] for name, each in held.items()}
            codes[:, left] = uniform_inside(self.where, domain, now, len(left), random)
            wrong = np.zeros(len(left), dtype=bool) if structure is None else ~structure.agrees(codes[:, left])
            if domain.size <= MOST_RANKED and len(self.listed):
                cells = np.ravel_multi_index(list(codes[:, left]), domain.shape)
                near = np.minimum(np.searchsorted(self.listed, cells), len(self.listed) - 1)
                wrong |= self.listed[near] == cells
            left = left[wrong]
            if not len(left):
                break
        if structure is not None and not (good := structure.agrees(codes)).all():
            keys = group if self.first else np.zeros_like(group)
            for number in np.unique(keys[~good]):
                some = np.flatnonzero(~good & (keys == number))
                mine = {name: int(each[some[0]]) for name, each in held.items()}
                codes[:, some] = possible_inside(self.where, domain, structure, mine, len(some), random)
        return dict(zip(domain.names, codes, strict=True))

    @property
    def _group_shape(self) -> tuple[int, ...]:
        return tuple(self.schema.domain[name].size for name in self.first)

    @cached_property
    def rows(self) -> Floats:
        """Rows of each listed cell, then of all others, (listed + 1,)."""
        if self.whole is not None:
            return self.whole.rows
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
    def _sorted(self) -> tuple[Codes, Floats]:
        """Listed cells group by group, each group with the others at its end: their indices, and `_ends`."""
        groupings = [Grouping.of(self.schema.domain[name], self.schema.domain[name].size) for name in self.first]
        label, groups = self._labels(groupings), prod(self._group_shape)
        each = self.rows[-1] / self._hidden if self._hidden else 0.0
        hidden = self._hidden_by(groupings).reshape(-1) * each
        order = np.argsort(np.append(label, np.arange(groups)), kind="stable")
        weights = np.append(self.rows[:-1] * self._share, hidden)[order]
        group = np.append(label, np.arange(groups))[order]
        starts = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
        lasts = np.append(starts[1:], len(order)) - 1
        weights[lasts] += np.add.reduceat(weights, starts) <= 0  # nothing is known of such a group: anywhere in it
        summed = np.cumsum(weights)
        before = summed[starts] - weights[starts]
        ends = (summed - before[group]) / (summed[lasts] - before)[group]
        last = np.maximum.reduceat(np.where(weights > 0, np.arange(len(order)), -1), starts)
        ends[np.arange(len(order)) >= last[group]] = 1.0  # no place is lost to rounding
        return np.minimum(order, len(self.listed)), ends + group

    @property
    def _order(self) -> Codes:
        return self._sorted[0]

    @property
    def _ends(self) -> Floats:
        return self._sorted[1]

    @cached_property
    def _means(self) -> dict[str, Floats]:
        if self.whole is not None:
            return self.whole._means
        domain, result = self.schema.domain, {}
        for name, measure in summed(self.schema).items():
            whole = float(self.values[name].sum()) + self.remainder[name]
            estimated = Sums(measure, self.values[name], self.errors[name], self.total, whole)
            hidden_rows = max(self.rows[-1], 0.0) + estimated.worth
            pull = (estimated.overall - float(measure.centre)) / float(measure.step) * estimated.worth
            means = fit_means(estimated, self.rows[:-1], Listed(domain, self.listed), domain)
            result[name] = np.append(means, estimated.mean(self.remainder[name] + pull, hidden_rows))
        return result
