"""Quantiles of one line: the order of the private choices, and estimates with intervals from cuts and noisy counts.

The quantile in the middle is chosen first, among all rows; it divides them, and the others are chosen on either side,
again from the middle outwards. Sides are disjoint, so m quantiles cost as much as log2(m) + 1 choices one after the
other (Kaplan, Schnapp, Stemmer, ICML 2022). The least and the greatest value come last, at the ends.

Positions count pieces along the line; R(x) is the number of rows before position x and n that of all. A cut v that was
chosen as the quantile q lies at a rank R(v) = q n + E, where E adds up the errors of the choices that led to it
(`errors_of`). Runs of pieces between cuts were counted with noise, so that

    T(x) = R(x) - p n = [R(x) - R(v)] + (q - p) n + E

is known for every end x of a run up to noise of known distribution, whatever quantile p is wanted. Positions where T
may be 0 make the interval: the quantile lies at one of them, and is missed only if the test of that one fails.
For a quantile that was not chosen, p is not q: the count of all rows comes in with its noise, and runs between the cuts
are taken whole.

The greatest value: at the position just behind it no row is left. Positions behind which there may be none, by the
counted rows up to the cut of the greatest value, make the interval, which reaches to the end of the line: no noise that
hides one row can tell more. The least value is its mirror image.

The rank error of a choice: the exponential mechanism has P(position) in proportion to exp(-|rank error| / scale). Where
rows lie evenly over the few pieces around the quantile, as those dealt out from a cell do, the rank error has the
Laplace distribution of that scale. Elsewhere wide gaps draw choices out of narrow heaps: a quantile where rows lie r to
a piece, cut at a place beyond which a length G is as likely as the place itself,

    G = integral of exp(-(rows from the cut to x) / scale) over the positions x beyond the cut,

is off by more than y with a probability of about (r G / scale) exp(-y / scale) / 2 in place of exp(-y / scale) / 2.
That is a Laplace error and scale * log(r G / scale) rows more: the pull. Lengths are public, and rows were counted with
noise, of which one standard deviation is taken off, so that it does not look like a pull.

Errors of choices depend on how rows lie, so ends that hold for every table (`surely`) leave the choices aside and use
the counts alone, whose noise was drawn after the cuts were settled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from math import exp, expm1, log
from typing import NamedTuple

import numpy as np

from sfumato.answers.noise_sum import upper_quantile
from sfumato.answers.quantiles import slack_of
from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.measurement import Laplace, Noise

ENOUGH = 8  # rows in the run next to a cut, in scales of the noise that it is counted with
GROWTH = 4  # how much longer each run of pieces is than the one before it, away from a cut
FINEST = 2**15  # parts of the stretch between two cuts: no run is shorter


@dataclass(frozen=True)
class Choice:
    """One quantile, chosen among the rows between two others (0 and 1: where the line begins and ends).

    share: of the budget for choices.
    """

    quantile: Fraction
    above: Fraction
    below: Fraction
    share: Fraction

    @property
    def within(self) -> Fraction:
        """Its quantile level relative to the rows between `above` and `below`, from which it is chosen."""
        return (self.quantile - self.above) / (self.below - self.above)

    @property
    def spread(self) -> Fraction:
        """Sensitivity of the difference of two candidates' scores, in ranks."""
        return 2 * max(self.within, 1 - self.within) if 0 < self.quantile < 1 else Fraction(1)


def choices(quantiles: Sequence[Fraction]) -> tuple[Choice, ...]:
    """Choices in dependency order: from the middle outwards, each between quantiles already chosen.

    >>> [(str(one.quantile), str(one.within), str(one.share)) for one in choices([Fraction(k, 4) for k in (1, 2, 3)])]
    [('1/2', '1/2', '1/2'), ('1/4', '1/2', '1/2'), ('3/4', '1/2', '1/2')]
    """
    ends = 0 in quantiles, 1 in quantiles
    inner = sorted(q for q in set(quantiles) if 0 < q < 1)
    return tuple(_chosen(inner, Fraction(0), Fraction(1), Fraction(1), *ends))


