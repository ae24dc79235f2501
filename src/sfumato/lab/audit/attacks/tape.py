"""What a run was seen to do: the calls that spend, in order, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from fractions import Fraction
from typing import Literal

from sfumato.arrays import Codes
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement, Noise

Kind = Literal["answers", "choice", "first", "partition"]


class Apart(SfumatoError):
    """The two runs ask for different things although all that was published so far is the same."""


@dataclass(frozen=True, eq=False)
class Call:
    """One use of a verb that spends.

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
    """The calls of one run in order, and what is wrong with them. heard: the tape whose results are handed out."""

    heard: Tape | None = None
    calls: list[Call] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    borne: dict[int, tuple[Fraction, ...]] = field(
        default_factory=dict
    )  # by each cell of a charge, after its last call

    def add(self, call: Call) -> Call:
        """Keep a call, and say which call's result is to be handed out."""
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
