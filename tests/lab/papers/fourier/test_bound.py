"""The accuracy that theorem 4 promises, and the noise it rests on."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import pytest

from sfumato.lab.papers.fourier.measure import bits_of, largest_noise, margin_bound, raise_bound, theorem_bound
from sfumato.measurement import Gaussian, Laplace


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(176)])
@pytest.mark.parametrize("coefficients", [1, 176])
def test_the_largest_noise_is_the_least_size_that_holds(scale, coefficients):
    def tail(size: int) -> float:
        ratio = exp(-1 / scale)
        return coefficients * 2 * ratio ** (size + 1) / (1 + ratio)

    size = largest_noise(coefficients, Laplace(scale), 0.05)
    assert tail(size) <= 0.05 * (1 + 1e-9) and (size == 0 or tail(size - 1) > 0.05)


def test_the_bound_with_the_noise_drawn_is_within_the_papers():
    assert margin_bound(3, 176, Laplace(Fraction(176)), 0.05) < theorem_bound(3, 176, 1.0, 0.05) * 1.001
    assert largest_noise(10, Gaussian(Fraction(100)), 0.05) == 35  # sqrt(200 ln 400) = 34.6
    assert raise_bound(176, Laplace(Fraction(176))) == 176**2
    assert bits_of((2, 3, 5)) == 6
