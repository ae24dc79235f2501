"""Allocate a measure's budget among tables of sums: minimise regret under a bound on the loss of any kind of query.

If all cells held equally many rows, the tables would decompose cell space into orthogonal subspaces, one per table (an
analysis of variance). Subspace s has a prior variance p_s, in `BINS` bins from the emptiest to the fullest regions, and
every table t that refines it adds precision (cells of a region) / (noise variance of t). A kind of query with energy
e_s in subspace s has variance: sum over s of e_s / (1 / p_s + precision_s).

First, the least share of the table of cells with which no kind exceeds `MOST_LOST` times the error of noise on every
cell, whatever averages are. Then regret is minimised: the variance of a kind over that with the whole remainder on its
best table, averaged over kinds, by coordinate exchange in steps that are halved. Own method.
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
class QueryKinds:
    """Kinds of query: their energy in every subspace, and their weights.

    tables: of whose regions the subspaces are the variation, the total first and cells last. energies: (kinds, spaces).
    weights: (kinds,), sum 1.
    """

    tables: Sequence[Table]
    energies: Floats
    weights: Floats

    @classmethod
    def of(cls, tables: Sequence[Table], kinds: Sequence[Floats], weights: Floats) -> QueryKinds:
        """Energies from sample queries: of each kind an array of weights on cells, (queries, cells)."""
        labels = [table.labels() for table in tables[:-1]]
        rows = []
        for questions in kinds:
            inside = [_projected(questions, label, table) for label, table in zip(labels, tables, strict=False)]
            inside.append(float(np.square(questions).sum(axis=1).mean()))
            rows.append(_apart(tables, inside))
        return cls(tables, np.array(rows), weights / weights.sum())


def precisions(tables: Sequence[Table], variances: Floats) -> Floats:
    """Precision of every subspace (spaces,) from tables measured once with these noise variances; inf: unmeasured."""
    inside = np.array([[one.within(space) for one in tables] for space in tables], dtype=np.float64)
    return np.asarray(inside @ (np.array([table.cells for table in tables]) / variances))


def of_effects(tables: Sequence[Table], counts: Floats, effects: Effects) -> Floats:
    """Prior variance of every subspace by bins of its regions, (spaces, BINS), from variance components."""
    terms = [(tables[-1], _binned(effects.own(counts)))]
    for table, variance in zip(effects.tables, effects.between, strict=True):
        in_regions = gathered(table.labels(), counts, table.size)
        terms.append((table, _binned(variance * np.square(in_regions) / table.cells)))
    nothing = np.zeros(BINS)
    return np.array([sum((bins for table, bins in terms if table.within(space)), nothing) for space in tables])


def of_anything(tables: Sequence[Table], counts: Floats, besides: float) -> Floats:
    """Largest prior variance of every subspace by bins, (spaces, BINS), whatever averages are.

    A row adds between -1 and 1, so a sum is off by at most its count. besides: variance of a cell's sum from the error
    of its count.
    """
    in_regions = [gathered(table.labels(), counts, table.size) for table in tables[:-1]] + [counts]
    pairs = zip(tables, in_regions, strict=True)
    return np.array([_binned(np.square(rows) / table.cells + besides) for table, rows in pairs])


def _binned(values: Floats) -> Floats:
    """Means of `BINS` equal parts of the sorted values."""
    ranks = np.sort(values)
    if len(ranks) < BINS:
        return ranks[np.arange(BINS) * len(ranks) // BINS]
    starts = np.arange(BINS) * len(ranks) // BINS
    return np.asarray(np.add.reduceat(ranks, starts) / np.diff([*starts, len(ranks)]))


def _projected(questions: Floats, label: Codes, table: Table) -> float:
    """Mean squared norm of queries projected on weights constant within regions."""
    sizes = np.bincount(label, minlength=table.size)
    return float(np.mean([(np.square(gathered(label, one, table.size)) / sizes).sum() for one in questions]))


def _apart(tables: Sequence[Table], inside: Sequence[float]) -> list[float]:
    """Energy in each subspace alone: that of a table less those of the coarser tables that it refines."""
    energies: list[float] = []
    for index, table in enumerate(tables):
        around = sum(energies[other] for other in range(index) if table.within(tables[other]))
        energies.append(max(inside[index] - around, 0.0))
    return energies


MOST_LOST = 2**0.5  # of the error of any kind of question, over that from noise on every cell
FINEST = 6  # times that a share is halved before it is moved
PENALTY = 1e6  # for what is lost beyond that: more than anything can gain
GAIN = 1e-9  # that is not only rounding


@dataclass(frozen=True, eq=False)
class Problem:
    """Variance of every kind of query as a function of the shares.

    prior: (spaces, bins), prior variances. told: (spaces,), precisions from earlier measurements. unit: noise variance
    of a sum that has the whole remainder; plain: of one that has the whole budget. pure: noise variance falls with the
    square of a share.
    """

    asked: QueryKinds
    prior: Floats
    told: Floats
    unit: float
    plain: float
    pure: bool

    def best_shares(self) -> Floats:
        """Shares of the remainder with least regret, (tables,); many are 0."""
        count = len(self.asked.tables)
        starts = [np.full(count, 1.0 / count), *np.eye(count)[[0, -1]]]
        found = [self._moved(start, self._regret) for start in starts]
        return min(found, key=lambda shares: float(self._regret(shares[None])[0]))

    def least_for_cells(self) -> float:
        """Least share of the table of cells with which no kind exceeds the bound on its loss."""
        shares = self._moved(np.eye(len(self.asked.tables))[-1], lambda some: some[:, -1] + self._beyond(some))
        return float(shares[-1])

    def ratios(self, shares: Floats) -> Floats:
        """Variance of kinds of question over that of noise on cells: (candidates, tables) -> (candidates, kinds)."""
        known = self.told + shares ** (2 if self.pure else 1) @ self._inside.T
        left = np.mean(1.0 / (1.0 / self.prior + known[:, :, None]), axis=2)
        return np.asarray(left @ (self.asked.energies / self._of_cells[:, None]).T)

    def _regret(self, shares: Floats) -> Floats:
        """Mean regret over kinds, plus the penalty, (candidates,)."""
        return np.asarray(self.ratios(shares) @ (self.asked.weights / self._best) + self._beyond(shares))

    def _beyond(self, shares: Floats) -> Floats:
        """Penalty for kinds beyond the bound on their loss, (candidates,)."""
        return np.asarray(PENALTY * np.maximum(self.ratios(shares) - MOST_LOST**2, 0.0).sum(axis=1))

    @staticmethod
    def _moved(shares: Floats, price: Callable[[Floats], Floats]) -> Floats:
        """Descend by exchange: move shares between pairs of tables while the objective `price` falls."""
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
        """Variance of every kind from noise on every cell, (kinds,)."""
        return np.asarray(self.plain * self.asked.energies.sum(axis=1))

    @cached_property
    def _inside(self) -> Floats:
        """Precision that each table would add to each subspace with the whole remainder, (spaces, tables)."""
        tables = self.asked.tables
        return np.array([[one.cells * one.within(space) for one in tables] for space in tables]) / self.unit

    @cached_property
    def _best(self) -> Floats:
        """Variance ratio of each kind of question if all of the budget went to the table best for it, (kinds,)."""
        return np.asarray(self.ratios(np.eye(len(self.asked.tables))).min(axis=0))
