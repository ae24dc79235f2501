"""Guaranteed bounds of a weighted sum of a measure, from noisy tables of sums and bounds of counts.

A row adds between -unit and unit. For a table, replace the weights w (cells,) by one weight per region: the noisy
region sums bound that sum by their noise, and the difference is at most unit times the weighted count of |w - common
weight|, which has a guaranteed upper bound of its own. Without any table, a sum is at most unit times the weighted
count of |w|.

Tail. Which tables were measured depends on noisy counts and on a first measurement of the cells. So the counts' half of
the tail is divided among all candidate tables, which the schema fixes. Of the other half, the table measured first has
half if there are others, since these depend on its noise; the others have even parts (union bound).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.noise_sum import Ends, lowest
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.models.sums.tables import Table, candidates

if TYPE_CHECKING:
    from sfumato.models.sums.fit import AveragesFit

Find = Callable[[Floats, Floats, float], Ends]


def of_sums(fit: AveragesFit, domain: Domain, rows: Find) -> Find:
    """Guaranteed bounds of sums as a function of weights and tail. rows: the same function for counts."""
    possible = len(candidates(domain)) + 1
    parts = [(table, table.labels(), places) for table, places in fit.blocks]

    def lower(weights: Floats, tail: float) -> float:
        of_counts = tail / (2.0 * possible)
        bounds = [-_most(np.abs(weights), of_counts)]
        for number, (table, labels, places) in enumerate(parts):
            alone = len(parts) == 1
            of_noise = tail / 2.0 * (1.0 if alone else 0.5 if number == 0 else 0.5 / (len(parts) - 1))
            common = _common(weights, table, labels)
            off = np.abs(weights - common[labels])
            beside = _most(off, of_counts) if off.any() else 0.0
            bounds.append(lowest(fit.measurement, places, common, of_noise) - beside)
        return max(bounds)

    def _most(weights: Floats, tail: float) -> float:
        return fit.unit * max(rows(weights, weights, tail).high, 0.0)

    return lambda low, high, tail: Ends(lower(low, tail), -lower(-high, tail))


def _common(weights: Floats, table: Table, labels: Codes) -> Floats:
    """Weight of most cells of each region where two occur, otherwise the extreme nearer to the mean, (regions,)."""
    least, most = np.full(table.size, np.inf), np.full(table.size, -np.inf)
    np.minimum.at(least, labels, weights)
    np.maximum.at(most, labels, weights)
    sizes = np.bincount(labels, minlength=table.size)
    mean = np.bincount(labels, weights=weights, minlength=table.size) / sizes
    return np.asarray(np.where(2.0 * mean >= least + most, most, least))
