"""Simultaneous error bounds for all counting queries over noisy cells: the paper's, and the exact one.

TR-2010-003 calls a release (error, delta)-useful if, with probability 1 - delta, every query is within the error. Its
theorems 4.2 and 5.2 promise that for n >= beta ln(beta / delta) / (alpha error), where alpha is the privacy budget,
beta the number of cells and the error a share of the n rows. In words here: `epsilon` is the privacy budget, `cells`
beta, `confidence` 1 - delta, and `error` is in rows, n times the paper's, so that it does not depend on n:

    error = sensitivity * cells * ln(cells / delta) / epsilon

The paper bounds every cell's noise and adds the bounds up. The noise is known, so the sums can be worked out instead:
`every_query_error` for all unions of cells at once. `epsilon_for` finds the epsilon that an error needs. A person with
up to k rows changes counts by up to k: the sensitivity is k.

Smallest epsilon that keeps answers within an error (the problem of APEx, SIGMOD 2019).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil, exp, floor, inf, isfinite, isnan, log, log10, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.kernel.budget import as_epsilon
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.forecast import Outlook, Question, outlook, strategy_of
from sfumato.planner.marginal_errors import stand_in
from sfumato.planner.questions import Item, Line, price, worst_of
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube

Number = int | float | Fraction

SMALLEST, LARGEST = -9, 6  # powers of ten between which an epsilon is sought
DIGITS = 10**3  # an epsilon found has four significant digits
FINEST = 5000  # steps in a standard deviation up to which sums are worked out on every whole number
COARSE = 2000  # and on how many otherwise
MANY = 10**4  # cells from which wide sums are near enough to normal for an expansion


def paper_error(cells: int, epsilon: Number, confidence: float, sensitivity: Number = 1) -> float:
    """Bound of theorem 4.2: the error, in rows, within which all queries over the cells lie.

    >>> round(paper_error(100, 0.05, 0.95))
    15202
    """
    delta = _delta(cells, confidence)
    return float(sensitivity) * cells * log(cells / delta) / float(as_epsilon(epsilon))


def paper_rows(cells: int, epsilon: Number, error_share: float, confidence: float) -> int:
    """Bound of theorem 5.2: rows that a table needs for all queries to lie within a share of them.

    >>> paper_rows(100, 0.05, 0.02, 0.95)
    760091
    """
    return ceil(paper_error(cells, epsilon, confidence) / _positive(error_share, "error_share"))


def every_query_error(cells: int, epsilon: Number, confidence: float, sensitivity: Number = 1) -> float:
    """Exact simultaneous error bound, in rows, for all unions of cells at this confidence.

    The worst union takes all cells whose noise is positive, or all whose noise is negative, so the largest error is the
    greater of two sums with the same distribution. Each is given half of 1 - confidence. The sums are negatively
    associated, so both exceed the bound with probability at most (delta / 2)^2, and nothing more than that is given
    away.

    >>> every_query_error(100, 0.05, 0.95)
    1361.0
    """
    delta = _delta(cells, confidence)
    return positive_sum_quantile(cells, float(Fraction(sensitivity) / as_epsilon(epsilon)), delta / 2.0)


def epsilon_for(error_of: Callable[[Fraction], float], error: float) -> Fraction:
    """Smallest epsilon with error_of(epsilon) <= error, rounded up to four significant digits, by bisection.

    error_of: falls as epsilon grows. What is returned was tried, so it does keep the error.

    >>> epsilon_for(lambda epsilon: 1 / epsilon, 3)
    Fraction(1667, 5000)
    """
    if isnan(error) or error < 0.0:
        raise QueryError(f"the error to stay within must be 0 or more, got {error}")

    def enough(epsilon: Fraction) -> bool:
        return error_of(epsilon) <= error

    power = 0
    if enough(Fraction(1)):
        while power > SMALLEST and enough(Fraction(10) ** (power - 1)):
            power -= 1
        if power == SMALLEST:
            return Fraction(10) ** power
    else:
        power = 1
        while not enough(Fraction(10) ** power):
            power += 1
            if power > LARGEST:
                raise QueryError(f"no epsilon up to 10^{LARGEST} keeps the error within {error}; allow a larger error")
    unit = Fraction(10) ** (power - 1) / DIGITS
    too_small, good = DIGITS, 10 * DIGITS  # in units: 10^(power - 1) failed, 10^power did not
    while good - too_small > 1:
        middle = (too_small + good) // 2
        too_small, good = (too_small, middle) if enough(middle * unit) else (middle, good)
    return good * unit


def positive_sum_quantile(cells: int, scale: float, tail: float) -> float:
    """Smallest whole k with P(sum of the positive parts of `cells` discrete Laplace noises > k) <= tail.

    With r = exp(-1 / scale) a positive part has the generating function (1 - r^2 x) / ((1 + r) (1 - r x)), so its
    cumulants are those of a geometric distribution with ratio r less those with ratio r^2, and one FFT gives the sum's
    distribution. Sums too wide for that use a coarser lattice (scale divided by the step, mean and variance put right
    afterwards) or, of many cells, the Cornish-Fisher expansion with skewness and kurtosis. Beside the lattice of whole
    numbers, for tails down to 5e-8, the first was 0 to 5e-4 of the error too large, the second within 5e-6.
    """
    mean, variance, third, fourth = (cells * cumulant for cumulant in positive_cumulants(scale))
    deviation = sqrt(variance)
    if cells >= MANY and deviation > FINEST / 10:
        from statistics import NormalDist

        z = -NormalDist().inv_cdf(tail)
        skew, kurtosis = third / deviation**3, fourth / variance**2
        z += (z**2 - 1) * skew / 6 + (z**3 - 3 * z) * kurtosis / 24 - (2 * z**3 - 5 * z) * skew**2 / 36
        return float(ceil(mean + z * deviation))
    if deviation <= FINEST:
        return float(_lattice_quantile(cells, scale, tail))
    step = deviation / COARSE
    coarse_mean, coarse_variance = (cells * cumulant for cumulant in positive_cumulants(scale / step)[:2])
    rank = _lattice_quantile(cells, scale / step, tail) + 0.5  # a coarse value stands for half a step on either side
    return float(max(0, ceil(mean + (rank - coarse_mean) * deviation / sqrt(coarse_variance))))


def positive_cumulants(scale: float) -> tuple[float, float, float, float]:
    """First four cumulants of the positive part of discrete Laplace noise."""

    def geometric(rate: float) -> tuple[float, float, float, float]:
        ratio, rest = exp(-rate), -np.expm1(-rate)
        second = ratio / rest**2
        return ratio / rest, second, second * (1 + ratio) / rest, second * (1 + 4 * ratio + ratio**2) / rest**2

    one, two = geometric(1.0 / scale), geometric(2.0 / scale)
    return one[0] - two[0], one[1] - two[1], one[2] - two[2], one[3] - two[3]


def _lattice_quantile(cells: int, scale: float, tail: float) -> int:
    """Quantile in whole steps, by one FFT over a window that holds all but a millionth of the tail."""
    ratio = exp(-1.0 / scale)

    def growth(moment: NDArray[Any]) -> NDArray[Any]:
        """Cumulant generating function of the sum, at real or imaginary moments."""
        lift = np.exp(moment)
        return np.asarray(cells * (np.log(1.0 - ratio**2 * lift) - np.log(1.0 - ratio * lift) - np.log1p(ratio)))

    outside = log(1e6 / tail)  # Chernoff: P(sum >= x) <= exp(growth(t) - t x), and the same below
    moments = np.concatenate([np.geomspace(1e-6, 0.5, 60), np.linspace(0.51, 0.99, 49)]) / scale
    last = ceil(float(((growth(moments) + outside) / moments).min()))
    down = np.geomspace(1e-3, 1e3, 120) / scale
    first = max(0, floor(float(((-growth(-down) - outside) / down).max())))
    length = 1 << (last - first + 2).bit_length()
    angle = np.arange(length // 2 + 1) * (2.0j * pi / length)
    mass = np.fft.irfft(np.exp(growth(-angle) + first * angle), length)
    above = np.cumsum(mass[::-1])[::-1] - mass  # P(sum > first + k), but for what lies outside the window
    return first + int(np.argmax(above + 2e-6 * tail <= tail))  # which is added, so as not to be optimistic


def _delta(cells: int, confidence: float) -> float:
    if cells < 1:
        raise QueryError(f"a table has at least one cell, got {cells}")
    if not 0.0 < confidence < 1.0:
        raise QueryError(f"confidence must lie between 0 and 1, such as 0.95; got {confidence}")
    return 1.0 - confidence


def _positive(value: float, what: str) -> float:
    if not value > 0.0:
        raise QueryError(f"{what} must be above 0, got {value}")
    return float(value)


# -- smallest epsilon

MOST = 1000  # epsilon, beyond which nobody is protected and noise is too small to be told from rounding
CORRECTIONS = 6  # of the guess that errors fall in proportion to epsilon
TRIALS = 4  # of mechanisms that have to be tried out, each of which takes a second or so
FARTHEST = 16.0  # times the last epsilon is the next one at most; errors of less than a row are no guide
CLOSE = 1.3  # times what was too little is near enough to the least


def least_epsilon(
    mechanism: Mechanism,
    question: Question,
    error: float,
    *,
    line_by_line: bool,
    most: float = MOST,
    at_one: Outlook | None = None,
) -> Outlook:
    """Outlook of a mechanism at the smallest epsilon that keeps every question within `error`, at the confidence.

    line_by_line: also the smallest for each question by itself, which takes longer. most: where trials end. at_one: its
    outlook at an epsilon of 1, if that is known.
    """
    at_one = at_one or outlook(mechanism, question, question.budget(mechanism, Fraction(1)), patient=line_by_line)
    if at_one.how == "not priced":
        return at_one
    try:
        if at_one.how in ("simulated", "foretold"):
            return _about(mechanism, question, error, at_one, most)
        return _exactly(mechanism, question, error, at_one, line_by_line=line_by_line)
    except QueryError as problem:
        return replace(at_one, how="not priced", lines=(), note=str(problem))


def _exactly(mechanism: Mechanism, question: Question, error: float, at_one: Outlook, *, line_by_line: bool) -> Outlook:
    """Smallest epsilon by search on the exact noise distribution; bisection where cells are published as measured."""
    strategy = strategy_of(mechanism, question, question.budget(mechanism, Fraction(1)))
    assert strategy is not None  # noqa: S101 (priced exactly)
    cube = _cube(mechanism, question, strategy, Fraction(1), counts=True)
    find = epsilon_for if mechanism.as_measured else near_epsilon

    def smallest(item: Item) -> Fraction:
        hardest = worst_of(item, cube)  # at one epsilon it is so at every other, but for the steps of whole numbers

        def within(epsilon: Fraction) -> float:
            return _line(mechanism, question, hardest, strategy, epsilon).within

        return find(within, error)

    if line_by_line:
        least = [smallest(item) for item in question.items]
        lines = [
            replace(_line(mechanism, question, item, strategy, epsilon), epsilon=epsilon)
            for item, epsilon in zip(question.items, least, strict=True)
        ]
        return replace(at_one, lines=tuple(lines), epsilon=max(least))
    hardest = max(range(len(at_one.lines)), key=lambda place: at_one.lines[place].within)
    return replace(at_one, lines=(), epsilon=smallest(question.items[hardest]))


def near_epsilon(within: Callable[[Fraction], float], error: float) -> Fraction:
    """Smallest epsilon to about three digits, for errors nearly proportional to 1 / epsilon.

    What is returned was tried, so it does keep the error.

    >>> near_epsilon(lambda epsilon: 1 / float(epsilon), 3)
    Fraction(167, 500)
    """
    epsilon = Fraction(1)
    for _ in range(CORRECTIONS):
        width = within(epsilon)
        if not isfinite(width) or (wanted := float(epsilon) * max(width, error / 1e3) / error) > MOST:
            raise _out_of_reach(error)
        settled = abs(wanted / float(epsilon) - 1) < 1e-3
        epsilon = rounded_up(wanted, 3)
        if settled:
            break
    step = epsilon / 500
    while within(epsilon) > error:
        epsilon, step = rounded_up(float(epsilon + step), 4), 2 * step
        if epsilon > MOST:
            raise _out_of_reach(error)
    return epsilon


def _line(mechanism: Mechanism, question: Question, item: Item, strategy: Strategy, epsilon: Fraction) -> Line:
    cube = _cube(mechanism, question, strategy, epsilon, counts=item.block is not None)
    line = price(item, cube, question.confidence)
    return line if isfinite(line.within) else replace(line, within=inf)


def _cube(mechanism: Mechanism, question: Question, strategy: Strategy, epsilon: Fraction, *, counts: bool) -> Cube:
    """Cube with the noise of an epsilon and no data; counts: of counts alone, at their share of it, which is faster."""
    schema, budget = question.schema, question.budget(mechanism, epsilon)
    if counts and schema.summed:
        schema, budget = schema.counts_alone, budget.split(*schema.weights.values())[0]
    return stand_in(mechanism, schema, budget, strategy)


def _about(mechanism: Mechanism, question: Question, error: float, at_one: Outlook, most: float) -> Outlook:
    """Smallest epsilon by simulation on the public shapes; the result was simulated and keeps the error there."""
    epsilon, forecast = Fraction(1), at_one
    too_little, enough, kept = 0.0, inf, None
    for trial in range(TRIALS):
        if trial:
            forecast = outlook(mechanism, question, question.budget(mechanism, epsilon), patient=False)
        off = max((line.within for line in forecast.lines), default=inf) / error
        if off <= 1:
            enough, kept = float(epsilon), replace(forecast, epsilon=epsilon, about=True)
        else:
            too_little = float(epsilon)
        if enough <= CLOSE * too_little or too_little >= most:
            break
        wanted = min(float(epsilon) * min(max(off, 1 / FARTHEST), FARTHEST), most)
        if not too_little < wanted < enough / 1.1:  # so that rounding up does not lead back to what was tried
            wanted = sqrt(max(too_little, enough / FARTHEST) * enough)
        epsilon = rounded_up(wanted, 2)
    if kept is None:
        raise QueryError(f"no epsilon up to {too_little:,g} was found to keep it within {error:,g}")
    return kept


def _out_of_reach(error: float) -> QueryError:
    return QueryError(f"no epsilon up to {MOST} keeps it within {error:,g}")


def rounded_up(number: float | Fraction, digits: int) -> Fraction:
    """Round a number up to some significant digits.

    >>> rounded_up(0.1234, 2), rounded_up(51.2, 2), rounded_up(Fraction(1, 30000), 2)
    (Fraction(13, 100), Fraction(52, 1), Fraction(17, 500000))
    """
    last = Fraction(10) ** (floor(log10(number)) + 1 - digits)
    return ceil(Fraction(str(number)) / last) * last
