"""A classifier that adds up scores: a table of whole numbers for each attribute. Naive Bayes and perceptrons do.

Whole numbers, so that a file opened anywhere gives the labels that it was tested with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False)
class Additive:
    """tables: for each attribute, the score of each of its values for each class. base: of each class, for every row.

    edges: of the gap between the best score and the next, by which rows with one label are told apart: into strata.
    """

    tables: tuple[Whole, ...]
    base: Whole
    edges: tuple[int, ...]

    @property
    def labels(self) -> Codes:
        """The class that each stratum is given."""
        return np.repeat(np.arange(len(self.base)), len(self.edges) + 1)

    def scores(self, codes: Sequence[Codes]) -> Whole:
        """The score of every row for every class; an attribute whose value is not known (-1) adds nothing."""
        found = np.broadcast_to(self.base, (len(codes[0]), len(self.base))).copy()
        for table, along in zip(self.tables, codes, strict=True):
            found += np.vstack([table, np.zeros_like(table[:1])])[along]
        return found

    def strata(self, codes: Sequence[Codes]) -> Codes:
        """The stratum of every row. codes: for each attribute, where every row lies on it."""
        scores = self.scores(codes)
        best = scores.argmax(axis=1)
        ranked = np.partition(scores, -2, axis=1)
        gap = ranked[:, -1] - ranked[:, -2]
        return np.asarray(best * (len(self.edges) + 1) + np.searchsorted(self.edges, gap, side="right"), dtype=np.int64)

    @property
    def spreads(self) -> list[int]:
        """How much each attribute can change the gap between two classes, at most."""
        return [int(np.ptp(table - table[:, :1], axis=0).max()) for table in self.tables]
