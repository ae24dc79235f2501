"""Intervals of functions of noisy sums, beyond one linear answer or one ratio (fieller.py).

Any smooth function f of several noisy sums (`function_interval`, generalised Fieller), such as the difference of two
averages. The upper end is f at the point

    x = x_hat + q * C g / sqrt(g^T C g),   g the gradient of f at x, C the covariance of the noise,

with q standard errors the exact quantile of the noise of g . x, found by fixed-point iteration. For f = N / D it is
Fieller's end, for a linear f the linear interval. Where a sum is known between two ends only, the end that moves f
further is taken.

Linear answers and ratios of many groups at once, where all errors are normal (`linear_intervals`, `ratio_intervals`).
What `linear_interval` and `ratio_interval` (fieller.py) do for one group is done for all as arrays, to the same digits.
A sum of several normal errors is normal: its width is z standard errors. A single one keeps the width that noise_sum.py
finds on the lattice that stands for a normal distribution, so that an answer does not depend on how many groups are
asked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import hypot, isfinite, nan, sqrt

import numpy as np

from sfumato.answers.fieller import (
    NEGLIGIBLE,
    NORMAL,
    ROUNDS,
    SETTLED,
    SMOOTH,
    Bounds,
    Functional,
    Interval,
    Intervals,
    Noises,
    NormalErrors,
    Term,
    side_by_side,
)
from sfumato.answers.noise_sum import FINEST, cornish_fisher, half_width_of, moments_of
from sfumato.answers.noise_sum import NEGLIGIBLE as NO_NOISE
from sfumato.arrays import Codes, Flags, Floats
from sfumato.frozen import dataclass

Function = Callable[[Floats], tuple[float, Floats]]  # value and gradient at some sums

MOST_ROUNDS = 60  # in which an end is found, or it is not
CLOSE = 1e-4  # of the distance from value to end: moves that no longer matter
HALF_SPEED = 8  # rounds after which only half of each move is made, so that swings die out


@dataclass(frozen=True, eq=False)
class Dual:
    """Dual number: a value and its gradient with respect to some sums, (sums,)."""

    value: float
    slope: Floats

    def __add__(self, other: Dual) -> Dual:
        return Dual(self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Dual) -> Dual:
        return Dual(self.value - other.value, self.slope - other.slope)

    def __mul__(self, other: Dual) -> Dual:
        return Dual(self.value * other.value, self.slope * other.value + other.slope * self.value)

    def __truediv__(self, other: Dual) -> Dual:
        if other.value == 0.0:
            return Dual(nan, np.full_like(self.slope, nan))
        value = self.value / other.value
        return Dual(value, (self.slope - value * other.slope) / other.value)

    def root(self) -> Dual:
        """Square root; NaN where it is not positive."""
        value = sqrt(self.value) if self.value > 0.0 else nan
        return Dual(value, self.slope / (2.0 * value))


def function_interval(
    function: Function,
    divisors: Sequence[Function],
    sums: Sequence[Functional],
    terms: Sequence[Term] | Noises,
    confidence: float,
) -> Interval | None:
    """Interval of a function of noisy sums; None where a divisor may be zero or the iteration does not converge.

    function, divisors: value and gradient at sums x, (sums,).

    >>> from fractions import Fraction; from sfumato.measurement import Laplace
    >>> terms = [Term.of(Laplace(Fraction(1)), 1, 1, 1, 1, 1, 1, 1), Term.of(Laplace(Fraction(1)), 1, 0, 0, 0, 1, 1, 1)]
    >>> share = lambda x: (float(x[0] / x[1]), np.array([1 / x[1], -x[0] / x[1] ** 2]))
    >>> whole = lambda x: (float(x[1]), np.array([0.0, 1.0]))
    >>> found = function_interval(share, [whole], [Functional(30, 30, 30), Functional(100, 100, 100)], terms, 0.95)
    >>> round(found.value, 3), round(found.low, 2), round(found.high, 2)
    (0.3, 0.28, 0.32)
    """
    noisy = _Noisy(sums, side_by_side(terms), confidence)
    for divisor in divisors:
        value = divisor(noisy.value)[0]
        nearest = noisy.end(divisor, -1.0 if value > 0.0 else 1.0)
        if nearest is None or not nearest * value > 0.0:
            return None
    value, gradient = function(noisy.value)
    ends = [noisy.end(function, sign) for sign in (-1.0, 1.0)]
    low, high = ends
    if low is None or high is None:
        return None
    noise, assumed = noisy.stderr(gradient)
    width = sum(abs(g) * max(s.high - s.low, 0.0) for g, s in zip(gradient, sums, strict=True))
    model = hypot(width / sqrt(12.0), assumed)
    return Interval(value, hypot(noise, model), min(low, value), max(high, value), noise, model)


class _Noisy:
    """Noisy sums as arrays: value, (sums,); ends, (sums, 2); weights of the noises, (noises, sums, 3)."""

    def __init__(self, sums: Sequence[Functional], noises: Noises, confidence: float) -> None:
        self.value = np.array([one.value for one in sums], dtype=np.float64)
        self.ends = np.array([[one.low, one.high] for one in sums], dtype=np.float64)
        self.noises, self.confidence = noises, confidence
        weights = np.zeros((len(noises.many), 3 * len(sums)))
        weights[:, : noises.weights.shape[1]] = noises.weights[:, : 3 * len(sums)]
        self.weights = weights.reshape(len(weights), len(sums), 3)
        self.variances = noises.variances

    def stderr(self, gradient: Floats) -> tuple[float, float]:
        """Standard errors along a gradient, from noise and from model."""
        return self.noises.stderr(np.asarray(self.weights[:, :, 0] @ gradient))

    def end(self, function: Function, sign: float) -> float | None:
        """Upper end of a function's interval, or the lower one with sign -1; None where the iteration fails."""
        start, gradient = function(self.value)
        if not isfinite(start) or not np.isfinite(gradient).all():
            return None
        point, previous, reach = self._farthest(sign * gradient, None), start, None
        for count in range(MOST_ROUNDS):
            value, gradient = function(point)
            if not isfinite(value) or not np.isfinite(gradient).all():
                return None
            settled = abs(value - previous) <= CLOSE * abs(value - start)
            if settled and reach is not None:
                return value
            # How many standard errors the quantile is hangs little on the direction: worked out anew when settled.
            reach = self._reach(sign * gradient) if settled or reach is None else reach
            onward = self._farthest(sign * gradient, reach)
            point, previous = onward if count < HALF_SPEED else (point + onward) / 2.0, value
        return None

    def _chosen(self, gradient: Floats) -> tuple[Floats, Floats]:
        """Ends of the sums that increase a function with this gradient, and the weights of their noises."""
        up = gradient > 0.0
        return np.where(up, self.ends[:, 1], self.ends[:, 0]), np.where(
            up, self.weights[:, :, 2], self.weights[:, :, 1]
        )

    def _reach(self, gradient: Floats) -> float:
        """Quantile of the noise along a gradient, in standard errors."""
        along = self._chosen(gradient)[1] @ gradient
        error = sqrt(float((self.variances * along**2).sum()))
        return self.noises.width(along, self.confidence) / error if error > 0.0 else 0.0

    def _farthest(self, gradient: Floats, reach: float | None) -> Floats:
        """Maximiser of g . x over the sums within `reach` standard errors: centre + reach * C g / sqrt(g^T C g)."""
        centre, weights = self._chosen(gradient)
        along = weights @ gradient
        error = sqrt(float((self.variances * along**2).sum()))
        if not error > 0.0:
            return centre
        reach = self._reach(gradient) if reach is None else reach
        return np.asarray(centre + reach * (weights.T @ (self.variances * along)) / error)


