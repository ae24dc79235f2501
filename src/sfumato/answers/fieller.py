"""Intervals of linear answers, and of ratios of two of them by Fieller's theorem with exact noise distributions.

A linear answer is x = w . z with public weights w and noisy numbers z. Where a condition cuts a cell, x lies between
two such sums, low and high; the interval is [low - q, high + q], with q the exact two-sided quantile of each end's
noise.

Ratio N / D (Fieller): the interval holds every r for which N - r D, a linear answer itself, is compatible with zero, so
shared noise is accounted for. With ends, for r >= 0 (for r < 0 the ends of D swap),

    N_low - r D_high  <=  0  <=  N_high - r D_low,        each half tested at its own one-sided level.

An end solves x D = q(r) s(r), with x = r - N / D, s(r) the standard error of the noise of N - r D and q(r) its quantile
in standard errors: a quadratic equation for fixed q. As q hardly depends on r, fixed-point iteration finds the end
(`Side.settled_end`); bracketing is the fallback (`end_of_interval`). Many groups whose noises are alike share q along a
grid of r, where it is smooth (`_reaches`).

Model errors are taken as normal. In the far tails of simultaneous intervals their variance, known on average only, is
taken as inverse-gamma, so they are Student's t with 3 degrees of freedom, the fewest with a finite variance; the reach
of noise and of model are added in squares: exact for normal errors, conservative for long tails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import fields, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import cbrt, copysign, exp, floor, frexp, hypot, inf, isfinite, log, nan, pi, sin, sqrt, tan
from statistics import NormalDist
from typing import overload

import numpy as np

from sfumato.answers.noise_sum import check_confidence, cornish_fisher, half_width_of, moments_of
from sfumato.answers.results import Estimate
from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass
from sfumato.measurement import Gaussian, Noise

SMOOTH = 2**10  # steps in a standard deviation of the lattice that stands for a normal distribution
NORMAL = Gaussian(Fraction(SMOOTH**2))
NEGLIGIBLE = 1e-12  # a share of the variance that changes no figure of any answer
NEARLY = 0.05  # kurtosis up to which a width is guessed, before it is worked out: its square does not matter


class Noises:
    """Independent noises with multiplicities, and the weights of each in several sums: weights is (noises, columns).

    many: multiplicity of each noise, (noises,). model: which are model errors, (noises,). far: whether model errors
    have Student's t distribution.
    """

    shares = False  # whether reaches are those of a grid (`_reaches`)

    def __init__(
        self, noises: Sequence[Noise], many: Floats, weights: Floats, model: Flags, *, far: bool = False
    ) -> None:
        known = {id(noise): moments_of(noise) for noise in {id(noise): noise for noise in noises}.values()}
        self._moments = np.array([known[id(noise)] for noise in noises], dtype=np.float64).reshape(len(noises), 2).T
        self.many, self.weights, self.model, self.far = many, weights, model, far
        self._widths: dict[tuple[bytes, float], float] = {}

    def weighed(self, weights: Floats) -> Noises:
        """Copy with other weights, (noises, columns)."""
        other = copy(self)
        other.weights, other._widths = weights, {}
        return other

    @cached_property
    def variances(self) -> Floats:
        """Variance of each noise times its multiplicity, (noises,)."""
        return np.asarray(self._moments[0] * self.many)

    def stderr(self, weights: Floats) -> tuple[float, float]:
        """Standard errors of a weighted sum, from noise and from model; weights is (noises,)."""
        parts = self.variances * weights**2
        assumed = float(parts[self.model].sum())
        return sqrt(float(parts[~self.model].sum())), sqrt(assumed)

    def width(self, weights: Floats, confidence: float) -> float:
        """Smallest q with P(|weighted sum| <= q) >= confidence; weights is (noises,)."""
        if not self.far:
            return half_width_of(weights, self._moments[0], self._moments[1], self.many, confidence)
        drawn, assumed = ~self.model, float(self.variances[self.model] @ weights[self.model] ** 2)
        variance, sigma_squared = self._moments[:, drawn]
        width = half_width_of(weights[drawn], variance, sigma_squared, self.many[drawn], confidence)
        return hypot(width, students_reach(confidence) * sqrt(assumed))

    def reach(self, n: Floats, d: Floats, r: float, confidence: float) -> float:
        """Width of the sum with weights n - r d, in standard errors; n, d: (noises,)."""
        if self.shares and not self.far and isfinite(log(abs(r)) if r else inf):
            kinds = np.stack([*self._moments, self.many, n, copysign(1.0, r) * d])
            place = log(abs(r)) / GRID
            if (ends := _reaches(kinds.tobytes(), floor(place), confidence)) is not None:
                return ends[0] + (ends[1] - ends[0]) * (place - floor(place))
        error = sqrt(float(self.variances @ (n - r * d) ** 2))
        return self.width(n - r * d, confidence) / error if error > 0.0 else 0.0

    def nearly(self, weights: Floats, confidence: float) -> float | None:
        """Cornish-Fisher approximation of that width in standard errors; None where the kurtosis is not small."""
        if self.far:
            return None
        variance, sigma_squared = self._moments
        # In units of a power of two, which changes no digit: fourth powers of large weights are beyond all numbers.
        squares = np.ldexp(weights, -frexp(float(np.abs(weights).max(initial=0.0)))[1]) ** 2
        fourth = np.where(sigma_squared, 0.0, self.many * (variance + 3.0 * variance**2)) @ squares**2
        kurtosis = float(fourth) / max(float(self.variances @ squares) ** 2, 1e-300)
        return cornish_fisher(kurtosis, confidence) if kurtosis < NEARLY else None

    def surely_within(self, column: int, least: float, confidence: float) -> bool:
        """Whether P(|sum of a column| < least) >= confidence: by Chebyshev's inequality, else by the exact width."""
        check_confidence(confidence)
        spread = sqrt(float(self.variances @ self.weights[:, column] ** 2))
        return least > spread / sqrt(1.0 - confidence) or least > self.width_along(column, confidence)

    def width_along(self, column: int, confidence: float) -> float:
        """Width of the sum of one column, cached for columns of the same weights."""
        weights = self.weights[:, column]
        key = weights.tobytes(), confidence
        if key not in self._widths:
            self._widths[key] = self.width(weights, confidence)
        return self._widths[key]


