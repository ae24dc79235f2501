"""Which tables of sums to measure, and with which shares of the budget.

Noise on every cell is what anyone could do. So two things are asked of shares. No kind of question may have more than
`MOST_LOST` times the error that noise on every cell leaves in it: the least share of the cells with which that can be
kept whatever averages are is set aside first, before anything is learned that might mislead. And the regret is least:
the variance of a kind over that which it would have if the table that serves it best had all that is left, averaged
over kinds, so that no kind is dear because it has many cells.

Shares are moved from table to table, much at a time and then less, as long as that gains.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.averages.design import Asked

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
