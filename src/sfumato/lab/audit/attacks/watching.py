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
