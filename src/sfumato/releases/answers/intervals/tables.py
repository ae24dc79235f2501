"""Guaranteed ends from noisy tables along some attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import combinations, dropwhile, takewhile
from math import prod
from typing import ClassVar

from sfumato.arrays import Codes, Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.table import Places, guess_of
from sfumato.intervals.guaranteed.boxes import Boxes, Misfits
from sfumato.intervals.guaranteed.ends import Ends
from sfumato.intervals.guaranteed.margins import Tables
from sfumato.measurement import Measurement
from sfumato.queries import Identity
from sfumato.releases.answers.gathered import Gathered
from sfumato.releases.answers.intervals.source import Asked
from sfumato.sql import Amount

Listed = Sequence[tuple[Places, Measurement]]
MISFIT = "misfit"  # how far guesses lie from the counts


@dataclass(frozen=True, eq=False)
class FromTables:
    """sizes: of all attributes. kinds: those that a question tells apart. measured: all that was, in order.

    guessed: all rows and one-way margins, from whose products pairs were found to be off by the first misfits.
    """

    signed: ClassVar[bool] = True

    sizes: tuple[int, ...]
    kinds: Mapping[int, Codes]
    measured: tuple[tuple[Places, Measurement], ...]
    guessed: tuple[Floats, ...] = ()
    boxes: dict[str, Boxes | None] = field(default_factory=dict)  # by statistic, as they are asked for

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
            weights = (asked.low[of].reshape(shape), asked.high[of].reshape(shape))
            if of not in self.boxes:
                self.boxes[of] = self.boxes_of(of)
            boxes = self.boxes[of]
            ends = None if boxes is None else boxes.ends(*weights, tail / len(parts))
            if ends is None:
                mine = [(places, one) for places, one in self.measured if one.of == of]
                ends = Tables(self.sizes, mine, of == "count").ends(*weights, self.kinds, tail / len(parts))
            found += ends
        return found

    def boxes_of(self, of: str) -> Boxes | None:
        """What was measured of a statistic in rounds: None where each table may hang on noise of the one before.

        Of counts, one-way tables come first, then misfits, and tables that were all decided upon by these. Sums of
        measures are along sets of attributes that the schema alone decides upon.
        """
        if of != "count":
            sums = [(places, one) for places, one in self.measured if one.of == of]
            return Boxes(self.sizes, self.kinds, [], sums, counts=False) if all(map(self._whole, sums)) else None
        first = list(takewhile(lambda each: each[1].of == of and len(each[0]) == 1, self.measured))
        rest = self.measured[len(first) :]
        if [places for places, _ in first] != [(place,) for place in range(len(self.sizes))] or not rest:
            return None
        tables = list(
            takewhile(
                lambda each: each[1].of == of and self._whole(each), dropwhile(lambda each: each[1].of != of, rest)
            )
        )
        if rest[0][1].of != MISFIT or not tables:
            return None
        return Boxes(self.sizes, self.kinds, first, tables, self._misfits(rest[0][1]))

    def _misfits(self, measured: Measurement) -> Misfits:
        """How far each pair of the question is from its guess; pairs up to some number of cells were compared."""
        cells = {pair: self.sizes[pair[0]] * self.sizes[pair[1]] for pair in combinations(range(len(self.sizes)), 2)}
        if not self.guessed or not 0 < len(measured.answers) <= len(cells):
            return {}
        most = sorted(cells.values())[len(measured.answers) - 1]
        pairs = [pair for pair, each in cells.items() if each <= most]
        if len(pairs) != len(measured.answers):
            return {}
        listed = zip(pairs, measured.answers.tolist(), strict=True)
        asked = ((pair, misfit) for pair, misfit in listed if {*pair} <= {*self.kinds})
        return {pair: (float(misfit), measured.noise, guess_of(self.guessed, pair)) for pair, misfit in asked}

    def _whole(self, each: tuple[Places, Measurement]) -> bool:
        """Whether every cell of a table was counted by itself."""
        places, one = each
        cells = prod(self.sizes[place] for place in places)
        return bool(places) and isinstance(one.queries, Identity) and len(one.answers) == cells
