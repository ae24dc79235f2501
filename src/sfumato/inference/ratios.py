"""Intervals for linear answers and for ratios of two of them.

An answer is a sum of noisy numbers with public weights. Where it depends on how rows are spread inside cells it is known
only between two such sums, a low and a high end. The interval then reaches from the low end less its noise to the high
end plus its noise, each with half of the error that the confidence leaves.

A ratio's interval is Fieller's, with exact laws: it holds every r for which numerator - r * denominator, a sum of noisy
numbers itself, is compatible with zero. Shared noise is accounted for, and a denominator near zero gives the wide
interval it deserves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf, isfinite, nan, sqrt

from sfumato.inference.laws import stderr, upper_quantile
from sfumato.measurement import Noise

Bounds = tuple[float, float]

STEPS = 60  # of a bisection at most; it stops earlier, at a hundred-thousandth of the standard error
GROWTH = 2.0


@dataclass(frozen=True)
class Functional:
    """A noisy linear answer: its value, and the low and high end that the spread inside cells allows."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Term:
    """Independent noises that enter numerator and denominator with the same weights: value, low and high end."""

    noise: Noise
    multiplicity: int
    n: float
    n_low: float
    n_high: float
    d: float = 0.0
    d_low: float = 0.0
    d_high: float = 0.0

    @classmethod
    def of(cls, noise: Noise, multiplicity: int, *weights: float) -> Term:
        """A term from weights in order: value, low, high of the numerator, then of the denominator."""
        return cls(noise, multiplicity, *weights)


@dataclass(frozen=True)
class Interval:
    """An estimate: noise and model are the parts of stderr that come from noise and from the spread inside cells."""

    value: float
    stderr: float
    low: float
    high: float
    noise: float
    model: float = 0.0


def linear_interval(answer: Functional, terms: Sequence[Term], confidence: float) -> Interval:
    """The interval of a linear answer."""
    level = (1.0 + confidence) / 2.0
    noise = stderr((t.n, t.noise, t.multiplicity) for t in terms)
    low = answer.low - upper_quantile([(t.n_low, t.noise, t.multiplicity) for t in terms], level)
    high = answer.high + upper_quantile([(t.n_high, t.noise, t.multiplicity) for t in terms], level)
    model = max(answer.high - answer.low, 0.0) / sqrt(12.0)  # as if spread evenly over what is possible
    low, high = min(low, answer.value), max(high, answer.value)
    return Interval(answer.value, sqrt(noise**2 + model**2), low, high, noise, model)


def ratio_interval(
    top: Functional, bottom: Functional, terms: Sequence[Term], confidence: float, bounds: Bounds | None = None
) -> Interval:
    """The interval of a ratio; `bounds` are what it cannot leave for any table.

    The value is nan where the noisy denominator is not positive; the interval still holds.
    """
    least, most = bounds if bounds is not None else (-inf, inf)
    level = (1.0 + confidence) / 2.0

    def room(r: float) -> float:
        """How far r is inside the confidence set; negative outside."""
        d_low, d_high = ("d_low", "d_high") if r >= 0 else ("d_high", "d_low")
        below = [(t.n_low - r * getattr(t, d_high), t.noise, t.multiplicity) for t in terms]
        above = [(t.n_high - r * getattr(t, d_low), t.noise, t.multiplicity) for t in terms]
        low = top.low - r * getattr(bottom, d_high[2:])
        high = top.high - r * getattr(bottom, d_low[2:])
        return min(upper_quantile(below, level) - low, upper_quantile(above, level) + high)

    if bottom.value <= 0 or not isfinite(top.value / bottom.value):
        # No ratio to start from; a set that leaves out part of the bounds would need a denominator above zero.
        return Interval(nan, nan, least, most, nan)
    raw = top.value / bottom.value
    value = min(max(raw, least), most)
    slope = [(t.n - value * t.d, t.noise, t.multiplicity) for t in terms]
    noise = stderr(slope) / bottom.value
    model = max(top.high - top.low + abs(value) * (bottom.high - bottom.low), 0.0) / bottom.value / sqrt(12.0)
    error = sqrt(noise**2 + model**2)
    step = error if error > 0 else max(abs(value), 1.0) * 1e-9
    low = _edge(room, raw, -step, least, most)
    high = _edge(room, raw, step, least, most)
    return Interval(value, error, min(low, value), max(high, value), noise, model)


def _edge(room: Callable[[float], float], start: float, step: float, least: float, most: float) -> float:
    """Where the confidence set ends, walking from a point inside it, within the bounds."""
    limit = most if step > 0 else least
    inside, reach = start, step
    if (start - limit) * step >= 0:  # the point estimate lies beyond the bound
        return limit
    while True:
        outside = start + reach
        if (outside - limit) * step >= 0:
            if not isfinite(limit) or room(limit) >= 0:
                return limit
            outside = limit
            break
        if room(outside) < 0:
            break
        inside, reach = outside, reach * GROWTH
        if abs(reach) > 1e9 * abs(step):  # it does not end
            return limit
    for _ in range(STEPS):
        if abs(outside - inside) <= 1e-5 * abs(step):
            break
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if room(middle) >= 0 else (inside, middle)
    return outside
