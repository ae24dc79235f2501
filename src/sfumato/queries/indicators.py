"""What families of zeros and ones have in common."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.queries.arrays import Array
from sfumato.queries.base import Queries


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Indicators(Queries):
    """Families whose entries are 0 or 1, so that every power of an entry is the entry itself."""

    integral = True
    entry_bound = 1

    def _magnitudes(self, power: int) -> Queries:
        return self

    def _totals(self, power: int) -> Array:
        return self._back(np.ones((self.rows, 1), dtype=np.int64))[:, 0]
