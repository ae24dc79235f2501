"""The largest of several errors that have to do with each other."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.answers.joint_confidence import joint_confidence


@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9, 0.99])
def test_all_keep_within_as_often_as_was_asked(alike):
    """Against 200,000 seeded draws: a share of 0.95 has a standard error of 0.0005, and points are rounded up by 0.003.

    Independent errors have the confidence of each as the root of that of all.
    """
    number = 12
    covariance = 4.0 * ((1.0 - alike) * np.eye(number) + alike)
    each = joint_confidence(covariance, 0.95)
    drawn = np.random.default_rng(3).multivariate_normal(np.zeros(number), covariance / 4.0, 200_000)
    from statistics import NormalDist

    held = (np.abs(drawn) <= NormalDist().inv_cdf((1.0 + each) / 2.0)).all(axis=1).mean()
    assert 0.9475 < held < 0.958 and 0.95 < each <= 1.0 - 0.05 / number


def test_it_is_the_same_every_time_and_never_worse_than_adding_up():
    stream = np.random.default_rng(5)
    for numbers in (2, 7, 40):
        factors = stream.normal(size=(numbers, 5))
        found = {joint_confidence(factors @ factors.T, 0.9) for _ in range(2)}
        assert len(found) == 1 and 0.9 < found.pop() <= 1.0 - 0.1 / numbers


def test_numbers_without_noise_do_not_count():
    covariance = np.zeros((3, 3))
    covariance[0, 0] = 2.0
    assert joint_confidence(covariance, 0.95) == 0.95
