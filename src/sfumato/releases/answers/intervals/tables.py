"""Guaranteed ends from noisy tables along some attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from sfumato.arrays import Codes
from sfumato.frozen import dataclass
from sfumato.inference.margins.table import Places
from sfumato.intervals.guaranteed.ends import Ends
from sfumato.intervals.guaranteed.margins import Tables
from sfumato.measurement import Measurement
from sfumato.releases.answers.gathered import Gathered
from sfumato.releases.answers.intervals.source import Asked
from sfumato.sql import Amount


@dataclass(frozen=True, eq=False)
class FromTables:
    """sizes: of all attributes. kinds: those that a question tells apart. measured: all that was, in order."""

    signed: ClassVar[bool] = True

    sizes: tuple[int, ...]
    kinds: Mapping[int, Codes]
    measured: tuple[tuple[Places, Measurement], ...]

    @property
    def work(self) -> int:
        """Of the tables that have an attribute of the question."""
        asked = {*self.kinds}
        return sum(len(one.answers) for places, one in self.measured if asked & {*places})

    def refuse(self, amounts: Sequence[Amount]) -> None:
        """Every sum has ends, if far ones."""

    def ends(self, asked: Asked, cells: Gathered, tail: float) -> Ends:
        shape = [int(kind.max()) + 1 for kind in self.kinds.values()]
        parts, found = asked.statistics, Ends(0.0, 0.0)
        for of in parts:
            mine = [(places, one) for places, one in self.measured if one.of == of]
            weights = (asked.low[of].reshape(shape), asked.high[of].reshape(shape))
            found += Tables(self.sizes, mine, of == "count").ends(*weights, self.kinds, tail / len(parts))
        return found