def _chosen(
    inner: list[Fraction], above: Fraction, below: Fraction, left: Fraction, least: bool, greatest: bool
) -> list[Choice]:
    if not inner:
        ends = [Fraction(0)] * least + [Fraction(1)] * greatest
        return [Choice(end, above, below, left / len(ends)) for end in ends]
    middle = _middle(inner, least, greatest)
    first = Choice(inner[middle], above, below, left / _levels(inner, least, greatest))
    rest = left - first.share
    lower = _chosen(inner[:middle], above, first.quantile, rest, least, False)
    return [first, *lower, *_chosen(inner[middle + 1 :], first.quantile, below, rest, False, greatest)]


def _middle(inner: list[Fraction], least: bool, greatest: bool) -> int:
    return min(max((len(inner) + least + greatest) // 2 - least, 0), len(inner) - 1)


def _levels(inner: list[Fraction], least: bool, greatest: bool) -> int:
    if not inner:
        return least + greatest
    middle = _middle(inner, least, greatest)
    return 1 + max(_levels(inner[:middle], least, False), _levels(inner[middle + 1 :], False, greatest))


def errors_of(chosen: Sequence[Choice]) -> dict[Fraction, dict[Fraction, float]]:
    """Weights of single choices' errors in the rank error of each inner quantile.

    A quantile that is chosen between two others inherits their errors in proportion.
    """
    weights: dict[Fraction, dict[Fraction, float]] = {Fraction(0): {}, Fraction(1): {}}
    for one in chosen:
        if 0 < one.quantile < 1:
            part = float(one.within)
            found = {q: (1.0 - part) * weight for q, weight in weights[one.above].items()}
            for q, weight in weights[one.below].items():
                found[q] = found.get(q, 0.0) + part * weight
            weights[one.quantile] = {**found, one.quantile: 1.0}
    return weights


def runs_between(cuts: Mapping[Fraction, int], length: int, rows: float, scale: float) -> Whole:
    """Edges of the runs of pieces to be counted: short next to a cut, longer further away.

    cuts: by quantile. rows: about how many there are. scale: of the noise that runs are counted with; a run next to a
    cut is so long that on average it holds a few times as many rows, for fewer would not show.

    >>> runs_between({Fraction(1, 2): 40}, 100, rows=300.0, scale=1.0).tolist()
    [0, 2, 10, 30, 38, 40, 43, 55, 85, 97, 100]
    """
    placed = {Fraction(0): 0, **{q: cut for q, cut in cuts.items() if 0 < q < 1}, Fraction(1): length}
    edges = {*placed.values(), *cuts.values()}
    for (p, a), (q, b) in pairwise(sorted(placed.items())):
        parts = min(max(rows * float(q - p) / (ENOUGH * scale), 1.0), FINEST)
        step = max(1, int((b - a) / parts))
        reach = step
        while 2 * reach < b - a:
            edges |= {a + reach, b - reach}
            step *= GROWTH
            reach += step
    return np.array(sorted(edges), dtype=np.int64)


LIKELY = 3.7  # scales of a Laplace error that 97.5 % stay within
CLEAR = 3.0  # standard deviations by which a heap stands out of the noise of a count


def pull(
    lengths: Floats, rows: Floats, beyond: Floats, rows_beyond: Floats, scale: float, cell: float, sd: float
) -> float:
    """Bias of a choice by uneven rows, in rows. lengths, rows: of the runs on the side where the quantile may lie, from
    the cut outwards; beyond: of those on the other side. cell: length of a single value. sd: of the noise of a
    count.

    >>> even = np.array([10.0, 40.0]), np.array([50.0, 200.0])
    >>> round(pull(*even, *even, scale=2.0, cell=160.0, sd=0.0), 1)
    0.0
    >>> round(pull(*even, np.array([1000.0]), np.array([0.0]), scale=2.0, cell=160.0, sd=0.0), 1)
    15.6
    """
    likely = _as_likely(beyond, rows_beyond, scale)
    farthest, gone = 0.0, 0.0
    for length, counted in zip(lengths.tolist(), np.maximum(rows - sd, 0.0).tolist(), strict=True):
        most = _pulled(counted / length, likely, scale)
        heap = counted - scale / likely * length  # what an even spread leaves over may lie on one value
        if heap > CLEAR * sd:
            most = max(most, min(_pulled(heap / min(cell, length), likely, scale), heap))
        if gone <= LIKELY * scale + most:
            farthest = max(farthest, most)
        gone += counted
    return farthest


def _pulled(density: float, likely: float, scale: float) -> float:
    times = density * likely / scale
    return scale * log(times) if times > 1.0 else 0.0


def _as_likely(lengths: Floats, rows: Floats, scale: float) -> float:
    """The integral G of exp(-rows / scale) beyond the cut, with rows spread evenly over each run."""
    found, gone = 1e-9, 0.0  # no cut is so near the end of a line that nothing lies beyond: it may be off by a hair
    for length, counted in zip(lengths.tolist(), (np.maximum(rows, 0.0) / scale).tolist(), strict=True):
        found += length * exp(-gone) * (-expm1(-counted) / counted if counted > 1e-9 else 1.0)
        gone = min(gone + counted, 700.0)
    return found


PARTS = 256  # of a run, to which the end of an interval is told
UNEVEN = 8.0  # scales of a choice: where it was pulled further, rows lie so unevenly that runs are taken whole
SURELY = 8.0  # standard deviations beyond which no interval of any confidence that is asked for reaches


class Found(NamedTuple):
    """Quantile estimate: position and interval, in pieces from the start. chosen: whether it was a cut."""

    value: float
    low: float
    high: float
    chosen: bool


@dataclass(frozen=True, eq=False)
class QuantileLine:
    """An ordered attribute cut at privately chosen quantiles, with a noisy count of the rows between neighbouring cuts.

    Every value or bin is divided into `cell` equal pieces, which number all places. cuts: place of each quantile.
    edges, counts: places of the cuts, and noisy counts between them. scale: of the noise of a choice, in ranks.
    """

    wanted: Sequence[Choice]
    cuts: dict[Fraction, int]
    edges: Whole
    counts: Whole
    noise: Noise
    scale: Fraction
    cell: float

    @cached_property
    def before(self) -> Floats:
        """Noisy number of rows before every edge, (edges,)."""
        return np.concatenate([[0.0], np.cumsum(self.counts, dtype=np.float64)])

    @cached_property
    def _choice_noises(self) -> dict[Fraction, Laplace]:
        return {one.quantile: Laplace(self.scale * one.spread / one.share) for one in self.wanted}

    @cached_property
    def _anchors(self) -> dict[Fraction, tuple[int, dict[Fraction, float]]]:
        """For each cut and either end: index of its edge, and error weights of its rank."""
        places = {q: cut for q, cut in self.cuts.items() if 0 < q < 1}
        places |= {Fraction(0): 0, Fraction(1): int(self.edges[-1])}
        errors = errors_of(self.wanted)
        return {q: (int(np.searchsorted(self.edges, place)), errors[q]) for q, place in places.items()}

    def find(self, quantile: Fraction, confidence: float) -> Found:
        """Position of a quantile and its interval, by inverting tests."""
        if quantile in (0, 1):
            return self._extreme(quantile, confidence)
        chosen = quantile in self.cuts
        nearest = min(self._anchors, key=lambda q: (abs(q - quantile), q))
        anchor, errors = self._anchors[nearest]
        ahead = float(nearest - quantile)
        tested = self.before - self.before[anchor] + ahead * self.before[-1]
        level = (1.0 + confidence) / 2.0
        up, down = self._pulls(errors)
        widths = self._widths(tested, anchor, ahead, errors, level)
        # A cut that was pulled upwards lies above the quantile, so it is positions below that may be right as well.
        pulled = np.where(tested < 0.0, up, down)
        accepted = np.flatnonzero(np.abs(tested) <= widths + pulled)
        if not len(accepted):  # between two edges
            accepted = np.array([max(0, int((tested < 0).sum()) - 1)])
        first, last = int(accepted[0]), int(accepted[-1])
        # Rows lie evenly over the short run next to a cut, if nothing pulled hard; of other runs it is not known.
        even = UNEVEN * float(self._choice_noises[quantile].scale) if chosen else 0.0
        low = self._end(first, max(first - 1, 0), -tested, widths, up, first == anchor and up < even)
        high = self._end(last, min(last + 1, len(tested) - 1), tested, widths, down, last == anchor and down < even)
        if chosen:  # whatever the counts say, the piece that was chosen is one of those that may hold it
            low, high = min(low, self.cuts[quantile] - 1.0), max(high, float(self.cuts[quantile]))
        value = self.cuts[quantile] - 0.5 if chosen else self._crossing(tested)
        return Found(min(max(value, low), high), low, high, chosen)

    def surely(self, quantile: Fraction, tail: float) -> tuple[float, float]:
        """Bounds of a quantile that hold for every table; tail: error probability of each.

        A run is ruled out if too few rows lie up to its end, or too many before it. The run that holds the quantile
        does not depend on the noise of the counts, so every run is tested at `tail`, not at a share of it.
        """
        p, last = float(quantile), len(self.counts) - 1
        at_least, at_most = slack_of(p, 1.0)
        runs = np.arange(1, last + 2)
        reach = np.array([self._reach(p, int(run), tail) for run in runs])
        tested = self.before[1:] - p * self.before[-1]
        enough = np.flatnonzero((tested + reach >= at_least - 1e-9) | (runs > last))
        few = np.flatnonzero((tested - reach <= at_most + 1e-9) & (runs <= last))
        first, end = int(enough[0]), int(few[-1]) + 1 if len(few) else 0
        return float(self.edges[min(first, end)]), float(self.edges[max(first, end) + 1])

    def _reach(self, p: float, runs: int, tail: float) -> float:
        """Upper quantile of the noise of T at an edge behind so many runs."""
        terms = [(1.0 - p, self.noise, runs), (p, self.noise, len(self.counts) - runs)]
        some = [term for term in terms if term[0] and term[2]]
        return upper_quantile(some, 1.0 - tail) if some else 0.0

    def _pulls(self, errors: Mapping[Fraction, float]) -> tuple[float, float]:
        """Bounds on the pull of uneven rows on the choices that led to a cut, up and down, in rows."""
        up = down = 0.0
        lengths, rows, sd = np.diff(self.edges).astype(float), self.counts.astype(float), self.noise.variance**0.5
        for each, weight in errors.items():
            at, scale = int(np.searchsorted(self.edges, self.cuts[each])), float(self._choice_noises[each].scale)
            below, above = (lengths[:at][::-1], rows[:at][::-1]), (lengths[at:], rows[at:])
            up += weight * pull(*below, *above, scale, self.cell, sd)
            down += weight * pull(*above, *below, scale, self.cell, sd)
        return up, down

    def _widths(
        self, tested: Floats, anchor: int, ahead: float, errors: Mapping[Fraction, float], level: float
    ) -> Floats:
        """Half-widths of the interval of T at every edge: exact where T may be 0, a normal bound elsewhere."""
        choices: list[tuple[float, Noise, int]] = [(w, self._choice_noises[each], 1) for each, w in errors.items()]
        run = np.arange(len(self.edges)) - anchor
        between, others = np.sign(run) + ahead, len(self.counts) - np.abs(run)
        of_choices = sum(weight**2 * noise.variance for weight, noise, _ in choices)
        of_runs = self.noise.variance * (between**2 * np.abs(run) + ahead**2 * others)
        widths = np.asarray(SURELY * np.sqrt(of_choices + of_runs))
        near = np.abs(tested) <= 2.0 * widths
        near = near | np.append(near[1:], False) | np.append(False, near[:-1])
        for place in np.flatnonzero(near):
            terms = [
                *choices,
                (float(between[place]), self.noise, abs(int(run[place]))),
                (ahead, self.noise, int(others[place])),
            ]
            some = [term for term in terms if term[0] and term[2]]
            widths[place] = upper_quantile(some, level) if some else 0.0
        return widths

    def _end(self, inside: int, outside: int, rising: Floats, widths: Floats, pulled: float, evenly: bool) -> float:
        """Position where T leaves its interval, interpolated between the edges `inside` and `outside` if evenly.

        A part f of a run has f times its rows and f times the noise of its count, so that squares of widths grow with
        the square of f.
        """
        here, there = float(self.edges[inside]), float(self.edges[outside])
        if inside == outside or not evenly:
            return there
        part = np.linspace(0.0, 1.0, PARTS + 1)
        width = np.sqrt(widths[inside] ** 2 + part**2 * max(widths[outside] ** 2 - widths[inside] ** 2, 0.0)) + pulled
        within = np.flatnonzero(rising[inside] + part * (rising[outside] - rising[inside]) <= width)
        return here + float(part[min(int(within[-1]) + 1, PARTS)] if len(within) else part[1]) * (there - here)

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
        return QuantileLine((), cuts, length - self.edges[::-1], self.counts[::-1], self.noise, self.scale, self.cell)
