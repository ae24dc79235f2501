"""Intervals of functions of noisy sums: Fieller's where there is a ratio, the linear one where there is none."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.answers.fieller import Functional, Term, linear_interval, ratio_interval
from sfumato.answers.function_interval import function_interval
from sfumato.measurement import Laplace

NOISE = Laplace(Fraction(3))
SHARED = [Term.of(NOISE, 5, 1, 1, 1, 1, 1, 1), Term.of(NOISE, 7, 0, 0, 0, 1, 1, 1)]


def exactly(*values: float) -> list[Functional]:
    return [Functional(value, value, value) for value in values]


def ratio(x: np.ndarray) -> tuple[float, np.ndarray]:
    return float(x[0] / x[1]), np.array([1 / x[1], -x[0] / x[1] ** 2, *[0.0] * (len(x) - 2)])


def coordinate(place: int):
    return lambda x: (float(x[place]), np.eye(len(x))[place])


def gap(x: np.ndarray) -> tuple[float, np.ndarray]:
    return float(x[0] / x[1] - x[2] / x[3]), np.array([1 / x[1], -x[0] / x[1] ** 2, -1 / x[3], x[2] / x[3] ** 2])


@pytest.mark.parametrize("sums", [(300, 1000), (30, 100), (-20, 90), (0, 60)])
def test_a_ratio_has_fiellers_interval(sums):
    found = function_interval(ratio, [coordinate(1)], exactly(*sums), SHARED, 0.95)
    fieller = ratio_interval(*exactly(*sums), SHARED, 0.95)
    width = fieller.high - fieller.low
    assert abs(found.low - fieller.low) < 0.005 * width and abs(found.high - fieller.high) < 0.005 * width
    assert found.stderr == pytest.approx(fieller.stderr)


def test_a_sum_has_the_linear_interval():
    found = function_interval(coordinate(0), [], exactly(300, 1000), SHARED, 0.9)
    linear = linear_interval(exactly(300)[0], SHARED, 0.9)
    assert (found.low, found.high) == pytest.approx((linear.low, linear.high))


def test_where_rows_inside_cells_count_the_farther_end_is_taken():
    sums = [Functional(300, 250, 320), Functional(1000, 900, 1100)]
    found = function_interval(ratio, [coordinate(1)], sums, SHARED, 0.95)
    fieller = ratio_interval(*sums, SHARED, 0.95)
    assert (found.low, found.high) == pytest.approx((fieller.low, fieller.high), rel=0.005)
    assert found.model > 0


@pytest.mark.parametrize("rows", [0.0, 8.0, -8.0])
def test_a_divisor_that_may_be_zero_gives_nothing(rows):
    assert function_interval(ratio, [coordinate(1)], exactly(300, rows), SHARED, 0.95) is None


def test_noise_that_two_averages_share_cancels():
    same = [Term.of(NOISE, 4, *[1.0] * 3, *[0.0] * 3, *[1.0] * 3, *[0.0] * 3)]
    found = function_interval(gap, [coordinate(1), coordinate(3)], exactly(50, 100, 30, 100), same, 0.95)
    assert found.high - found.low < 1e-9 and found.value == pytest.approx(0.2)


def test_the_difference_of_two_averages_holds_as_often_as_it_says():
    """300 draws at 95 %: 262 or fewer hits have a chance under 1e-6, and so have all 300 (binomial)."""
    rng = np.random.default_rng(5)
    truth = np.array([400.0, 60.0, 900.0, 200.0])
    rate = 1 - np.exp(-1 / 3)
    terms = [Term.of(NOISE, 1, *np.repeat(np.eye(4)[place], 3).tolist()) for place in range(4)]
    held = 0
    for _ in range(300):
        noise = rng.geometric(rate, 4) - rng.geometric(rate, 4)
        found = function_interval(gap, [coordinate(1), coordinate(3)], exactly(*(truth + noise)), terms, 0.95)
        held += found.low <= gap(truth)[0] <= found.high
    assert 262 < held < 300
