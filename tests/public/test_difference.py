"""The interval of a difference, against distributions that are known."""

from __future__ import annotations

from math import exp, inf, log, nan

import pytest

from sfumato.answers.results import Estimate
from sfumato.public.comparison import LEAST, difference


def around(value: float, half: float) -> Estimate:
    return Estimate(value, half / 2, value - half, value + half, 0.95, half / 2)


@pytest.mark.parametrize("confidence", [LEAST, 0.95, 0.99, 0.9999, 1 - 1e-7])
@pytest.mark.parametrize("ratio", [1e-3, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99])
def test_two_laplace_noises_are_covered_as_often_as_is_said(confidence, ratio):
    """P(|X + Y| > t) = (e^-t - r^2 e^(-t / r)) / (1 - r^2) for scales 1 and r; exact, no sampling."""
    half = -log(1 - confidence)
    found = difference(around(0, half), around(0, ratio * half), apart=True)
    missed = (exp(-found.high) - ratio**2 * exp(-found.high / ratio)) / (1 - ratio**2)
    assert missed <= 1 - confidence
    assert missed >= 1e-3 * (1 - confidence)  # and it is no blanket


def test_below_the_least_confidence_it_would_not_be():
    half = -log(0.2)
    found = difference(around(0, half), around(0, half), apart=True)
    assert (1 + found.high / 2) * exp(-found.high) > 0.2  # equal scales; why LEAST is there


def test_noise_that_may_be_shared_is_added_at_its_worst():
    found = difference(around(10, 3), around(20, 4), apart=False)
    assert (found.value, found.low, found.high, found.real) == (10, 3, 17, True)
    assert found.clearness == pytest.approx(10 / 7)


def test_what_is_unknown_is_no_difference():
    unknown = Estimate(nan, inf, -inf, inf, 0.95, inf)
    for apart in (True, False):
        found = difference(unknown, around(1, 1), apart=apart)
        assert found.real is None and found.clearness == -1.0
    unbounded = difference(Estimate(3, 1, -inf, inf, 0.95, 1), around(9, 1), apart=True)
    assert unbounded.real is False and unbounded.clearness == 0.0
