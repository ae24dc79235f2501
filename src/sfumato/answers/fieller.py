"""Independent noises side by side: what the answers of all groups with the same noises are worked out from.

A GROUP BY asks hundreds of questions of the same noises, each with weights of its own; a sum over thousands of cells
has thousands of them. As arrays they are weighed together, and what does not hang on the question is found once.

What was assumed is taken as normal, as its variance is known on average over many cells. Of one cell it is not, and the
largest of many errors is where it is largest: a normal error whose variance has an inverse gamma law is Student's. Of
whole degrees of freedom three are the fewest that leave it the variance that was measured, so far out that is the law.
How far noise and model reach is then added in squares, which is exact for normal errors and too much for long tails
(public/comparison/comparison.py).

The end of Fieller's interval from few distributions.

An end is where numerator - r denominator, as noisy as it is, just reaches zero: x D = q(r) s(r), with x how far r lies
beyond the ratio of both, s the standard error of the noise and q its quantile in standard errors. For a given q that is
a quadratic equation. Working q out takes a distribution, and it hardly changes with r, so the end is found by solving,
working q out where the solution lies and solving again: mostly with one distribution more than the start takes.

Intervals for linear answers and for ratios of two of them.

An answer is a sum of noisy numbers with public weights. Where it depends on how rows are spread inside cells it is
known only between two such sums, a low and a high end. The interval then reaches from the low end less its noise to the
high end plus its noise, each with half of the error that the confidence leaves.

A ratio's interval is Fieller's, with exact distributions: it holds every r for which numerator - r * denominator, a sum
of noisy numbers itself, is compatible with zero. Noise that both share is accounted for, and a denominator that may be
zero gives the wide interval it deserves. With ends: numerator = r * denominator implies, for r >= 0,

    numerator's low - r * denominator's high  <=  0  <=  numerator's high - r * denominator's low

(for r < 0 the denominator's ends change places), and each half is tested at its own one-sided level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, lru_cache
from math import frexp, hypot, inf, isfinite, nan, sqrt
from statistics import NormalDist

import numpy as np

from sfumato.answers.noise_sum import check_confidence, half_width_of, moments_of
from sfumato.arrays import Flags, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Noise

DEGREES = 3  # of freedom, the fewest with a variance


NEARLY = 0.05  # kurtosis up to which a width is guessed, before it is worked out: its square does not matter


class Noises:
    """Noises, each many times over, with the weights that they have in some sums: (noises, columns).

    far: whether what was assumed has Student's law.
    """

    def __init__(
        self, noises: Sequence[Noise], many: Floats, weights: Floats, model: Flags, *, far: bool = False
    ) -> None:
        first: dict[int, int] = {}
        which = [first.setdefault(id(noise), place) for place, noise in enumerate(noises)]
        known = {place: moments_of(noises[place]) for place in first.values()}
        self._moments = np.array([known[place] for place in which], dtype=np.float64).reshape(len(which), 2).T
        self.many, self.weights, self.model, self.far = many, weights, model, far
        self._widths: dict[tuple[int, float], float] = {}

    def weighed(self, weights: Floats) -> Noises:
        """The same noises with other weights."""
        other = copy(self)
        other.weights, other._widths = weights, {}
        return other

    @cached_property
    def variances(self) -> Floats:
        """Of each noise, as often as it is there."""
        return np.asarray(self._moments[0] * self.many)

    def stderr(self, weights: Floats) -> tuple[float, float]:
        """The standard error of a weighted sum: what comes from noise, and what from assumptions."""
        parts = self.variances * weights**2
        assumed = float(parts[self.model].sum())
        return sqrt(float(parts[~self.model].sum())), sqrt(assumed)

    def width(self, weights: Floats, confidence: float) -> float:
        """The smallest q that a weighted sum keeps within, on either side, with this probability."""
        if not self.far:
            return half_width_of(weights, self._moments[0], self._moments[1], self.many, confidence)
        drawn, assumed = ~self.model, float(self.variances[self.model] @ weights[self.model] ** 2)
        variance, sigma_squared = self._moments[:, drawn]
        width = half_width_of(weights[drawn], variance, sigma_squared, self.many[drawn], confidence)
        return hypot(width, students_reach(confidence) * sqrt(assumed))

    def nearly(self, weights: Floats, confidence: float) -> float | None:
        """About that width in standard errors, of a sum that is normal but for its fourth moment; None if it is not."""
        if self.far:
            return None
        variance, sigma_squared = self._moments
        # In units of a power of two, which changes no digit: fourth powers of large weights are beyond all numbers.
        squares = np.ldexp(weights, -frexp(float(np.abs(weights).max(initial=0.0)))[1]) ** 2
        fourth = np.where(sigma_squared, 0.0, self.many * (variance + 3.0 * variance**2)) @ squares**2
        kurtosis = float(fourth) / max(float(self.variances @ squares) ** 2, 1e-300)
        if not kurtosis < NEARLY:
            return None
        z = -NormalDist().inv_cdf((1.0 - confidence) / 2.0)
        return z + kurtosis * (z**3 - 3.0 * z) / 24.0

    def surely_within(self, column: int, least: float, confidence: float) -> bool:
        """Whether the sum of one column keeps within a distance, on either side, with this probability."""
        check_confidence(confidence)
        spread = sqrt(float(self.variances @ self.weights[:, column] ** 2))
        # By Chebyshev's inequality; most often that is enough, and takes no distribution.
        return least > spread / sqrt(1.0 - confidence) or least > self.width_along(column, confidence)

    def width_along(self, column: int, confidence: float) -> float:
        """The same with the weights of one column, remembered."""
        if (column, confidence) not in self._widths:
            self._widths[column, confidence] = self.width(self.weights[:, column], confidence)
        return self._widths[column, confidence]


@lru_cache(maxsize=256)
def students_reach(confidence: float) -> float:
    """What Student's law keeps within, in standard deviations, or the normal one where that is further: up to 97 %.

    >>> round(students_reach(0.95), 2), round(students_reach(0.999), 2)
    (1.96, 7.46)
    """
    from scipy.special import stdtrit

    tail = (1.0 - confidence) / 2.0
    students = -float(stdtrit(DEGREES, tail)) * sqrt((DEGREES - 2) / DEGREES)
    return max(students, -NormalDist().inv_cdf(tail))


SETTLED = 2.5e-4  # of the distance from value to end: a move after which the end is taken, rounded outwards by as much
ROUNDS = 4  # in which it settles, or is searched for otherwise


@dataclass(frozen=True, eq=False)
class Side:
    """What is left before a ratio r is too large: numerator - r * denominator, and what its noise adds.

    top, n: the numerator and the weights of its noises. bottom, d: the denominator and its weights, for ratios from 0
    on and for negative ones.
    """

    noises: Noises
    confidence: float
    top: float
    n: Floats
    bottom: tuple[float, float]
    d: tuple[Floats, Floats]

    def room(self, r: float) -> float:
        """What is left; not negative where r is compatible with what is known."""
        return self.top - r * self.bottom[int(r < 0.0)] + self.noises.width(self._weights(r), self.confidence)

    def settled_end(self, start: float, limit: float) -> float | None:
        """The greatest r up to a limit with room, from a start; None where it has to be searched for.

        It is past the end, never short of it, or the start where that has no room.
        """
        r, guessed = start, self._guess(start)
        if guessed is not None and start < guessed < limit:
            r = guessed
        for _ in range(ROUNDS):
            onward = self._solved(self._reach(r))
            if onward is None:
                return None
            if r == start and onward <= start:
                return start
            onward = min(max(onward, start), limit)
            if abs(onward - r) <= SETTLED * (onward - start):
                return min(max(onward, r) + SETTLED * (onward - start), limit)
            r = onward
        return None

    def _guess(self, start: float) -> float | None:
        """Where the end would be if the noises were about normal together; None where they are not."""
        q = self.noises.nearly(self._weights(start), self.confidence)
        return None if q is None else self._solved(q)

    def _weights(self, r: float) -> Floats:
        return np.asarray(self.n - r * self.d[int(r < 0.0)])

    def _reach(self, r: float) -> float:
        """The quantile of the noise at r, in standard errors."""
        weights = self._weights(r)
        error = sqrt(float(self.noises.variances @ weights**2))
        return self.noises.width(weights, self.confidence) / error if error > 0.0 else 0.0

    def _solved(self, q: float) -> float | None:
        """Where nothing is left if the quantile is q standard errors everywhere; None where that is nowhere."""
        error = sqrt(float(self.noises.variances @ self.n**2))
        negative = int(self.top + q * error < 0.0)  # nothing is left at zero
        bottom, d = self.bottom[negative], self.d[negative]
        if not bottom > 0.0:
            return None
        ratio = self.top / bottom
        left = self.n - ratio * d
        with_itself, with_d, of_d = (
            float(self.noises.variances @ (one * other)) for one, other in ((left, left), (left, d), (d, d))
        )
        # (x bottom)^2 = q^2 (with_itself - 2 x with_d + x^2 of_d), for x = r - ratio >= 0.
        square = bottom * bottom - q * q * of_d
        if not square > 0.0:
            return None
        half = -(q * q) * with_d
        found = ratio + (half + sqrt(half * half + square * (q * q) * with_itself)) / square
        return found if isfinite(found) else None


Bounds = tuple[float, float]

_VALUE, _LOW, _HIGH, _BOTTOM = range(4)  # where the weights of a numerator stand, and those of its denominator begin
TOLERANCE = 1e-3  # of the distance from value to end; ends are rounded outwards by no more than this
STEPS = 15  # from a bracket to an end; the first ones interpolate, which nearly always suffices


@dataclass(frozen=True)
class Functional:
    """A noisy linear answer: its value, and the low and high end that the spread inside cells allows."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Term:
    """Independent noises that enter numerator and denominator with the same weights: value, low and high end.

    further: the same for sums beyond these two, where an answer is made of more (functions.py).
    model: an error that was assumed, not drawn: what an estimate takes for granted about cells it did not measure.
    far: whether it is one of so many that the tail of what was assumed counts.
    """

    noise: Noise
    multiplicity: int
    n: float
    n_low: float
    n_high: float
    d: float = 0.0
    d_low: float = 0.0
    d_high: float = 0.0
    model: bool = False
    further: tuple[float, ...] = ()
    far: bool = False

    @classmethod
    def of(cls, noise: Noise, multiplicity: int, *weights: float) -> Term:
        """A term from weights in order: value, low, high of the numerator, then of the denominator, then of others."""
        n, n_low, n_high, d, d_low, d_high = (*weights[:6], *[0.0] * (6 - len(weights)))
        return cls(noise, multiplicity, n, n_low, n_high, d, d_low, d_high, further=weights[6:])

    @property
    def weights(self) -> tuple[float, ...]:
        """All weights, in that order."""
        return (self.n, self.n_low, self.n_high, self.d, self.d_low, self.d_high, *self.further)