_VARIANCE, _SIGMA_SQUARED = moments_of(NORMAL)


def linear_intervals(answers: Sequence[Floats], errors: NormalErrors, confidence: float) -> Intervals:
    """Intervals [low - q_low, high + q_high] of linear answers; answers: value, low and high, (groups,) each."""
    value, low, high = answers
    noise, model = (_factors(covariance, errors.back) for covariance in (errors.noise, errors.model))
    by_noise, by_model = (np.sqrt((_VARIANCE * each[:, :, 0] ** 2).sum(axis=1)) for each in (noise, model))
    factors = np.concatenate([noise, model], axis=1)
    low_end = low - _widths(factors[:, :, 1], confidence)
    high_end = high + _widths(factors[:, :, 2], confidence)
    by_model = np.hypot(np.maximum(high - low, 0.0) / np.sqrt(12.0), by_model)
    parts = (value, np.hypot(by_noise, by_model), np.minimum(low_end, value), np.maximum(high_end, value), by_noise)
    if not errors.unknown.any():
        return Intervals(*parts, by_model)
    nothing = (nan, nan, -np.inf, np.inf, nan, 0.0)
    known = zip((*parts, by_model), nothing, strict=True)
    return Intervals(*(np.where(errors.unknown, none, part) for part, none in known))


