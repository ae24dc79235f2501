"""The deviation of a model that a measured misfit stands for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from sfumato.models.calibration.model_error import allow_for_noise, deviation_in_buckets, deviation_of_shape


def test_the_deviation_explains_the_mean_error():
    model, noise = np.array([1.0, 4.0, 0.0]), np.array([0.0, 2.0, 1.0])
    spread = deviation_of_shape(5.0, model, noise)
    assert np.sqrt(2 / np.pi * (spread**2 * model + noise)).mean() == pytest.approx(5.0)
    assert deviation_of_shape(0.1, model, noise) == 0.0  # the noise alone is more
    assert deviation_of_shape(5.0, np.zeros(3), noise) == 0.0  # nothing that a model could explain


def test_a_mean_known_through_noise_is_reckoned_larger_and_one_known_well_as_it_is():
    assert allow_for_noise(1000.0, 1.0) == pytest.approx(1000.0, rel=1e-3)
    assert 0 < allow_for_noise(-50.0, 1.0) == allow_for_noise(0.0, 1.0)
    reckoned = [allow_for_noise(mean, 1.0) - mean for mean in (0.0, 1.0, 3.0, 10.0, 30.0)]
    assert all(a > b > 0 for a, b in pairwise(reckoned))


@pytest.mark.parametrize("mean", [1.0, 4.0])
def test_intervals_made_from_a_noisy_mean_hold_on_average(mean):
    """The true mean fixed, the noise integrated over: normal errors of this mean size are held 95 % or more."""
    from scipy.stats import norm

    noise = np.linspace(-12, 12, 97)
    chance = np.exp(-np.abs(noise)) / np.exp(-np.abs(noise)).sum()
    held = [2 * norm.cdf(1.96 * allow_for_noise(mean + z, 1.0) / mean) - 1 for z in noise]
    assert chance @ held > 0.935


def test_a_misfit_gives_back_the_deviation_within_buckets_it_came_from():
    shares, deviations = np.full(40, 0.25), np.full(40, 3.0)
    spread = 50.0
    misfit = 40 * np.sqrt(2 / np.pi) * np.sqrt(3 / 16 * spread**2 + 9 / 16)
    assert deviation_in_buckets(misfit, 0.0, shares, deviations, np.full(40, 1e4)) == pytest.approx(spread)
    assert deviation_in_buckets(1.0, 0.0, shares, deviations, np.full(40, 1e4)) == 0.0
    assert deviation_in_buckets(misfit, 0.0, shares, deviations, np.full(40, 20.0)) == 20.0  # no bucket has more
    known, unsure = (
        deviation_in_buckets(misfit, scale, shares, deviations, np.full(40, 1e4)) for scale in (1.0, 300.0)
    )
    assert known == pytest.approx(spread, rel=0.01) and unsure > 1.1 * spread
