"""The posterior of sums of cells: counts times averages, averages made of effects, some tables of sums measured.

Let n be the estimated counts. The sum of cell c is n_c times the effects of the regions that hold it, one for each
table, and what is its own: a normal part with variance w_c. Tables were measured with normal noise, as all noise is
taken here; that of the cells by themselves has variance v (infinite if they were not). Given the effects and the noisy
cells, cells are independent with variances q = 1 / (1/w + 1/v); the effects are as many numbers as the tables have
regions, and so are the other measurements. So there are two sets of equations to solve, neither in the number of cells:

    L = I + G' diag(1 / (w + v)) G,     G: effects to cells, n_c times the effect's deviation
    E = B (Q + R L^-1 R') B' + V,       B: cells to the other measured regions, R = diag(v / (w + v)) G

The covariance of any weighted sums of cells is C'QC + (W'C)' P (W'C) with W = [R, Q B'] and one matrix P.

How far averages differ, learned from noisy sums: the squares of what regions are off the mean by, less their noise.

A region's sum, less its count times the mean average, has a variance that is linear in what is to be learned: for each
table of effects the squared counts that the region has in common with its regions, and so on. Every measured table says
this of itself and of all tables that it lies inside; non-negative least squares, weighed by how surely each square is
known, finds the variances. Each is besides told once, as surely as a single region would, what to expect of values that
could lie anywhere between their bounds, so that what nothing was measured about is taken to be as it might well be.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import inf, sqrt

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


ANYWHERE = 1 / 3  # the variance of a value that lies anywhere between -1 and 1 with the same chance
ROUNDS = 4  # of weighing squares by what the last round found


def expected(tables: Sequence[Table], besides: float) -> Effects:
    """Before anything is known: the variance of a value is anything's, in even shares; the total's effect has it all.

    tables: the total, others, and that of cells.
    """
    share = ANYWHERE / len(tables)  # the tables but the total, and the rows of a cell
    between = (ANYWHERE, *[share] * (len(tables) - 2))
    return Effects(tuple(tables[:-1]), between, share, ANYWHERE, besides * ANYWHERE)


def learned(counts: Floats, before: Effects, seen: Sequence[Seen]) -> Effects:
    """What measured tables say of the variances of effects."""
    rows = float(counts.sum())
    if rows <= 0.0:
        return before
    mean = _mean(seen, rows)
    labels = [table.labels() for table in before.tables]
    said = [
        _said(_Region(labels[place], table), counts, before, labels, one, mean)
        for one in seen
        for place, table in enumerate(before.tables)
        if place and one.table.within(table)
    ]
    said += [_of_cells(counts, len(labels), one, mean) for one in seen if one.table.parts == one.table.sides]
    if not said:
        return before
    features, squares, noises = (np.concatenate(part) for part in zip(*said, strict=True))
    guess = np.array([*before.between[1:], before.inside, before.rows, before.besides])
    found, doubt = guess, np.zeros((len(guess),) * 2)
    for _ in range(ROUNDS):
        found, doubt = _weighed(features, squares, noises, found, guess)
    own = np.array([float(np.square(counts).mean()), float(counts.mean()), 1.0])
    doubtful = found[-2] + sqrt(max(float(own @ doubt[-3:, -3:] @ own), 0.0)) / own[1]
    found[-2] = max(found[-2], min(doubtful, ANYWHERE))  # or cells would seem surer than they are
    # Of cells that seem to hold no row, no more is known to be nothing than so many of them can tell.
    found[-1] = max(found[-1], min(found[-1] + sqrt(max(float(doubt[-1, -1]), 0.0)), before.besides))
    between = (before.between[0], *found[:-3].tolist())
    kept = [pair for pair in zip(before.tables, between, strict=True) if pair[1] > 0.0]
    return Effects(tuple(one for one, _ in kept), tuple(each for _, each in kept), *map(float, found[-3:]))


@dataclass(frozen=True, eq=False)
class _Region:
    label: Codes
    table: Table


def _mean(seen: Sequence[Seen], rows: float) -> float:
    precision = [1.0 / (one.variance * one.table.size) for one in seen]
    total = sum(float(one.answers.sum()) * each for one, each in zip(seen, precision, strict=True))
    return float(np.clip(total / (sum(precision) * rows), -1.0, 1.0))


def _said(
    to: _Region, counts: Floats, effects: Effects, labels: Sequence[Codes], seen: Seen, mean: float
) -> tuple[Floats, Floats, Floats]:
    """What a measured table says of a table that it lies inside: features, squares less noise, the noise."""
    size = to.table.size
    first = np.full(seen.table.size, -1)
    own = seen.table.labels() if seen.table.parts != seen.table.sides else np.arange(len(counts))
    first[own] = to.label
    answers = gathered(first, seen.answers, size)
    noise = np.asarray(seen.variance * np.bincount(first, minlength=size), dtype=np.float64)
    in_region = gathered(to.label, counts, size)
    shared = [
        np.square(crossed(to.label, label, counts, (size, table.size))).sum(axis=1)
        for label, table in zip(labels[1:], effects.tables[1:], strict=True)
    ]
    squares = gathered(to.label, counts**2, size)
    cells = np.bincount(to.label, minlength=size).astype(np.float64)
    features = np.stack([*shared, squares, in_region, cells], axis=1)
    return features, np.square(answers - mean * in_region) - noise, noise


def _of_cells(counts: Floats, tables: int, seen: Seen, mean: float) -> tuple[Floats, Floats, Floats]:
    features = np.stack([counts**2] * tables + [counts, np.ones_like(counts)], axis=1)
    noise = np.full(len(counts), seen.variance)
    return features, np.square(seen.answers - mean * counts) - noise, noise


def _weighed(features: Floats, squares: Floats, noises: Floats, found: Floats, guess: Floats) -> tuple[Floats, Floats]:
    """One round, each square weighed by one over its variance, twice the square of what is expected of it.

    Also the covariance of what is found, as if none of it had to be kept from falling below zero.
    """
    from scipy.optimize import nnls

    weights = 1.0 / (features @ found + noises)
    scaled = features * weights[:, None] * guess  # in parts of what was expected, of which 1 is told once
    gram = scaled.T @ scaled + np.eye(len(guess))
    root = np.linalg.cholesky(gram)
    answer, _ = nnls(root.T, np.linalg.solve(root, scaled.T @ (squares * weights) + 1.0))
    return np.asarray(answer * guess), 2.0 * np.linalg.inv(gram) * np.outer(guess, guess)
