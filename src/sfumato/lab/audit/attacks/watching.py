"""Watch the kernel's samplers: record the noise that a curator draws and the scores of its choices.

A curator that is given `Watched` random bits works as ever, but every sampler it calls is written down. Samplers are
recognised by the random bits they are handed, so that a curator at work elsewhere in the process is not touched.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Whole
from sfumato.frozen import dataclass
from sfumato.kernel.sampling import noise
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs import exponential as choose
from sfumato.kernel.verbs import pieces
from sfumato.kernel.verbs import thresholds as sifting
from sfumato.kernel.verbs.scores import Rank
from sfumato.measurement import Noise


@dataclass(frozen=True, eq=False)
class Drawn:
    """Noise that was drawn, one value for each of a number of answers."""

    noise: Noise
    values: Whole


@dataclass(frozen=True, eq=False)
class Sifted:
    """Empty cells that were let through a threshold, and their noise."""

    size: int
    threshold: int
    noise: Noise
    cells: Whole
    values: Whole


@dataclass(frozen=True, eq=False)
class Chosen:
    """A choice by the exponential mechanism: P(i) proportional to exp(rate * scores[i])."""

    scores: Whole
    rate: Fraction
    candidate: int


@dataclass(frozen=True, eq=False)
class ChosenPiece:
    """A choice among pieces of a line. scores: of every piece that could be chosen. piece: its number on the line."""

    scores: Whole
    rate: Fraction
    piece: int


Draw = Drawn | Sifted | Chosen | ChosenPiece


class Watched:
    """NOT PRIVATE: predictable random bits that remember what they were used for.

    log: the calls of samplers, in order. loose: words that were taken without a sampler.
    """

    private = False

    def __init__(self, seed: int) -> None:
        self.bits = TestingEntropy(seed)
        self.log: list[Draw] = []
        self.loose = 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Random words for someone who goes past the samplers."""
        self.loose += count
        return self.bits.words(count)

    def bytes(self, count: int) -> bytes:
        """Random bytes for someone who goes past the samplers."""
        self.loose += count
        return self.bits.bytes(count)


def _draw(wanted: Noise, count: int, entropy: Any) -> Whole:
    if not isinstance(entropy, Watched):
        return noise.draw(wanted, count, entropy)
    values = noise.draw(wanted, count, entropy.bits)
    entropy.log.append(Drawn(wanted, values.copy()))
    return values


def _sparse_hits(size: int, threshold: int, wanted: Any, entropy: Any) -> tuple[Whole, Whole]:
    if not isinstance(entropy, Watched):
        return noise.sparse_hits(size, threshold, wanted, entropy)
    cells, values = noise.sparse_hits(size, threshold, wanted, entropy.bits)
    entropy.log.append(Sifted(size, threshold, wanted, cells.copy(), values.copy()))
    return cells, values


def _choose(scores: Whole, rate: Fraction, entropy: Any) -> int:
    if not isinstance(entropy, Watched):
        return choose.choose(scores, rate, entropy)
    candidate = choose.choose(scores, rate, entropy.bits)
    entropy.log.append(Chosen(scores.copy(), rate, candidate))
    return candidate


def _choose_piece(counts: Whole, cut: int, first: int, end: int, rank: Rank, rate: Fraction, entropy: Any) -> int:
    if not isinstance(entropy, Watched):
        return pieces.choose_piece(counts, cut, first, end, rank, rate, entropy)
    piece = pieces.choose_piece(counts, cut, first, end, rank, rate, entropy.bits)
    rows = np.diff(pieces.rows_before(counts, cut, np.arange(first, end + 1)))
    entropy.log.append(ChosenPiece(pieces.clipped(rank, rows, rate), rate, piece))
    return piece


WATCHERS: dict[str, Callable[..., Any]] = {
    "draw": _draw,
    "sparse_hits": _sparse_hits,
    "choose": _choose,
    "choose_piece": _choose_piece,
}


@contextmanager
def watching(*classes: type) -> Iterator[None]:
    """While this lasts, the modules of these curators call the samplers through the watchers of this file."""
    modules = {name: vars(sys.modules[name]) for each in classes for name in (c.__module__ for c in each.__mro__)}
    modules[sifting.__name__] = vars(sifting)  # where a curator's cells above a threshold are drawn
    # Only what is exactly the kernel's own sampler is replaced, so that a sampler of someone's own stays visible.
    genuine: dict[str, Callable[..., Any]] = {
        "draw": noise.draw,
        "sparse_hits": noise.sparse_hits,
        "choose": choose.choose,
        "choose_piece": pieces.choose_piece,
    }
    replaced = [(names, n) for names in modules.values() for n, f in genuine.items() if names.get(n) is f]
    try:
        for names, n in replaced:
            names[n] = WATCHERS[n]
        yield
    finally:
        for names, n in replaced:
            names[n] = genuine[n]
