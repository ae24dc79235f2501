"""Ends of sums of a measure, from tables of noisy sums and from what counts allow.

A row adds between -unit and unit. Let every region of a table count with one weight, that of most of its cells: the
table's noisy sums then say what the weighted sum is, but for the cells that weigh otherwise, and these are off by no
more than their difference times the unit times their rows, of which the counts have an upper end of their own. With no
table at all, the sum is at most the unit times the rows that weigh.

Which tables were measured hangs on noisy counts, and on a first look at the cells. So the counts' half of the tail is
divided among all tables that could have been measured, which the schema says. Of the sums' half, the table that was
measured first has half, if there are others: what the others are hangs on its noise; and the others have even parts.
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
    """How the ends of sums are found. rows: how those of counts are."""
    possible = len(candidates(domain)) + 1
    parts = [(table, table.labels(), places) for table, places in fit.blocks]

    def lower(weights: Floats, tail: float) -> float:
        of_counts = tail / (2.0 * possible)
        found = [-_most(np.abs(weights), of_counts)]
        for number, (table, labels, places) in enumerate(parts):
            alone = len(parts) == 1
            of_noise = tail / 2.0 * (1.0 if alone else 0.5 if number == 0 else 0.5 / (len(parts) - 1))
            common = _common(weights, table, labels)
            off = np.abs(weights - common[labels])
            beside = _most(off, of_counts) if off.any() else 0.0
            found.append(lowest(fit.measurement, places, common, of_noise) - beside)
        return max(found)

    def _most(weights: Floats, tail: float) -> float:
        return fit.unit * max(rows(weights, weights, tail).high, 0.0)

    return lambda low, high, tail: Ends(lower(low, tail), -lower(-high, tail))


def _common(weights: Floats, table: Table, labels: Codes) -> Floats:
    """The weight of most cells of each region, where there are two; of others, the end that is nearer to the mean."""
    least, most = np.full(table.size, np.inf), np.full(table.size, -np.inf)
    np.minimum.at(least, labels, weights)
    np.maximum.at(most, labels, weights)
    sizes = np.bincount(labels, minlength=table.size)
    mean = np.bincount(labels, weights=weights, minlength=table.size) / sizes
    return np.asarray(np.where(2.0 * mean >= least + most, most, least))