@dataclass(frozen=True)
class Interval:
    """An estimate: noise and model are the parts of stderr that come from noise and from what was assumed."""

    value: float
    stderr: float
    low: float
    high: float
    noise: float
    model: float = 0.0


def side_by_side(terms: Sequence[Term] | Noises) -> Noises:
    """Terms as arrays; those that many answers share are best handed on so."""
    if isinstance(terms, Noises):
        return terms
    columns = max((len(term.weights) for term in terms), default=6)
    weights = np.array([term.weights for term in terms], dtype=np.float64).reshape(len(terms), columns)
    many = np.array([term.multiplicity for term in terms], dtype=np.float64)
    model = np.array([term.model for term in terms], dtype=bool)
    return Noises([term.noise for term in terms], many, weights, model, far=any(term.far for term in terms))


class Shared:
    """Terms side by side, once for all answers that share them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Sequence[Term], Noises]] = {}

    def noises(self, terms: Sequence[Term]) -> Noises:
        if id(terms) not in self._known:
            # The terms are kept too, so that the number by which they are known stays their own.
            self._known[id(terms)] = terms, side_by_side(terms)
        return self._known[id(terms)][1]


def linear_interval(answer: Functional, terms: Sequence[Term] | Noises, confidence: float) -> Interval:
    """The interval of a linear answer.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> found = linear_interval(Functional(100, 100, 100), [Term.of(Laplace(Fraction(1)), 4, 1, 1, 1)], 0.95)
    >>> found.low, found.high
    (95.0, 105.0)
    """
    noises = side_by_side(terms)
    noise, assumed = noises.stderr(noises.weights[:, _VALUE])
    low = answer.low - noises.width_along(_LOW, confidence)
    high = answer.high + noises.width_along(_HIGH, confidence)
    model = max(answer.high - answer.low, 0.0) / sqrt(12.0)  # as if spread evenly over what is possible
    model = hypot(model, assumed)
    return Interval(answer.value, hypot(noise, model), min(low, answer.value), max(high, answer.value), noise, model)


def ratio_interval(
    top: Functional,
    bottom: Functional,
    terms: Sequence[Term] | Noises,
    confidence: float,
    bounds: Bounds | None = None,
    *,
    signed: bool = False,
) -> Interval:
    """The interval of a ratio; `bounds` are what no table can make it leave.

    signed: whether a table can make the denominator negative, as a sum of amounts and no count of rows.
    The value is nan, and the interval all that the bounds allow, where the noisy denominator is zero, or is negative
    and the true one cannot be.
    Where the denominator may be zero the confidence set can fall in two; the interval then spans both.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> terms = [Term.of(Laplace(Fraction(1)), 1, 1, 1, 1, 1, 1, 1), Term.of(Laplace(Fraction(1)), 1, 0, 0, 0, 1, 1, 1)]
    >>> found = ratio_interval(Functional(30, 30, 30), Functional(100, 100, 100), terms, 0.95, (0, 1))
    >>> round(found.value, 3), round(found.low, 2), round(found.high, 2)
    (0.3, 0.28, 0.32)
    """
    least, most = bounds if bounds is not None else (-inf, inf)
    noises = side_by_side(terms)
    if signed and bottom.value < 0.0:
        found = ratio_interval(top, *_negative(bottom, noises), confidence, (-most, -least))
        return Interval(-found.value, found.stderr, -found.high, -found.low, found.noise, found.model)
    if not bottom.value > 0.0:
        return Interval(nan, nan, least, most, nan)
    value = min(max(top.value / bottom.value, least), most)
    weights = noises.weights
    noise, assumed = (
        error / bottom.value for error in noises.stderr(weights[:, _VALUE] - value * weights[:, _BOTTOM + _VALUE])
    )
    model = max(top.high - top.low + abs(value) * (bottom.high - bottom.low), 0.0) / bottom.value / sqrt(12.0)
    model = hypot(model, assumed)
    positive = noises.surely_within(_BOTTOM + _LOW, bottom.low, confidence)
    denominators = (bottom.low, bottom.high), (weights[:, _BOTTOM + _LOW], weights[:, _BOTTOM + _HIGH])
    above = Side(noises, confidence, top.high, weights[:, _HIGH], *denominators)
    below = Side(noises, confidence, -top.low, -weights[:, _LOW], *denominators)

    def end(side: Side, start: float, limit: float) -> float:
        found = side.settled_end(start, limit) if positive and start < limit else None
        return end_of_interval(side.room, start, limit, bottom.value, positive) if found is None else found

    low, high = -end(below, -value, -least), end(above, value, most)
    return Interval(value, hypot(noise, model), low, high, noise, model)


def _negative(bottom: Functional, noises: Noises) -> tuple[Functional, Noises]:
    """A denominator times -1, and the noises that enter it so: its low end is the high end's negative."""
    weights = noises.weights.copy()
    weights[:, _BOTTOM : _BOTTOM + 3] = -weights[:, [_BOTTOM + _VALUE, _BOTTOM + _HIGH, _BOTTOM + _LOW]]
    return Functional(-bottom.value, -bottom.high, -bottom.low), noises.weighed(weights)


