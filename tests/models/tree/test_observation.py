"""One noisy observation of a number that is normal beforehand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr

from sfumato.models.tree.observation import QUICK, log_phi, observe


@pytest.mark.parametrize("laplace", [True, False])
@pytest.mark.parametrize("answer", [-40.0, 3.0, 11.0, 300.0])
def test_an_observation_agrees_with_integration(laplace, answer):
    mean, variance, scale = 5.0, 90.0, 4.0
    x = np.linspace(mean - 400, mean + 400, 2_000_001)
    noise = np.exp(-np.abs(answer - x) / scale) / (2 * scale)
    if not laplace:
        noise = np.exp(-((answer - x) ** 2) / (2 * scale**2)) / np.sqrt(2 * np.pi * scale**2)
    density = noise * np.exp(-((x - mean) ** 2) / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    whole = density.sum() * (x[1] - x[0])
    middle = (density * x).sum() / density.sum()
    spread = (density * (x - middle) ** 2).sum() / density.sum()
    one = np.array([1.0])
    found = observe(mean * one, variance * one, answer * one, scale * one, laplace=laplace)
    assert [float(part[0]) for part in found] == pytest.approx([np.log(whole), middle, spread], rel=1e-5)


def test_the_normal_distribution_is_the_same_with_few_numbers_and_with_many():
    places = np.concatenate([np.linspace(-60.0, 12.0, 999), -(10.0 ** np.arange(9))])
    assert log_phi(places) == pytest.approx(log_ndtr(places), rel=1e-11, abs=1e-15)
    many = np.resize(places, QUICK + 1)
    assert log_phi(many).tolist() == log_ndtr(many).tolist()
