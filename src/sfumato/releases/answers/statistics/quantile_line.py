"""Quantiles of one line from chosen cuts and noisy counts between them, with intervals.

Positions count pieces along the line; R(x) is the number of rows before position x and n that of all. A cut v that was
chosen as the quantile q lies at a rank R(v) = q n + E, where E adds up the errors of the choices that led to it
(strategies/special/quantile_tree.py). A choice by the exponential mechanism has P(position) in proportion to
exp(-|rank error| / scale), so where rows lie evenly over the few pieces around the quantile, as those dealt out from a
cell do, its rank error has the Laplace distribution of that scale. Runs of pieces between cuts were counted with noise,
so that

    T(x) = R(x) - p n = [R(x) - R(v)] + (q - p) n + E

is known for every end x of a run up to noise of known distribution, whatever quantile p is wanted. Positions where T
may be 0 make the interval: the quantile lies at one of them, and is missed only if the test of that one fails.
For a quantile that was not chosen, p is not q: the count of all rows comes in with its noise, and runs between the cuts
are taken whole.

The greatest value: at the position just behind it no row is left. Positions behind which there may be none, by the
counted rows up to the cut of the greatest value, make the interval, which reaches to the end of the line: no noise that
hides one row can tell more. The least value is its mirror image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.intervals.noise_sum import upper_quantile
from sfumato.measurement import Laplace, Noise
from sfumato.strategies.special.quantile_tree import Choice, errors_of

SURELY = 8.0  # standard deviations beyond which no interval of any confidence that is asked for reaches


class Found(NamedTuple):
    """A position and the ends of its interval, in pieces from the start of the line. chosen: whether it was a cut."""

    value: float
    low: float
    high: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class QuantileLine:
    """Cuts by quantile, in pieces, and the noisy counts of the runs between `edges`. scale: of a choice, per rank."""

    wanted: Sequence[Choice]
    cuts: dict[Fraction, int]
    edges: Whole
    counts: Whole
    noise: Noise
    scale: Fraction

    @cached_property
    def before(self) -> Floats:
        """Noisy rows before every edge."""
        return np.concatenate([[0.0], np.cumsum(self.counts, dtype=np.float64)])

    @cached_property
    def _choice_noises(self) -> dict[Fraction, Laplace]:
        return {one.quantile: Laplace(self.scale * one.spread / one.share) for one in self.wanted}

    @cached_property
    def _anchors(self) -> dict[Fraction, tuple[int, list[tuple[float, Noise, int]]]]:
        """For each cut and either end: its edge, and the errors of its rank."""
        places = {q: cut for q, cut in self.cuts.items() if 0 < q < 1}
        places |= {Fraction(0): 0, Fraction(1): int(self.edges[-1])}
        errors = errors_of(self.wanted)
        return {
            q: (
                int(np.searchsorted(self.edges, place)),
                [(weight, self._choice_noises[each], 1) for each, weight in errors[q].items()],
            )
            for q, place in places.items()
        }

    def find(self, quantile: Fraction, confidence: float) -> Found:
        """The position of a quantile."""
        if quantile in (0, 1):
            return self._extreme(quantile, confidence)
        chosen = quantile in self.cuts
        nearest = min(self._anchors, key=lambda q: (abs(q - quantile), q))
        anchor, errors = self._anchors[nearest]
        ahead = float(nearest - quantile)
        tested = self.before - self.before[anchor] + ahead * self.before[-1]
        reach = self._reaches(tested, anchor, ahead, errors, (1.0 + confidence) / 2.0)
        accepted = np.flatnonzero(np.abs(tested) <= reach)
        if not len(accepted):  # between two edges
            accepted = np.array([max(0, int((tested < 0).sum()) - 1)])
        first, last = int(accepted[0]), int(accepted[-1])
        low = self._end(first, max(first - 1, 0), -tested, reach, chosen)
        high = self._end(last, min(last + 1, len(tested) - 1), tested, reach, chosen)
        if chosen:  # whatever the counts say, the piece that was chosen is one of those that may hold it
            low, high = min(low, self.cuts[quantile] - 1.0), max(high, float(self.cuts[quantile]))
        value = self.cuts[quantile] - 0.5 if chosen else self._crossing(tested)
        return Found(min(max(value, low), high), low, high, chosen)

    def _reaches(
        self, tested: Floats, anchor: int, ahead: float, errors: list[tuple[float, Noise, int]], level: float
    ) -> Floats:
        """How far T may be off at every edge, at that level; looked at where it matters."""
        run = np.arange(len(self.edges)) - anchor
        between, others = np.sign(run) + ahead, len(self.counts) - np.abs(run)
        of_choices = sum(weight**2 * noise.variance for weight, noise, _ in errors)
        of_runs = self.noise.variance * (between**2 * np.abs(run) + ahead**2 * others)
        reach = SURELY * np.sqrt(of_choices + of_runs)
        for place in np.flatnonzero(np.abs(tested) <= reach):
            terms = [
                *errors,
                (float(between[place]), self.noise, abs(int(run[place]))),
                (ahead, self.noise, int(others[place])),
            ]
            some = [term for term in terms if term[0] and term[2]]
            reach[place] = upper_quantile(some, level) if some else 0.0
        return np.asarray(reach)

    def _end(self, inside: int, outside: int, rising: Floats, reach: Floats, evenly: bool) -> float:
        """Where T leaves what it may be, between the last edge inside and the one beyond; evenly: or the whole run."""
        here, there = float(self.edges[inside]), float(self.edges[outside])
        if inside == outside or not evenly:
            return there
        near, far = rising[inside] - reach[inside], rising[outside] - reach[outside]
        part = min(max(-near / (far - near), 0.0), 1.0) if far > near else 1.0
        return here + part * (there - here)

    def _crossing(self, tested: Floats) -> float:
        rising = (np.maximum.accumulate(tested) + np.minimum.accumulate(tested[::-1])[::-1]) / 2.0
        place = min(max(int((rising < 0.0).sum()), 1), len(rising) - 1)
        start, end = rising[place - 1], rising[place]
        part = min(max(-start / (end - start), 0.0), 1.0) if end > start else 0.5
        return float(self.edges[place - 1] + part * (self.edges[place] - self.edges[place - 1]))

    def _extreme(self, quantile: Fraction, confidence: float) -> Found:
        top = quantile == 1
        turned = self if top else self._mirrored
        length = float(self.edges[-1])
        cut = turned.cuts.get(Fraction(1), int(length))
        anchor = int(np.searchsorted(turned.edges, cut))
        behind = turned.before[anchor] - turned.before[: anchor + 1]
        reach = [upper_quantile([(1.0, self.noise, anchor - e)], confidence) for e in range(anchor)]
        first = int(np.flatnonzero(behind <= np.array([*reach, 0.0]))[0])
        low, chosen = float(turned.edges[max(first - 1, 0)]), quantile in self.cuts
        return Found(low, low, length, chosen) if top else Found(length - low, 0.0, length - low, chosen)

    @cached_property
    def _mirrored(self) -> QuantileLine:
        length = int(self.edges[-1])
        cuts = {1 - q: length - cut for q, cut in self.cuts.items()}
        return QuantileLine((), cuts, length - self.edges[::-1], self.counts[::-1], self.noise, self.scale)
