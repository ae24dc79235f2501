"""How far sums of a few noises reach beyond a normal one."""

from __future__ import annotations

from fractions import Fraction
from math import log, sqrt
from statistics import NormalDist

import pytest

from sfumato.measurement import Gaussian, Laplace
from sfumato.models.margins.noise import longest_reach


def test_one_noise_of_long_tails_reaches_furthest():
    found = longest_reach(frozenset({Laplace(Fraction(300))}), 0.95)
    assert found == pytest.approx(-log(0.05) / sqrt(2.0), rel=2e-3)
    assert longest_reach(frozenset({Gaussian(Fraction(10_000))}), 0.95) == pytest.approx(1.96, rel=2e-2)


@pytest.mark.parametrize("scale", [Fraction(1, 4), Fraction(1, 3), Fraction(1, 2), Fraction(1)])
def test_where_most_noise_is_0_it_reaches_the_next_row(scale):
    """One noise: the least whole q with P(|Z| > q) <= 0.05, P(|Z| > q) being 2 r^(q + 1) / (1 + r)."""
    rate = 2.718281828459045 ** (-1 / float(scale))
    least = next(q for q in range(50) if 2 * rate ** (q + 1) / (1 + rate) <= 0.05)
    reach = longest_reach(frozenset({Laplace(scale)}), 0.95) * sqrt(Laplace(scale).variance)
    assert reach >= least - 1e-9


def test_a_normal_distribution_would_fall_short_of_it():
    """Of scale 1/3, every tenth noise is not 0, and 1.96 standard errors are two thirds of a row."""
    assert NormalDist().inv_cdf(0.975) * sqrt(Laplace(Fraction(1, 3)).variance) < 0.7


def test_without_noise_nothing_is_reached():
    """With an epsilon of a million its variance is 0."""
    assert longest_reach(frozenset({Laplace(Fraction(1, 10**6))}), 0.95) == 0.0
