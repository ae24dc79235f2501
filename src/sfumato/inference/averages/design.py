"""Which tables of sums to measure, and with which shares of the budget: by what that leaves unknown in the questions.

If all cells held as many rows as any other, every table would answer some of the same spaces: what varies from part to
part of exactly these levels of the axes (an analysis of variance). A space is known as precisely as all tables inside
it tell together, and from what is expected of effects. So the variance that shares leave in a question is a sum over
spaces. What is least in the end is the regret, averaged over all kinds of question: the variance over that which the
kind would have if the table that serves it best had all of the budget. So no kind is dear because it has many cells.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.averages.posterior import Effects
from sfumato.inference.averages.tables import Table, gathered

ROUNDS = 60  # in which shares settle
SMALLEST = 1 / 64  # share: what would get less gets nothing


@dataclass(frozen=True, eq=False)
class Asked:
    """Kinds of question: what each asks of every space, and how much it matters.

    tables: whose regions' variation the spaces are, the total first and cells last. energies: (kinds, spaces).
    """

    tables: Sequence[Table]
    energies: Floats
    weights: Floats

    @classmethod
    def of(cls, tables: Sequence[Table], kinds: Sequence[Floats], weights: Floats) -> Asked:
        """kinds: some questions of each, weights on the cells, (questions, cells)."""
        labels = [table.labels() for table in tables[:-1]]
        rows = []
        for questions in kinds:
            inside = [_projected(questions, label, table) for label, table in zip(labels, tables, strict=False)]
            inside.append(float(np.square(questions).sum(axis=1).mean()))
            rows.append(_apart(tables, inside))
        return cls(tables, np.array(rows), weights / weights.sum())


def best_shares(asked: Asked, counts: Floats, effects: Effects, unit: float, told: Floats, *, pure: bool) -> Floats:
    """For each table, the share of the budget that leaves least; many are 0.

    unit: the variance of noise that costs everything. told: of each space, how precisely it is known already.
    """
    problem = _Problem(asked, _prior(asked.tables, counts, effects), told, unit, 2 if pure else 1)
    count = len(asked.tables)
    found = [problem.settled(np.full(count, 1.0 / count)), *np.eye(count)]
    return min(found, key=problem.price)


def precisions(tables: Sequence[Table], variances: Floats) -> Floats:
    """How precisely each space is known from tables measured with such noise, each once; inf: not at all."""
    inside = np.array([[one.within(space) for one in tables] for space in tables], dtype=np.float64)
    return np.asarray(inside @ (np.array([table.cells for table in tables]) / variances))


@dataclass(frozen=True, eq=False)
class _Problem:
    asked: Asked
    prior: Floats
    told: Floats
    unit: float
    power: int

    def price(self, shares: Floats) -> float:
        return float(self.asked.weights @ (self._left(shares)[1] / self._best))

    def settled(self, shares: Floats) -> Floats:
        """Shares grow with what a little more of them gains, until all that have any gain alike."""
        for done in range(ROUNDS):
            spaces, _ = self._left(shares)
            gain = (self.asked.weights / self._best) @ self.asked.energies * spaces**2
            each = self._inside.T @ gain * shares ** (self.power - 1)
            shares = shares * np.sqrt(each + 1e-300)
            shares /= shares.sum()
            if done == ROUNDS // 2:
                shares = _without_small(shares)
        return _without_small(shares)

    @cached_property
    def _inside(self) -> Floats:
        """How precisely each space would be told by each table with all of the budget, (spaces, tables)."""
        tables = self.asked.tables
        return np.array([[one.cells * one.within(space) for one in tables] for space in tables]) / self.unit

    @cached_property
    def _best(self) -> Floats:
        """The variance of every kind of question if the table that serves it best had all of the budget."""
        return np.asarray(np.min([self._left(alone)[1] for alone in np.eye(len(self.asked.tables))], axis=0))

    def _left(self, shares: Floats) -> tuple[Floats, Floats]:
        """The variance left in every space, and in every kind of question."""
        spaces = 1.0 / (1.0 / self.prior + self.told + self._inside @ shares**self.power)
        return spaces, self.asked.energies @ spaces


def _without_small(shares: Floats) -> Floats:
    kept = np.where(shares >= min(SMALLEST, shares.max()), shares, 0.0)
    return np.asarray(kept / kept.sum())


def _prior(tables: Sequence[Table], counts: Floats, effects: Effects) -> Floats:
    """The variance expected in every space."""
    each = [(tables[-1], float(effects.own(counts).mean()))]
    for table, variance in zip(effects.tables, effects.between, strict=True):
        in_regions = gathered(table.labels(), counts, table.size)
        each.append((table, variance * float(np.square(in_regions).mean()) / table.cells))
    return np.array([sum(variance for table, variance in each if table.within(space)) for space in tables])


def _projected(questions: Floats, label: Codes, table: Table) -> float:
    """The mean squared length of questions where all cells of a region weigh the same."""
    sizes = np.bincount(label, minlength=table.size)
    return float(np.mean([(np.square(gathered(label, one, table.size)) / sizes).sum() for one in questions]))


def _apart(tables: Sequence[Table], inside: Sequence[float]) -> list[float]:
    """What is asked of each space alone: of a table, less that of the tables around it."""
    found: list[float] = []
    for place, table in enumerate(tables):
        around = sum(found[other] for other in range(place) if table.within(tables[other]))
        found.append(max(inside[place] - around, 0.0))
    return found