def ratio_intervals(
    tops: Sequence[Floats], bottoms: Sequence[Floats], errors: NormalErrors, confidence: float, bounds: Bounds | None
) -> tuple[Intervals, Flags]:
    """Fieller intervals of ratios, and which groups have them; others need brackets (`end_of_interval`).

    tops, bottoms: value, low and high, (groups,) each. bounds: the range of the ratio over all tables.
    """
    least, most = bounds if bounds is not None else (-np.inf, np.inf)
    noise, model = (_factors(covariance, errors.back) for covariance in (errors.noise, errors.model))
    weights = np.moveaxis(np.concatenate([noise, model], axis=1), 2, 0)  # (six ends, groups, errors)
    ends, d, bottom = weights[:3], weights[3:], np.where(bottoms[0] > 0.0, bottoms[0], nan)
    with np.errstate(all="ignore"):
        value = np.clip(tops[0] / bottom, least, most)
        left = _VARIANCE * (ends[0] - value[:, None] * d[0]) ** 2
        by_noise, by_model = (np.sqrt(part.sum(axis=1)) / bottom for part in np.split(left, [noise.shape[1]], axis=1))
        spread = np.maximum(tops[2] - tops[1] + np.abs(value) * (bottoms[2] - bottoms[1]), 0.0) / bottom
        by_model = np.hypot(spread / np.sqrt(12.0), by_model)
        positive = bottoms[1] > np.sqrt((_VARIANCE * d[1] ** 2).sum(axis=1) / (1.0 - confidence))
        positive |= bottoms[1] > _widths(d[1], confidence)
        above = _Sides(tops[2], ends[2], (bottoms[1], bottoms[2]), (d[1], d[2]), confidence)
        below = _Sides(-tops[1], -ends[1], (bottoms[1], bottoms[2]), (d[1], d[2]), confidence)
        low, high = -below.ends(-value, -least), above.ends(value, most)
    known = positive & np.isfinite(low) & np.isfinite(high) & ~errors.unknown
    return Intervals(value, np.hypot(by_noise, by_model), low, high, by_noise, by_model), known


