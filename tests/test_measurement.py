"""The numbers of a noise: the parameter it is asked for by, and its variance on the integers and on the line."""

from fractions import Fraction

import pytest

from sfumato.measurement import Gaussian, Laplace


def test_the_parameter_is_the_exact_number_that_was_asked_for():
    third = Fraction(1, 3)
    assert Laplace(third).parameter is third and Gaussian(third).parameter is third


def test_continuous_noise_varies_more_and_the_difference_is_known():
    # P(z) on the integers with r = exp(-1 / scale) has variance 2 r / (1 - r)^2 = 2 scale^2 - 1/6 + O(1 / scale^2).
    wide = Laplace(Fraction(100))
    assert wide.continuous_variance == 20_000.0
    assert wide.continuous_variance - wide.variance == pytest.approx(1 / 6, abs=1e-4)
    assert Gaussian(Fraction(10)).continuous_variance == 10.0 == Gaussian(Fraction(10)).variance


def test_noise_that_is_mostly_zero_has_a_tiny_variance_and_an_ordinary_continuous_one():
    small = Fraction(1, 50)
    assert Laplace(small).continuous_variance == pytest.approx(8e-4) and 0 < Laplace(small).variance < 1e-20
    assert Gaussian(small).continuous_variance == 0.02 and 0 < Gaussian(small).variance < 1e-10
