"""What questions ask of tables of sums, and what tables tell: as a sum over levels at which averages may vary.

If all cells held as many rows as any other, every table would answer some of the same spaces: what varies from part to
part of exactly these levels of the axes (an analysis of variance). A space is known as precisely as all tables inside
it tell together, and from what is expected of effects. So the variance that is left in a question is a sum over spaces.

Which tables of sums to measure, and with which shares of the budget.

Noise on every cell is what anyone could do. So two things are asked of shares. No kind of question may have more than
`MOST_LOST` times the error that noise on every cell leaves in it: the least share of the cells with which that can be
kept whatever averages are is set aside first, before anything is learned that might mislead. And the regret is least:
the variance of a kind over that which it would have if the table that serves it best had all that is left, averaged
over kinds, so that no kind is dear because it has many cells.

Shares are moved from table to table, much at a time and then less, as long as that gains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.models.sums.posterior import Effects
from sfumato.models.sums.tables import Table, gathered

BINS = 8  # of regions of a table, from the emptiest to the fullest, whose variances are told apart


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


def precisions(tables: Sequence[Table], variances: Floats) -> Floats:
    """How precisely each space is known from tables measured with such noise, each once; inf: not at all."""
    inside = np.array([[one.within(space) for one in tables] for space in tables], dtype=np.float64)
    return np.asarray(inside @ (np.array([table.cells for table in tables]) / variances))


def of_effects(tables: Sequence[Table], counts: Floats, effects: Effects) -> Floats:
    """The variance expected in every space, in bins of its regions: (spaces, BINS)."""
    each = [(tables[-1], _binned(effects.own(counts)))]
    for table, variance in zip(effects.tables, effects.between, strict=True):
        in_regions = gathered(table.labels(), counts, table.size)
        each.append((table, _binned(variance * np.square(in_regions) / table.cells)))
    nothing = np.zeros(BINS)
    return np.array([sum((bins for table, bins in each if table.within(space)), nothing) for space in tables])


def of_anything(tables: Sequence[Table], counts: Floats, besides: float) -> Floats:
    """The same, whatever averages are: a row adds between -1 and 1, so a sum is off by its count at most.

    besides: the variance of a cell's sum because its count is off.
    """
    in_regions = [gathered(table.labels(), counts, table.size) for table in tables[:-1]] + [counts]
    pairs = zip(tables, in_regions, strict=True)
    return np.array([_binned(np.square(rows) / table.cells + besides) for table, rows in pairs])


def _binned(values: Floats) -> Floats:
    """The means of equal parts of all values, in order."""
    ranks = np.sort(values)
    if len(ranks) < BINS:
        return ranks[np.arange(BINS) * len(ranks) // BINS]
    starts = np.arange(BINS) * len(ranks) // BINS
    return np.asarray(np.add.reduceat(ranks, starts) / np.diff([*starts, len(ranks)]))


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


MOST_LOST = 2**0.5  # of the error of any kind of question, over that from noise on every cell
FINEST = 6  # times that a share is halved before it is moved
PENALTY = 1e6  # for what is lost beyond that: more than anything can gain
GAIN = 1e-9  # that is not only rounding


@dataclass(frozen=True, eq=False)
class Problem:
    """What shares leave unknown.

    prior: the variance expected in every space, (spaces, bins). told: how precisely each space is known already.
    unit: the variance of noise that costs all that is left; plain: the same for all that there ever was. pure: shares
    of epsilon, so that noise falls with their squares.
    """

    asked: Asked
    prior: Floats
    told: Floats
    unit: float
    plain: float
    pure: bool

    def best_shares(self) -> Floats:
        """For each table, the share of what is left with which the regret is least; many are 0."""
        count = len(self.asked.tables)
        starts = [np.full(count, 1.0 / count), *np.eye(count)[[0, -1]]]
        found = [self._moved(start, self._regret) for start in starts]
        return min(found, key=lambda shares: float(self._regret(shares[None])[0]))

    def least_for_cells(self) -> float:
        """The least share of the table of cells with which no kind loses too much."""
        shares = self._moved(np.eye(len(self.asked.tables))[-1], lambda some: some[:, -1] + self._beyond(some))
        return float(shares[-1])

    def ratios(self, shares: Floats) -> Floats:
        """The variance left in every kind of question over that of noise on every cell, (shares, kinds)."""
        known = self.told + shares ** (2 if self.pure else 1) @ self._inside.T
        left = np.mean(1.0 / (1.0 / self.prior + known[:, :, None]), axis=2)
        return np.asarray(left @ (self.asked.energies / self._of_cells[:, None]).T)

    def _regret(self, shares: Floats) -> Floats:
        return np.asarray(self.ratios(shares) @ (self.asked.weights / self._best) + self._beyond(shares))

    def _beyond(self, shares: Floats) -> Floats:
        return np.asarray(PENALTY * np.maximum(self.ratios(shares) - MOST_LOST**2, 0.0).sum(axis=1))

    @staticmethod
    def _moved(shares: Floats, price: Callable[[Floats], Floats]) -> Floats:
        """Shares after all moves from one table to another that make the price less."""
        best = price(shares[None])[0]
        places = np.arange(len(shares))
        giver, taker = (each.reshape(-1) for each in np.meshgrid(places, places))
        for halved in range(FINEST + 1):
            step = 0.5**halved
            while True:
                some = np.minimum(shares[giver], step)
                moved = np.repeat(shares[None], len(giver), axis=0)
                moved[np.arange(len(giver)), giver] -= some
                moved[np.arange(len(giver)), taker] += some
                prices = price(moved)
                first = int(np.argmin(prices))
                if not prices[first] < best - GAIN:
                    break
                shares, best = moved[first], prices[first]
        return shares

    @cached_property
    def _of_cells(self) -> Floats:
        """The variance of every kind of question from noise on every cell."""
        return np.asarray(self.plain * self.asked.energies.sum(axis=1))

    @cached_property
    def _inside(self) -> Floats:
        """How precisely each space would be told by each table with all that is left, (spaces, tables)."""
        tables = self.asked.tables
        return np.array([[one.cells * one.within(space) for one in tables] for space in tables]) / self.unit

    @cached_property
    def _best(self) -> Floats:
        """What each kind of question would have if the table that serves it best had all that is left."""
        return np.asarray(self.ratios(np.eye(len(self.asked.tables))).min(axis=0))
