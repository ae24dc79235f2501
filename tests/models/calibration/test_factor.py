"""Factors on claimed errors: what was measured decides where noise is little, what is claimed where it is large."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.measurement import Gaussian, Laplace, Measurement
from sfumato.models.calibration.model_error import CLAIMED, POSSIBLE, chances_of, expected_sizes, factor_of
from sfumato.queries import Identity

RNG = np.random.default_rng(1)


def measured(answer: float, noise) -> Measurement:
    return Measurement("misfit", Identity(1), np.array([round(answer)]), (noise,))


@pytest.mark.parametrize("peaked", [False, True])
def test_expected_sizes_are_the_means_of_errors_of_that_shape(peaked):
    """200,000 draws of each of two questions: a standard error of 0.3 %, and a bound seven times that."""
    beside, model = np.array([0.0, 0.4]), np.array([4.0, 0.25])
    drawn = RNG.laplace(0, np.sqrt(0.5), (200_000, 2)) if peaked else RNG.standard_normal((200_000, 2))
    beyond = RNG.exponential(size=(200_000, 2))
    for place in (CLAIMED, CLAIMED + 20):
        factor = POSSIBLE[place]
        own = factor if peaked else np.sqrt(1.0 + (factor**2 - 1.0) * beyond)  # questions differ beyond what is claimed
        mean = np.abs(drawn * own * np.sqrt(model) + beside).mean()
        assert expected_sizes(beside, model, peaked=peaked)[place] == pytest.approx(mean, rel=0.02)


@pytest.mark.parametrize("factor", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("noise", [Laplace(Fraction(2)), Gaussian(Fraction(4))])
def test_a_clear_measurement_decides(factor, noise):
    expected = 1000 * expected_sizes(np.zeros(50), np.full(50, 9.0))
    answer = np.interp(factor, POSSIBLE, expected)
    # Where questions differ, as they do beyond a factor of 1, 95 % of them need a little more than the mean square.
    longer = 1.06 * factor if factor > 1.0 else factor
    assert factor_of(chances_of(measured(answer, noise), 0, expected)) == pytest.approx(longer, rel=0.05)


def test_the_factor_holds_95_percent_of_questions_that_differ():
    """100,000 questions whose variances beyond the claimed are exponential: a standard error of 0.07 %, five times."""
    clear = np.eye(len(POSSIBLE))[CLAIMED + 20]
    errors = RNG.standard_normal(100_000) * np.sqrt(
        1.0 + (POSSIBLE[CLAIMED + 20] ** 2 - 1.0) * RNG.exponential(size=100_000)
    )
    assert np.mean(np.abs(errors) < 1.959964 * factor_of(clear)) == pytest.approx(0.95, abs=0.0035)


def test_noise_widens_and_leaves_what_is_claimed():
    expected = 10 * expected_sizes(np.zeros(5), np.full(5, 9.0))
    wide = [
        factor_of(chances_of(measured(expected[CLAIMED], Laplace(Fraction(s))), 0, expected)) for s in (1, 10, 10**6)
    ]
    assert 1.0 < wide[0] < wide[1] < wide[2] < 8.0


def test_groups_that_differ_make_intervals_wider_than_their_mean():
    one, other = (np.eye(len(POSSIBLE))[place] for place in (CLAIMED, CLAIMED + 20))  # factors 1 and 4
    assert 2.5 < factor_of(np.array([one, other])) < 4.0
