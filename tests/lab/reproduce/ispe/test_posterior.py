"""The posterior of one number: the worked example of the paper, brute force, and dependence."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.lab.reproduce.ispe.posterior import posterior
from sfumato.measurement import Gaussian, Laplace

NOISE = Laplace(Fraction(20))


def test_worked_example_of_the_paper():
    """ISPE has -5.9707 from simulated laws. By symmetry of five equal noises it is (3 * 25.6289 - 2 * 52.9904) / 5."""
    first, second = -15.4486 + 41.0775, -5.2668 + 2.9380 - 50.6616
    found = posterior([first, second], [[1, 1, 0, 0, 0], [0, 0, -1, -1, 1]], [NOISE] * 5)
    assert found.mean == pytest.approx(-5.82, abs=0.005)
    assert found.mean == pytest.approx((3 * first + 2 * second) / 5, abs=0.002)


def test_agrees_with_brute_force_for_different_noises():
    noises = [Laplace(Fraction(3)), Laplace(Fraction(7)), Gaussian(Fraction(16))]
    grid = np.arange(-300, 301)
    laplace = [np.exp(-np.abs(grid) / float(noise.scale)) for noise in noises[:2]]
    gauss = np.exp(-(grid**2) / 32.0)
    pair = np.convolve(laplace[1], gauss)[300:901]  # the law of the sum of the second and the third, on the same grid
    mass = np.array([laplace[0][300 + 4 - t] * pair[300 - 9 - t] for t in range(-150, 151)])
    mass /= mass.sum()
    found = posterior([4, -9], [[1, 0, 0], [0, 1, 1]], noises)
    numbers = np.arange(-150, 151)
    assert found.mean == pytest.approx(mass @ numbers, abs=1e-6)
    assert found.variance == pytest.approx(mass @ numbers**2 - (mass @ numbers) ** 2, rel=1e-6)
    low, high = found.interval(0.9)
    assert mass[(numbers >= low) & (numbers <= high)].sum() >= 0.9
    assert mass[(numbers > low) & (numbers < high)].sum() < 0.9


def test_observations_that_share_their_noise_are_counted_once():
    once = posterior([10], [[1.0]], [NOISE])
    twice = posterior([10, 10], [[1.0], [1.0]], [NOISE])
    assert twice.mean == pytest.approx(once.mean)
    assert twice.variance == pytest.approx(once.variance, rel=1e-6)


def test_shared_noise_is_combined_by_least_variance():
    """a + z1 and a + z1 + z2: the second adds nothing, whatever it says."""
    found = posterior([10, 500], [[1.0, 0.0], [1.0, 1.0]], [NOISE, NOISE])
    assert found.mean == pytest.approx(10.0, abs=0.01)


def test_observations_far_apart_still_give_a_posterior():
    found = posterior([0, 4000], [[1, 0], [0, 1]], [NOISE, NOISE])
    assert found.mean == pytest.approx(2000.0, abs=1.0)


def test_intervals_hold_the_number_as_often_as_they_say():
    """3,000 draws at 90 %, a little more for whole numbers: under 2,600 hits, 6 deviations, has a chance below 1e-8."""
    from sfumato.kernel.sampling.entropy import TestingEntropy
    from sfumato.kernel.sampling.noise import draw

    noises = [Laplace(Fraction(4)), Laplace(Fraction(6))]
    entropy = TestingEntropy(5)
    one, other = (draw(noise, 3000, entropy) for noise in noises)
    known: dict[int, tuple[float, float]] = {}
    hits = 0
    for a, b in zip(one.tolist(), other.tolist(), strict=True):
        if a - b not in known:  # the posterior moves along with both observations
            low, high = posterior([a - b, 0], [[1, 0], [0, 1]], noises).interval(0.9)
            known[a - b] = low, high
        low, high = known[a - b]
        hits += low + b <= 0 <= high + b
    assert 2600 < hits < 2900


@pytest.mark.parametrize("wrong", [([], []), ([1.0], [[1.0, 1.0]]), ([1.0], [[0.0]])])
def test_what_cannot_be_an_observation_is_refused(wrong):
    with pytest.raises(QueryError):
        posterior(*wrong, [NOISE])
