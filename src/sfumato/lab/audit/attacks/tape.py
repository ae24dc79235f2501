"""Transcript of a run: the calls that spend budget, in order, and the faults found in them; a recorder of lines.

The recorder keeps the queries of ordered lines, the choices offered and the charge of every piece. The scores of all
pieces and the rows of all runs are computed once more, piece by piece, from rows dealt out one at a time
(`reference.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import field
from fractions import Fraction
from typing import Literal, TypeVar, cast

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.lines import Lines, StretchCharge
from sfumato.lab.audit.attacks import reference as twins
from sfumato.lab.audit.attacks.watching import ChosenPiece, Drawn, Watched
from sfumato.measurement import Measurement, Noise

T = TypeVar("T")
Kind = Literal["answers", "choice", "first", "partition"]


class Apart(SfumatoError):
    """Divergence of two runs: a different call although all published results so far are equal."""


@dataclass(frozen=True, eq=False)
class Call:
    """Record of one call of a verb that spends budget.

    asked: the queries, scales and thresholds, in a form that can be compared. loads: what each cell of the whole table
    was charged. answers: without noise; for a choice, the scores; for a first answer, what is compared with the
    threshold; for a partition, the counts in order. noises: of each answer; empty for a choice, which has a rate
    instead; for a first answer, of the threshold and of the rest; for a partition, of single cells and of longer
    buckets. result: what was published.
    """

    asked: Hashable
    loads: tuple[Fraction, ...]
    answers: tuple[int, ...]
    noises: tuple[Noise, ...]
    rate: Fraction | None
    result: Measurement | int | Codes | None
    kind: Kind = "answers"


@dataclass(eq=False)
class Tape:
    """Transcript of a run: its calls in order, and faults. heard: the tape whose results are replayed."""

    heard: Tape | None = None
    calls: list[Call] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    # By each cell of a charge, after its last call.
    borne: dict[int, tuple[Fraction, ...]] = field(default_factory=dict)

    def add(self, call: Call) -> Call:
        """Append a call; return it, or in a replay the recorded call at its place. Apart if the two differ."""
        self.calls.append(call)
        if self.heard is None:
            return call
        place = len(self.calls) - 1
        if place >= len(self.heard.calls):
            raise Apart("there are more calls on one table than on the other")
        first = self.heard.calls[place]
        if call.asked != first.asked:
            raise Apart("queries, scales or thresholds depend on the table")
        if call.loads != first.loads:
            raise Apart("charges depend on the table")
        return first


class LinesRecorder:
    """Proxy of `Lines` that records every call on a tape; their entropy must be `Watched`."""

    def __init__(self, inner: Lines, entropy: Watched, tape: Tape) -> None:
        self.__inner, self.__entropy, self.__tape = inner, entropy, tape
        self.number, self.length, self.pieces = inner.number, inner.length, inner.pieces
        self.contributions, self.budget = inner.contributions, inner.budget

    @property
    def charge(self) -> StretchCharge:
        """Charge of the recorded lines."""
        return self.__inner.charge

    def __getattr__(self, name: str) -> object:
        self.__tape.faults.append(f"the mechanism reached for {name}, past the verbs of the lines")
        return getattr(self.__inner, name)

    def cut(self, line: int, quantile: Fraction, budget: Budget, *, first: int, end: int) -> int:
        """Forward `Lines.cut` and record the call."""
        before = self.__borne()
        made = self.__inner.cut(line, quantile, budget, first=first, end=end)
        chosen = [call for call in self.__entropy.log if isinstance(call, ChosenPiece)]
        rate = chosen[0].rate if chosen else Fraction(0)
        dealt = twins.dealt_out(self.__inner._counts[line].tolist(), self.pieces)[first:end]
        scores = twins.rank_scores(dealt, quantile, rate)
        if len(chosen) != 1 or chosen[0].piece != made or chosen[0].scores.tolist() != scores:
            self.__tape.faults.append("the choice was not made by one exponential mechanism on the scores")
        return self.__told(made, ("cut", line, quantile, first, end, rate), before, scores, (), rate)

    def count(self, edges: Sequence[Codes], budget: Budget) -> Measurement:
        """Forward `Lines.count` and record the call."""
        before = self.__borne()
        made = self.__inner.count(edges, budget)
        truth = []
        for cells, ends in zip(self.__inner._counts, edges, strict=True):
            dealt = twins.dealt_out(cells.tolist(), self.pieces)
            truth += [sum(dealt[a:b]) for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]
        match self.__entropy.log:
            case [Drawn(noise, values)] if noise == made.noise and len(values) == len(truth):
                if not np.array_equal(made.answers, np.array(truth) + values):
                    self.__tape.faults.append("the answers are not what the queries ask for plus the noise drawn")
            case _:
                self.__tape.faults.append("the noise drawn is not the noise stated, afresh for every answer")
        asked = ("count", tuple(tuple(each.tolist()) for each in edges), made.noise)
        return self.__told(made, asked, before, truth, made.noises * len(truth))

    def __told(
        self,
        made: T,
        asked: tuple[object, ...],
        before: list[Fraction],
        answers: list[int],
        noises: tuple[Noise, ...],
        rate: Fraction | None = None,
    ) -> T:
        """Record a call (a choice if it has a rate); return its result, or in a replay that of the first run."""
        if self.__entropy.loose:
            self.__tape.faults.append("random bits were taken past the exact samplers")
        loads = [now - then for now, then in zip(self.__borne(clear=False), before, strict=True)]
        if self.charge.fullest > self.budget.amount / self.contributions:
            self.__tape.faults.append("a piece bears more than was charged for the lines")
        kind: Kind = "answers" if rate is None else "choice"
        call = Call(asked, (max(loads),), tuple(answers), noises, rate, made, kind)  # type: ignore[arg-type]
        return cast(T, self.__tape.add(call).result)

    def __borne(self, *, clear: bool = True) -> list[Fraction]:
        """Privacy loss charged so far to every piece, line by line."""
        if clear:
            self.__entropy.log.clear()
        return [self.charge.borne(line, piece) for line in range(self.number) for piece in range(self.length)]
