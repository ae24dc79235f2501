"""Quantiles and range counts on lines of ordered cells, each cut into pieces, with a charge of their own.

Rows of a cell are dealt to its pieces (`verbs/partitioning.py`), so that a cell of many rows is cut as finely as any
other. Two verbs spend: `cut` chooses a piece by rank, `count` counts runs of pieces. Each is charged to the pieces that
it looks at and to no others, within a budget that was charged to the whole table beforehand.

`StretchCharge` is the rule of `charge.py` for very many pieces: it keeps one load for each stretch of equal pieces.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sfumato.arrays import Codes, Whole
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.kernel.sampling.noise import draw
from sfumato.kernel.verbs.partitioning import choose_piece, rows_before
from sfumato.kernel.verbs.scores import Rank
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import Identity


class StretchCharge:
    """Privacy accountant of pieces of lines: one load per stretch of equal pieces, none above `limit`.

    Lines are numbered from 0, and so are the pieces of each.
    """

    def __init__(self, limit: Fraction, lines: int, length: int) -> None:
        self.limit = limit
        self.length = length
        self._starts = [[0] for _ in range(lines)]  # of stretches whose pieces have borne the same
        self._loads = [[Fraction(0)] for _ in range(lines)]

    @property
    def fullest(self) -> Fraction:
        """The load of the fullest piece."""
        return max(max(loads) for loads in self._loads)

    def borne(self, line: int, piece: int) -> Fraction:
        """The load that a piece has borne so far."""
        return self._loads[line][bisect_left(self._starts[line], piece + 1) - 1]

    def admit(self, line: int, first: int, end: int, load: Fraction) -> None:
        """Add a load to the pieces from `first` up to `end`, or refuse and change nothing if one would bear more."""
        if load < 0 or not 0 <= first < end <= self.length:
            raise PrivacyError("a load is negative, or on no piece of the line; the charge only ever grows")
        starts, loads = list(self._starts[line]), list(self._loads[line])
        for mark in (first, end):
            place = bisect_left(starts, mark)
            if mark < self.length and (place == len(starts) or starts[place] != mark):
                starts.insert(place, mark)
                loads.insert(place, loads[place - 1])
        loads = [borne + load if first <= start < end else borne for start, borne in zip(starts, loads, strict=True)]
        if max(loads) > self.limit:
            raise PrivacyError(
                f"this would bring a piece of a line to {max(loads)} of a budget of {self.limit} per row; ask for less"
            )
        self._starts[line], self._loads[line] = starts, loads


class Lines:
    """Holder of the private rows of some lines, bound to a charge of its own. Pieces count from the start of a line."""

    def __init__(self, counts: Whole, pieces: int, budget: Budget, contributions: int, entropy: Entropy) -> None:
        self.number, cells = counts.shape
        self.pieces = pieces
        self.length = cells * pieces
        self.budget = budget
        self.contributions = contributions
        self.charge = StretchCharge(budget.amount / contributions, self.number, self.length)
        self._counts = counts
        self._entropy = entropy

    def cut(self, line: int, quantile: Fraction, budget: Budget, *, first: int, end: int) -> int:
        """Choose the piece that holds a quantile of the rows in `first` .. `end` (exponential mechanism on ranks)."""
        rank = Rank(quantile)
        share = self._share(budget)
        self.charge.admit(line, first, end, share)
        return choose_piece(self._counts[line], self.pieces, first, end, rank, share / rank.spread, self._entropy)

    def count(self, edges: Sequence[Codes], budget: Budget) -> Measurement:
        """Measure the rows between consecutive edges, which lead from the start of every line to its end."""
        ends = [np.array(each, dtype=np.int64) for each in edges]  # a copy: what is charged for is what is counted
        if len(ends) != self.number or not all(
            len(each) > 1 and each[0] == 0 and each[-1] == self.length and (np.diff(each) > 0).all() for each in ends
        ):
            raise QueryError("runs lead from the start of every line to its end; give rising edges for each line")
        share = self._share(budget)
        for line in range(self.number):
            self.charge.admit(line, 0, self.length, share)
        noise = Laplace(1 / share)
        answers = self._rows(ends)
        answers += draw(noise, len(answers), self._entropy)
        answers.setflags(write=False)
        return Measurement("count", Identity(len(answers)), answers, (noise,))

    def _rows(self, ends: Sequence[Codes]) -> Whole:
        """Private number of rows between consecutive edges, line by line."""
        found = [
            np.diff(rows_before(counts, self.pieces, each)) for counts, each in zip(self._counts, ends, strict=True)
        ]
        return np.concatenate(found)

    def _share(self, budget: Budget) -> Fraction:
        """The load that a budget puts on one piece: its epsilon, divided by the rows that a person may have."""
        if not budget.is_pure:
            raise QueryError("lines are for pure epsilon; under rho, measure the cells with Gaussian noise instead")
        return budget.amount / self.contributions
