"""What families of zeros and ones have in common."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from sfumato.queries.arrays import Array
from sfumato.queries.base import Queries


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Indicators(Queries):
    """Families whose entries are 0 or 1, so that every power of an entry is the entry itself."""

    @property
    def integral(self) -> bool:
        return True

    @property
    def entry_bound(self) -> int:
        return 1

    def _magnitudes(self, power: int) -> Queries:
        return self

    def _totals(self, power: int) -> Array:
        return self._covers()

    @abstractmethod
    def _covers(self) -> Array:
        """How many rows contain each column."""