@lru_cache(maxsize=4096)
def _reaches(kinds: bytes, place: int, confidence: float) -> tuple[float, float] | None:
    """Widths of n - r d, in standard errors, at log r = place * GRID and one step further; None if not smooth there.

    Where the width half-way is not the mean of both, but all three differ by no more than the lattice may lengthen
    widths (noise_sum.py), the largest serves for both. kinds: variance, sigma squared, multiplicity, n and d of each
    noise, (5, noises).
    """
    variance, sigma_squared, many, n, d = np.frombuffer(kinds).reshape(5, -1)
    result = []
    for at in (place, place + 1, place + 0.5):
        weights = n - exp(at * GRID) * d
        error = sqrt(float((variance * many) @ weights**2))
        if not error > 0.0:
            return None
        result.append(half_width_of(weights, variance, sigma_squared, many, confidence) / error)
    left, right, middle = result
    if abs(middle - 0.5 * (left + right)) <= SETTLED / 4.0 * middle:
        return left, right
    return (max(result), max(result)) if max(result) <= (1.0 + TOO_LONG) * min(result) else None


@lru_cache(maxsize=256)
def students_reach(confidence: float) -> float:
    """Two-sided quantile of Student's t in standard deviations, or of the normal where that is larger (up to 97 %).

    >>> round(students_reach(0.95), 2), round(students_reach(0.999), 2)
    (1.96, 7.46)
    """
    tail = (1.0 - confidence) / 2.0
    return max(_cotangent(tail), -NormalDist().inv_cdf(tail))


def _cotangent(tail: float) -> float:
    """Upper quantile of Student's t with three degrees of freedom, in standard deviations.

    It is cot(u / 2) where u - sin(u) = 2 pi tail, solved by Newton's method.

    >>> round(_cotangent(0.25), 9)
    0.441610792
    """
    wanted = 2.0 * pi * tail
    u = cbrt(6.0 * wanted)
    for _ in range(50):
        # Of small angles, terms of the series: the difference would keep few digits.
        here = u**3 / 6.0 * (1.0 - u**2 / 20.0 * (1.0 - u**2 / 42.0 * (1.0 - u**2 / 72.0))) if u < 0.1 else u - sin(u)
        step = (here - wanted) / (2.0 * sin(u / 2.0) ** 2)
        u -= step
        if abs(step) <= 1e-15 * u:
            break
    return 1.0 / tan(u / 2.0)