def end_of_interval(room: Callable[[float], float], start: float, limit: float, slope: float, positive: bool) -> float:
    """The greatest r up to `limit` with room, from a start that has some; just past it, never short of it.

    Room is convex in r and falls by about `slope` per unit. It falls for ever if the denominator is surely positive;
    otherwise it may rise again, so the limit is looked at first.
    """
    inside, at_inside = start, room(start)
    if at_inside <= 0.0 or start >= limit:
        return start
    if not positive and (limit == inf or room(limit) >= 0.0):
        return limit
    stride = at_inside / slope
    while True:
        outside = min(inside + stride, limit)
        at_outside = room(outside)
        if at_outside < 0.0:
            break
        if outside >= limit:
            return limit
        # A little past the point where a straight line through both would meet zero, within a quarter and four strides.
        ahead = 1.1 * at_outside / (at_inside - at_outside) if at_inside > at_outside else inf
        stride *= min(max(ahead, 0.25), 4.0)
        inside, at_inside = outside, at_outside
    for step in range(STEPS):
        close = TOLERANCE * (outside - start)
        if outside - inside <= close:
            break
        share = at_inside / (at_inside - at_outside) if step < STEPS // 2 else 0.5
        trial = inside + share * (outside - inside)
        trial = min(max(trial, inside + close / 2.0), outside - close / 2.0)  # so that both sides close in
        left = room(trial)
        if left >= 0.0:
            inside, at_inside = trial, left
        else:
            outside, at_outside = trial, left
    return outside
