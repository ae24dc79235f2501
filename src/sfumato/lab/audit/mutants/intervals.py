"""NOT PRIVATE is what other mutants are; these are NOT GUARANTEED: intervals that hold less often than they promise.

Their measurements are as noisy as they should be: every cell is measured a few times, with shares of the budget. Their
intervals are wrong. They are kept so that the audit can be seen to break them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from sfumato.answers.fit import NoisyCells
from sfumato.answers.guaranteed_columns import FromFits
from sfumato.answers.noise_sum import Ends, Find, reach
from sfumato.answers.question import Kinds
from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.audit.calibration.breaking import Search, break_intervals
from sfumato.measurement import Design, Measurement, Noise
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

TIMES = 6  # that the same cells are measured
SEARCH = Search(steps=3, releases=6, questions=6, worst=2, confirmations=300, at_once=0)
MANY_BOUNDS = Search(steps=2, releases=2, questions=4, worst=1, confirmations=10, at_once=96)

Bound = Callable[[Sequence[Measurement], Floats, Floats, float], Ends]
Order = Callable[[Sequence[Measurement]], Sequence[Measurement]]


@dataclass(frozen=True, eq=False)
class Repeated(Cube):
    """Cube of cells that were measured several times. bound: function from all measurements to an interval."""

    measured: tuple[Measurement, ...] = ()
    bound: Bound | None = None

    def exact_at(self, confidence: float) -> float | None:
        return None

    def sure(self, kinds: Kinds) -> FromFits:
        bound = self.bound
        assert bound is not None  # noqa: S101 (made below)
        find: Find = lambda low, high, tail: bound(self.measured, low, high, tail)  # noqa: E731 (what it is)
        return FromFits(self.domain, {"count": find}, kinds)


def first_believed(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """Interval of a weighted sum from the first measurement alone."""
    ((noise,), answers) = measured[0].noises, measured[0].answers
    below, above = (_reach(noise, tuple(np.sort(weights[weights != 0]).tolist()), tail) for weights in (low, high))
    return Ends(float(low @ answers) - below, float(high @ answers) + above)


def largest_first(measured: Sequence[Measurement]) -> Sequence[Measurement]:
    """NOT GUARANTEED: sorts measurements by noisy total, largest first, and bounds as if the order were fixed."""
    return sorted(measured, key=lambda one: -int(one.answers.sum()))


def as_asked(measured: Sequence[Measurement]) -> Sequence[Measurement]:
    """Control: the first measurement in the order asked, which does not depend on the noise."""
    return measured


def half_the_noise(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """NOT GUARANTEED: takes the noise as half as large as it is."""
    found = first_believed(measured, low, high, tail)
    return Ends(found.low + (found.high - found.low) / 4.0, found.high - (found.high - found.low) / 4.0)


def none_split(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """NOT GUARANTEED: takes the tightest of several bounds, each with all of the tail."""
    first = first_believed(measured, low, high, tail)  # all have the same noise, so that ends differ as the answers do
    apart = [(one.answers - measured[0].answers).astype(np.float64) for one in measured]
    above, below = max(float(low @ one) for one in apart), min(float(high @ one) for one in apart)
    return Ends(first.low + above, first.high + below)


def all_split(measured: Sequence[Measurement], low: Floats, high: Floats, tail: float) -> Ends:
    """Control: the tightest of several bounds, with the tail split over them."""
    return none_split(measured, low, high, tail / len(measured))


def broken(bound: Bound, order: Order = as_asked, search: Search = SEARCH) -> str | None:
    """Verdict of the search on intervals by `bound`, with fixed seeds; None if it finds no breach."""

    def run(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Repeated:
        every = Identity(schema.domain.size)
        measured = tuple(order([curator.measure(every, share) for share in budget.evenly(TIMES)]))
        return Repeated(schema, (NoisyCells(measured[0]),), measured, bound)

    found = break_intervals("mutant", run, search, TestingEntropy(17), seed=2)
    return None if found is None or found.sound else found.verdict


@lru_cache(maxsize=1024)
def _reach(noise: Noise, weights: tuple[float, ...], tail: float) -> float:
    """Noise quantile of a sum with these weights at a tail, cached by the sorted weights."""
    if not weights:
        return 0.0
    rows = np.arange(len(weights))
    return reach(Design(Identity(len(weights)), (noise,), None), rows, np.array(weights), tail)