SETTLED = 2.5e-4  # of the distance from value to end: a move after which the end is taken, rounded outwards by as much
ROUNDS = 4  # in which it settles, or is searched for otherwise
GRID = 2.0**-5  # in log r, between quantiles that many groups share
TOO_LONG = 4e-3  # share by which widths of noises on a lattice may be too long
SHARED_BY = 32  # groups from which on they do


@dataclass(frozen=True, eq=False)
class Side:
    """Upper end of a Fieller interval: room(r) = N - r D + q(r), with q the noise's one-sided reach.

    top, n: the numerator N and the weights of its noises, (noises,). bottom, d: the denominator and its weights,
    (noises,), first for r >= 0 and then for r < 0.
    """

    noises: Noises
    confidence: float
    top: float
    n: Floats
    bottom: tuple[float, float]
    d: tuple[Floats, Floats]

    def room(self, r: float) -> float:
        """N - r D + q(r): not negative where r is compatible with the noisy numbers."""
        return self.top - r * self.bottom[int(r < 0.0)] + self.noises.width(self._weights(r), self.confidence)

    def settled_end(self, start: float, limit: float) -> float | None:
        """Greatest r <= limit with room, by fixed-point iteration from a start; None where it does not converge.

        The result is rounded outwards, and is the start itself where that has no room.
        """
        q = self.noises.nearly(self._weights(start), self.confidence)
        guessed = None if q is None else self._solved(q)
        r = guessed if guessed is not None and start < guessed < limit else start
        for _ in range(ROUNDS):
            onward = self._solved(self.noises.reach(self.n, self.d[int(r < 0.0)], r, self.confidence))
            if onward is None:
                return None
            if r == start and onward <= start:
                return start
            onward = min(max(onward, start), limit)
            if abs(onward - r) <= SETTLED * (onward - start):
                return min(max(onward, r) + SETTLED * (onward - start), limit)
            r = onward
        return None

    def _weights(self, r: float) -> Floats:
        """Weights of N - r D, (noises,)."""
        return np.asarray(self.n - r * self.d[int(r < 0.0)])

    def _solved(self, q: float) -> float | None:
        """Upper end r >= N / D of Fieller's interval: N - r D is q of its standard errors from 0; None if unbounded.

        With x = r - N / D and s(r)^2 the noise variance of N - r D, it is the root x >= 0 of (x D)^2 = q^2 s(r)^2.
        """
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
    """Noisy linear answer: its value, and the low and high end over all spreads of rows inside cells."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Term:
    """Independent noises with equal weights in several sums: value, low and high of the numerator, the denominator, ...

    multiplicity: how many such noises. model: a model error, not a drawn noise. far: whether its far tail matters
    (simultaneous intervals).
    """

    noise: Noise
    multiplicity: int
    weights: tuple[float, ...]
    model: bool = False
    far: bool = False

    @classmethod
    def of(cls, noise: Noise, multiplicity: int, *weights: float) -> Term:
        """Term of a drawn noise from its weights in order."""
        return cls(noise, multiplicity, weights)

    @property
    def high(self) -> float:
        """Weight in the high end of the numerator."""
        return self.weights[_HIGH]

    def in_tail(self, drawn: tuple[Noise, int] | None) -> Term:
        """Term of equal variance whose distribution holds in the far tails.

        A model error gets Student's t. drawn: a noise and how many of it; their sum has the longest tail of the sums
        that are approximated as normal, and takes the place of such a one.
        """
        if self.model:
            return replace(self, far=True)
        if drawn is None or self.noise != NORMAL:
            return self
        noise, many = drawn
        size = float(np.sqrt(NORMAL.variance * self.multiplicity / (noise.variance * many)))
        return Term.of(noise, many, *(size * weight for weight in self.weights))


def normal_terms(covariance: Floats, back: Codes, *, model: bool) -> list[Term]:
    """Independent normal terms with a given covariance, (sums, sums), by its eigendecomposition."""
    if not covariance.any():
        return []
    if len(covariance) == 1:
        factor = np.sqrt(np.maximum(covariance[0], 0.0)) / SMOOTH
        return [Term(NORMAL, 1, tuple(factor[back].tolist()), model)]
    values, vectors = np.linalg.eigh(covariance)
    kept = np.flatnonzero(values > NEGLIGIBLE * max(values.max(), 0.0))
    factors = vectors[:, kept] * np.sqrt(values[kept]) / SMOOTH
    return [Term(NORMAL, 1, tuple(factor[back].tolist()), model) for factor in factors.T]


@dataclass(frozen=True, eq=False)
class NormalErrors(Sequence["tuple[Term, ...] | None"]):
    """Normal errors of the sums of every group, as a sequence of their terms; None where a group's are not determined.

    noise, model: covariances of the distinct sums, (groups, sums, sums). unknown: flags of groups without an answer.
    back: indices of the distinct sums for a numerator's value, low and high, then for its denominator's.
    """

    noise: Floats
    model: Floats
    unknown: Flags
    back: Codes

    def __len__(self) -> int:
        return len(self.unknown)

    @overload
    def __getitem__(self, group: int) -> tuple[Term, ...] | None: ...

    @overload
    def __getitem__(self, group: slice) -> Sequence[tuple[Term, ...] | None]: ...

    def __getitem__(self, group: int | slice) -> tuple[Term, ...] | Sequence[tuple[Term, ...] | None] | None:
        if isinstance(group, slice):
            return NormalErrors(self.noise[group], self.model[group], self.unknown[group], self.back)
        if self.unknown[group]:
            return None
        noise, model = self.noise[group], self.model[group]
        return (*normal_terms(noise, self.back, model=False), *normal_terms(model, self.back, model=True))


@dataclass(frozen=True)
class Interval:
    """Value, standard error and interval; stderr^2 = noise^2 + model^2."""

    value: float
    stderr: float
    low: float
    high: float
    noise: float
    model: float = 0.0

    def at(self, confidence: float) -> Estimate:
        """Estimate with this interval at a confidence."""
        return Estimate(self.value, self.stderr, self.low, self.high, confidence, self.noise, self.model)


@dataclass(frozen=True, eq=False)
class Intervals:
    """Intervals of many groups as arrays, (groups,) each."""

    value: Floats
    stderr: Floats
    low: Floats
    high: Floats
    noise: Floats
    model: Floats

    @classmethod
    def of(cls, intervals: Sequence[Interval]) -> Intervals:
        """Stack single intervals."""
        fields = [(one.value, one.stderr, one.low, one.high, one.noise, one.model) for one in intervals]
        return cls(*np.array(fields, dtype=np.float64).reshape(len(fields), 6).T)

    @classmethod
    def of_noise(cls, sums: Sequence[Floats], errors: LinearErrors) -> Intervals | None:
        """Stack linear answers that have the same noise and no model; None where there is one.

        sums: value, low and high of each group. The same digits as `around`, a group at a time.
        """
        (value, low, high), (noise, assumed, below, above) = sums, errors
        if assumed or not np.array_equal(low, high):
            return None
        noises = np.full(len(value), noise)
        ends = np.minimum(low - below, value), np.maximum(high + above, value)
        return cls(value, noises, *ends, noises, np.zeros(len(value)))

    def replaced(self, groups: Codes, others: Sequence[Interval]) -> Intervals:
        """Replace the intervals of some groups. groups: their indices; others: their new intervals."""
        columns = [getattr(self, field.name).copy() for field in fields(self)]
        for column, field in zip(columns, fields(self), strict=True):
            column[groups] = getattr(Intervals.of(others), field.name)
        return Intervals(*columns)

    def at(self, confidence: float) -> list[Estimate]:
        """Estimates with these intervals at a confidence."""
        rest = {field.name: field.default for field in fields(Estimate)[7:]}
        columns = (self.value, self.stderr, self.low, self.high, self.noise, self.model)
        made = []
        for value, stderr, low, high, noise, model in zip(*(column.tolist() for column in columns), strict=True):
            one = object.__new__(Estimate)  # its fields are set all at once, as there may be a million
            one.__dict__.update(value=value, stderr=stderr, low=low, high=high, confidence=confidence)
            one.__dict__.update(rest, noise=noise, model=model)
            made.append(one)
        return made


def side_by_side(terms: Sequence[Term] | Noises, columns: int = 6) -> Noises:
    """Stack terms as arrays; `Noises` are returned as they are. columns: of weights, where there are no terms."""
    if isinstance(terms, Noises):
        return terms
    columns = max((len(term.weights) for term in terms), default=columns)
    weights = np.array([term.weights for term in terms], dtype=np.float64).reshape(len(terms), columns)
    many = np.array([term.multiplicity for term in terms], dtype=np.float64)
    model = np.array([term.model for term in terms], dtype=bool)
    return Noises([term.noise for term in terms], many, weights, model, far=any(term.far for term in terms))


class Shared:
    """Cache of stacked terms, by the identity of the tuple of terms that several groups share. groups: how many."""

    def __init__(self, groups: int = 1) -> None:
        self._shares = groups >= SHARED_BY
        self._known: dict[int, tuple[Sequence[Term], Noises]] = {}
        self._linear: dict[tuple[int, float], LinearErrors] = {}

    def noises(self, terms: Sequence[Term]) -> Noises:
        """Stacked form of these terms, computed once."""
        if id(terms) not in self._known:
            # The terms are kept too, so that the number by which they are known stays their own.
            self._known[id(terms)] = terms, side_by_side(terms)
            self._known[id(terms)][1].shares = self._shares
        return self._known[id(terms)][1]

    def linear(self, terms: Sequence[Term], confidence: float) -> LinearErrors:
        """Errors of a linear answer with these terms, computed once."""
        key = id(terms), confidence
        if key not in self._linear:
            self._linear[key] = linear_errors(self.noises(terms), confidence)
        return self._linear[key]


def linear_interval(answer: Functional, terms: Sequence[Term] | Noises, confidence: float) -> Interval:
    """Interval [low - q_low, high + q_high] of a linear answer, with exact quantiles.

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> found = linear_interval(Functional(100, 100, 100), [Term.of(Laplace(Fraction(1)), 4, 1, 1, 1)], 0.95)
    >>> found.low, found.high
    (95.0, 105.0)
    """
    return interval_with_errors(answer, linear_errors(side_by_side(terms), confidence))


LinearErrors = tuple[float, float, float, float]  # standard errors of noise and model, widths below and above


def linear_errors(noises: Noises, confidence: float) -> LinearErrors:
    """Standard errors and quantile of a linear answer's noise, shared by groups with the same noise."""
    below, above = (noises.width_along(side, confidence) for side in (_LOW, _HIGH))
    return (*noises.stderr(noises.weights[:, _VALUE]), below, above)