@dataclass(frozen=True, eq=False)
class _Sides:
    """Upper ends of Fieller intervals in many groups: `fieller.Side`, with arrays (groups,) and (groups, errors)."""

    top: Floats
    n: Floats
    bottom: tuple[Floats, Floats]
    d: tuple[Floats, Floats]
    confidence: float

    def ends(self, start: Floats, limit: float) -> Floats:
        """Greatest r <= limit with room, by fixed-point iteration from a start; NaN where it does not converge."""
        guessed = self._solved(np.full(len(start), cornish_fisher(0.0, self.confidence)))
        r = np.where((start < guessed) & (guessed < limit), guessed, start)
        result, going = np.where(start >= limit, start, nan), start < limit
        for _ in range(ROUNDS):
            onward = self._solved(self._reach(r))
            going &= ~np.isnan(onward)
            stays = going & (r == start) & (onward <= start)
            onward = np.minimum(np.maximum(onward, start), limit)
            settles = going & (np.abs(onward - r) <= SETTLED * (onward - start))
            outwards = np.minimum(np.maximum(onward, r) + SETTLED * (onward - start), limit)
            result = np.where(stays, start, np.where(settles, outwards, result))
            going &= ~(stays | settles)
            r = np.where(going, onward, r)
            if not going.any():
                break
        return np.asarray(result)

    def _reach(self, r: Floats) -> Floats:
        """Quantile of the noise of N - r D in standard errors, (groups,)."""
        weights = self.n - r[:, None] * np.where((r < 0.0)[:, None], self.d[1], self.d[0])
        error = np.sqrt((_VARIANCE * weights**2).sum(axis=1))
        return np.where(error > 0.0, _widths(weights, self.confidence) / error, 0.0)

    def _solved(self, q: Floats) -> Floats:
        """Upper end r >= N / D at which N - r D is q of its standard errors from 0, (groups,); NaN if unbounded."""
        error = np.sqrt((_VARIANCE * self.n**2).sum(axis=1))
        negative = self.top + q * error < 0.0
        bottom, d = np.where(negative, *self.bottom[::-1]), np.where(negative[:, None], *self.d[::-1])
        bottom = np.where(bottom > 0.0, bottom, nan)
        ratio = self.top / bottom
        left = self.n - ratio[:, None] * d
        with_itself, with_d, of_d = ((_VARIANCE * a * b).sum(axis=1) for a, b in ((left, left), (left, d), (d, d)))
        square = bottom * bottom - q * q * of_d
        square = np.where(square > 0.0, square, nan)
        half = -(q * q) * with_d
        found = ratio + (half + np.sqrt(half * half + square * (q * q) * with_itself)) / square
        return np.where(np.isfinite(found), found, nan)


def _factors(covariance: Floats, back: Codes) -> Floats:
    """Weights of independent normal errors with given covariances, (groups, errors, ends): value, low and high of sums.

    As `fieller.normal_terms`, which does it for one group; covariance: (groups, sums, sums).
    """
    if covariance.shape[1] == 1:
        return np.asarray((np.sqrt(np.maximum(covariance, 0.0)) / SMOOTH)[:, :, back])
    values, vectors = np.linalg.eigh(covariance)
    kept = values > NEGLIGIBLE * np.maximum(values.max(axis=1, keepdims=True), 0.0)
    factors = vectors * np.sqrt(np.where(kept, values, 0.0))[:, None, :] / SMOOTH
    return np.asarray(np.swapaxes(factors, 1, 2)[:, :, back])


def _widths(weights: Floats, confidence: float) -> Floats:
    """Smallest q with P(|weighted sum of normal errors| <= q) >= confidence; weights: (groups, errors)."""
    weights = -np.sort(-np.abs(weights), axis=1)
    unit = weights[:, 0].copy()
    weights = weights / np.where(unit > 0.0, unit, 1.0)[:, None]
    shares = _VARIANCE * weights**2
    shares = np.where(shares > NO_NOISE * shares.sum(axis=1, keepdims=True), shares, 0.0)
    deviation = np.sqrt(shares.sum(axis=1))
    widths = unit * (deviation * cornish_fisher(0.0, confidence))
    many = (shares > 0.0).sum(axis=1)
    alike = many == (weights == 1.0).sum(axis=1)  # one weight: on the lattice
    for number in np.unique(many[alike]).tolist():
        same = alike & (many == number)
        widths[same] = unit[same] * _width_of_equal(number, confidence)
    for group in np.flatnonzero(~alike & (deviation <= FINEST)).tolist():  # all but one are next to nothing
        some = weights[group][shares[group] > 0.0] * unit[group]
        widths[group] = _width(some, confidence)
    return np.asarray(widths)


@lru_cache(maxsize=256)
def _width_of_equal(number: int, confidence: float) -> float:
    """Half-width of the interval of an unweighted sum of so many normal errors."""
    return _width(np.ones(number), confidence)


def _width(weights: Floats, confidence: float) -> float:
    """Half-width of the interval of one weighted sum of normal errors; weights: (errors,)."""
    every = np.ones(len(weights))
    return half_width_of(weights, _VARIANCE * every, _SIGMA_SQUARED * every, every, confidence)
