"""Transcript of a run: the calls that spend budget, in order, and the faults found in them.

`Tape` is the transcript. `LinesRecorder` writes the calls of `Lines` on it: ordered attributes cut into pieces
(kernel/lines.py). It computes the scores of pieces and the rows of runs of pieces once more, from rows dealt out one at
a time (`reference.py`), and checks the charge of every piece.

`Watched` and `watching` log the kernel's samplers: the noise that a curator draws, and the scores of its choices. A
curator with `Watched` random bits works as ever, but every sampler it calls is logged. Samplers are recognised by the
random bits they are handed, so that a curator at work elsewhere in the process is not touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from fractions import Fraction
from typing import Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Whole
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.lines import Lines, StretchCharge
from sfumato.kernel.sampling import noise
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs import exponential as choose
from sfumato.kernel.verbs import partitioning as pieces
from sfumato.kernel.verbs import thresholds as sifting
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.attacks import reference as twins
from sfumato.measurement import Measurement, Noise


@dataclass(frozen=True, eq=False)
class Drawn:
    """Recorded draw of noise: its law, and a value for each answer."""

    noise: Noise
    values: Whole


@dataclass(frozen=True, eq=False)
class Sifted:
    """Recorded draw of the empty cells whose noise passes a threshold, with that noise."""

    size: int
    threshold: int
    noise: Noise
    cells: Whole
    values: Whole


@dataclass(frozen=True, eq=False)
class Chosen:
    """Recorded choice of an exponential mechanism: P(i) proportional to exp(rate * scores[i])."""

    scores: Whole
    rate: Fraction
    candidate: int


@dataclass(frozen=True, eq=False)
class ChosenPiece:
    """Recorded choice of a piece of a line. scores: of all candidate pieces. piece: the number chosen."""

    scores: Whole
    rate: Fraction
    piece: int


Draw = Drawn | Sifted | Chosen | ChosenPiece


class Watched:
    """NOT PRIVATE: predictable entropy that logs the samplers called with it.

    log: the calls of samplers, in order. loose: words that were taken without a sampler.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self.bits = TestingEntropy(seed)
        self.log: list[Draw] = []
        self.loose = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Random words drawn without a sampler, which are counted in `loose`."""
        self.loose += count
        return self.bits.words(count)

    def bytes(self, count: int) -> bytes:
        """Random bytes drawn without a sampler, which are counted in `loose`."""
        self.loose += count
        return self.bits.bytes(count)


def _piece(counts: Whole, cut: int, first: int, end: int, rank: Rank, rate: Fraction, piece: int) -> ChosenPiece:
    rows = np.diff(pieces.rows_before(counts, cut, np.arange(first, end + 1)))
    return ChosenPiece(pieces.clipped(rank, rows, rate), rate, piece)


# The kernel's samplers by name, and what is written down of what one was given and made.
SAMPLERS: dict[str, tuple[Callable[..., Any], Callable[..., Draw]]] = {
    "draw": (noise.draw, lambda wanted, count, values: Drawn(wanted, values.copy())),
    "sparse_hits": (
        noise.sparse_hits,
        lambda size, threshold, wanted, hits: Sifted(size, threshold, wanted, hits[0].copy(), hits[1].copy()),
    ),
    "choose": (choose.choose, lambda scores, rate, candidate: Chosen(scores.copy(), rate, candidate)),
    "choose_piece": (pieces.choose_piece, _piece),
}


def _watcher(sampler: Callable[..., Any], record: Callable[..., Draw]) -> Callable[..., Any]:
    """Wrap a sampler so that draws from `Watched` entropy, its last argument, are logged."""

    def watched(*given: Any) -> Any:
        *asked, entropy = given
        if not isinstance(entropy, Watched):
            return sampler(*given)
        made = sampler(*asked, entropy.bits)
        entropy.log.append(record(*asked, made))
        return made

    return watched


WATCHERS = {name: _watcher(*sampler) for name, sampler in SAMPLERS.items()}


@contextmanager
def watching(*classes: type) -> Iterator[None]:
    """Context in which the modules of these classes call the samplers through logging wrappers."""
    modules = {name: vars(sys.modules[name]) for each in classes for name in (c.__module__ for c in each.__mro__)}
    modules[sifting.__name__] = vars(sifting)  # where a curator's cells above a threshold are drawn
    # Only what is exactly the kernel's own sampler is replaced, so that a sampler of someone's own stays visible.
    replaced = [
        (names, name) for names in modules.values() for name, (own, _) in SAMPLERS.items() if names.get(name) is own
    ]
    try:
        for names, name in replaced:
            names[name] = WATCHERS[name]
        yield
    finally:
        for names, name in replaced:
            names[name] = SAMPLERS[name][0]


# -- tape

T = TypeVar("T")
Kind = Literal["answers", "choice", "first", "partition"]


class Apart(SfumatoError):
    """Divergence of two runs: a different call although all published results so far are equal."""


@dataclass(frozen=True, eq=False)
class Call:
    """Record of one call of a verb that spends budget.

    asked: the queries, scales and thresholds, in a form that can be compared. loads: charges of the cells of the whole
    table. answers: without noise; of a "choice", its scores; of a "first" (`first_above`), the values compared with the
    threshold; of a "partition", the counts in order. noises: of each answer; none of a choice, which has a rate
    instead; of a first, of the threshold and of the values; of a partition, of single cells and of longer buckets.
    result: what was published.
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
