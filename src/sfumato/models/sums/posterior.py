"""The posterior of sums of cells: counts times averages, averages made of effects, some tables of sums measured.

Let n be the estimated counts. The sum of cell c is n_c times the effects of the regions that hold it, one for each
table, and what is its own: a normal part with variance w_c. Tables were measured with normal noise, as all noise is
taken here; that of the cells by themselves has variance v (infinite if they were not). Given the effects and the noisy
cells, cells are independent with variances q = 1 / (1/w + 1/v); the effects are as many numbers as the tables have
regions, and so are the other measurements. So there are two sets of equations to solve, neither in the number of cells:

    L = I + G' diag(1 / (w + v)) G,     G: effects to cells, n_c times the effect's deviation
    E = B (Q + R L^-1 R') B' + V,       B: cells to the other measured regions, R = diag(v / (w + v)) G

The covariance of any weighted sums of cells is C'QC + (W'C)' P (W'C) with W = [R, Q B'] and one matrix P.
"""

from __future__ import annotations

from functools import cached_property
from math import inf

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.sums.tables import Table, crossed, gathered

LEAST_VARIANCE = 1e-9  # of what is a cell's own, in rows: no division by nothing


@dataclass(frozen=True)
class Effects:
    """How far averages differ, as variances, where a row adds between -1 and 1.

    tables: whose regions have an effect each. between: of the effects of every table. inside: between cells of a
    region. rows: between rows of a cell. besides: of a cell's sum, in rows, whatever its count: counts are off too.
    """

    tables: tuple[Table, ...]
    between: tuple[float, ...]
    inside: float
    rows: float
    besides: float

    def own(self, counts: Floats) -> Floats:
        """The variance of what is each cell's own."""
        return np.maximum(counts**2 * self.inside + counts * self.rows + self.besides, LEAST_VARIANCE)


@dataclass(frozen=True, eq=False)
class Seen:
    """A table that was measured: its noisy sums, in what a row adds at most, and the variance of the noise."""

    table: Table
    answers: Floats
    variance: float


@dataclass(frozen=True, eq=False)
class Posterior:
    """Sums of cells, given counts, how averages differ, and what was measured."""

    counts: Floats
    effects: Effects
    seen: tuple[Seen, ...]

    @cached_property
    def estimate(self) -> Floats:
        """The posterior mean of every cell's sum."""
        noisy = self._cells[1]
        told = [gathered(label, tau * self.counts * self._pull * noisy, size) for label, tau, size in self._levels]
        found = self._freedom * self._out(self._inverse @ np.concatenate([*told, np.zeros(0)]))
        found += (1.0 - self._freedom) * noisy
        if not self._coarse:
            return found
        sums = np.concatenate([gathered(label, found, size) for label, size in self._regions])
        missed = np.linalg.solve(self._spread, np.concatenate([one.answers for one in self._coarse]) - sums)
        found += self._freedom * self._out(self._inverse @ self._crossing.T @ missed)
        ends = np.cumsum([size for _, size in self._regions])[:-1]
        for (label, _), part in zip(self._regions, np.split(missed, ends), strict=True):
            found += self.own_left * part[label]
        return found

    def covariance(self, columns: Floats) -> Floats:
        """Of weighted sums of cells, (cells, sums)."""
        seen = np.concatenate([self.reduced(*one, columns) for one in self.coordinates])
        return np.asarray(columns.T @ (self.own_left[:, None] * columns) + seen.T @ self.mixed @ seen)

    @staticmethod
    def reduced(label: Codes, size: int, factor: Floats, columns: Floats) -> Floats:
        """Weights of cells, times a factor, summed by region: (regions, sums)."""
        return np.stack([gathered(label, factor * one, size) for one in columns.T], axis=1)

    @cached_property
    def own_left(self) -> Floats:
        """The variance of each cell given all effects and its own noisy sum."""
        return self._own * self._freedom

    @cached_property
    def coordinates(self) -> list[tuple[Codes, int, Floats]]:
        """W, by its blocks: the region of every cell, how many there are, and the factor of every cell."""
        effects = [(label, size, tau * self.counts * self._freedom) for label, tau, size in self._levels]
        return [*effects, *((label, size, self.own_left) for label, size in self._regions)]

    @cached_property
    def mixed(self) -> Floats:
        """P."""
        inverse, first = self._inverse, len(self._inverse)
        whole = np.zeros((first + len(self._spread),) * 2)
        whole[:first, :first] = inverse
        if self._coarse:
            both = np.vstack([inverse @ self._crossing.T, np.eye(len(self._spread))])
            whole -= both @ np.linalg.solve(self._spread, both.T)
        return (whole + whole.T) / 2.0

    @cached_property
    def _own(self) -> Floats:
        return self.effects.own(self.counts)

    @cached_property
    def _cells(self) -> tuple[float, Floats]:
        """The variance of the cells' own measurements taken together, and their mean."""
        own = [one for one in self.seen if one.table.parts == one.table.sides]
        precision = sum(1.0 / one.variance for one in own)
        if not own:
            return inf, np.zeros(len(self.counts))
        return 1.0 / precision, np.asarray(sum(one.answers / one.variance for one in own) / precision)

    @cached_property
    def _pull(self) -> Floats:
        return np.asarray(1.0 / (self._own + self._cells[0]))

    @cached_property
    def _freedom(self) -> Floats:
        """How much of a cell is not settled by its own noisy sum."""
        return np.ones_like(self._own) if self._cells[0] == inf else self._cells[0] * self._pull

    @cached_property
    def _coarse(self) -> list[Seen]:
        return [one for one in self.seen if one.table.parts != one.table.sides]

    @cached_property
    def _regions(self) -> list[tuple[Codes, int]]:
        return [(one.table.labels(), one.table.size) for one in self._coarse]

    @cached_property
    def _levels(self) -> list[tuple[Codes, float, int]]:
        """The tables of effects: the region of every cell, the deviation of effects, and how many there are."""
        pairs = zip(self.effects.tables, self.effects.between, strict=True)
        return [(table.labels(), variance**0.5, table.size) for table, variance in pairs]

    def _out(self, effects: Floats) -> Floats:
        """What effects add to every cell."""
        found, start = np.zeros(len(self.counts)), 0
        for label, tau, size in self._levels:
            found += tau * self.counts * effects[start : start + size][label]
            start += size
        return found

    @cached_property
    def _inverse(self) -> Floats:
        """L^-1."""
        squares = self.counts**2 * self._pull
        rows = [
            [crossed(one, other, tau * sigma * squares, (size, length)) for other, sigma, length in self._levels]
            for one, tau, size in self._levels
        ]
        return np.asarray(np.linalg.inv(np.eye(sum(size for *_, size in self._levels)) + np.block(rows)))

    @cached_property
    def _crossing(self) -> Floats:
        """B R."""
        free = self.counts * self._freedom
        return np.block(
            [
                [crossed(one, other, sigma * free, (size, length)) for other, sigma, length in self._levels]
                for one, size in self._regions
            ]
        )

    @cached_property
    def _spread(self) -> Floats:
        """E."""
        if not self._coarse:
            return np.zeros((0, 0))
        cells = np.block(
            [
                [crossed(one, other, self.own_left, (size, length)) for other, length in self._regions]
                for one, size in self._regions
            ]
        )
        noise = np.concatenate([np.full(one.table.size, one.variance) for one in self._coarse])
        return cells + self._crossing @ self._inverse @ self._crossing.T + np.diag(noise)
