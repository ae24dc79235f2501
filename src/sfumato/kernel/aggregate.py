"""The private counts, by cell: all that ever comes out of a table, and it stays in the kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False, repr=False)  # no repr: private counts must not reach a log or a traceback
class Aggregate:
    """Rows and sums of measures in the cells that hold rows.

    cells: their numbers, rising. counts: rows in each. sums: for each measure, the sum of its steps in each.
    """

    cells: Codes
    counts: Whole
    sums: Mapping[str, Whole] = field(default_factory=dict)

    def of(self, statistic: str) -> Whole:
        """The numbers of one statistic: "count" or a measure."""
        return self.counts if statistic == "count" else self.sums[statistic]

    def at(self, cells: Codes, statistic: str) -> Whole:
        """One statistic at given cells; 0 where a cell holds no rows."""
        answer = np.zeros(len(cells), dtype=np.int64)
        if len(self.cells):
            places = np.minimum(np.searchsorted(self.cells, cells), len(self.cells) - 1)
            held = self.cells[places] == cells
            answer[held] = self.of(statistic)[places[held]]
        return answer

    def regroup(self, label: Codes) -> Aggregate:
        """The aggregate over groups of cells: `label` names each cell's group, -1 leaves it out."""
        labels = label[self.cells]
        seen = labels >= 0
        groups, place = np.unique(labels[seen], return_inverse=True)

        def gathered(values: Whole) -> Whole:
            total = np.zeros(len(groups), dtype=np.int64)
            np.add.at(total, place, values[seen])
            return total

        return Aggregate(groups, gathered(self.counts), {name: gathered(sums) for name, sums in self.sums.items()})
