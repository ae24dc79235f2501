"""What questions ask of tables of sums, and what tables tell: as a sum over levels at which averages may vary.

If all cells held as many rows as any other, every table would answer some of the same spaces: what varies from part to
part of exactly these levels of the axes (an analysis of variance). A space is known as precisely as all tables inside
it tell together, and from what is expected of effects. So the variance that is left in a question is a sum over spaces.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.averages.posterior import Effects
from sfumato.inference.averages.tables import Table, gathered

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