def interval_with_errors(answer: Functional, errors: LinearErrors) -> Interval:
    """Interval of a linear answer, value - below to value + above, widened by what is not known of the value."""
    noise, assumed, below, above = errors
    model = max(answer.high - answer.low, 0.0) / sqrt(12.0)  # as if spread evenly over what is possible
    model = hypot(model, assumed)
    low, high = min(answer.low - below, answer.value), max(answer.high + above, answer.value)
    return Interval(answer.value, hypot(noise, model), low, high, noise, model)


def ratio_interval(
    top: Functional,
    bottom: Functional,
    terms: Sequence[Term] | Noises,
    confidence: float,
    bounds: Bounds | None = None,
    *,
    signed: bool = False,
) -> Interval:
    """Fieller interval of a ratio; bounds: the range of the ratio over all tables.

    signed: whether the true denominator can be negative, as a sum of amounts and unlike a count. The value is nan, and
    the interval equals the bounds, where the noisy denominator is zero, or negative while the true one cannot be. Where
    the confidence set falls in two pieces, the interval spans both.

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
    """Denominator times -1 with its noises; low and high ends swap."""
    weights = noises.weights.copy()
    weights[:, _BOTTOM : _BOTTOM + 3] = -weights[:, [_BOTTOM + _VALUE, _BOTTOM + _HIGH, _BOTTOM + _LOW]]
    return Functional(-bottom.value, -bottom.high, -bottom.low), noises.weighed(weights)


def end_of_interval(room: Callable[[float], float], start: float, limit: float, slope: float, positive: bool) -> float:
    """Greatest r <= limit with room(r) >= 0, by bracketing and interpolation; rounded outwards.

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
