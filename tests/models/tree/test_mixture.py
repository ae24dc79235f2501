"""Mixtures of normal distributions: their moments, and what a parent says of them."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.tree.observation import Mixture, Normal


def test_a_mixture_becomes_the_normal_distribution_of_its_moments():
    likely = np.log(np.array([[0.2, 3.0], [0.6, 1e-300]]))
    mixture = Mixture(np.array([[1.0, 5.0], [9.0, 0.0]]), np.array([[4.0, 2.0], [1.0, 1.0]]), likely)
    components, weight = mixture.component_posterior()
    found = components.moment_matched()
    assert np.exp(weight) == pytest.approx([0.8, 3.0])
    assert found.mean == pytest.approx([7.0, 5.0])
    assert found.variance == pytest.approx([0.25 * (4 + 36) + 0.75 * (1 + 4), 2.0])


def test_a_mixture_on_which_its_parent_says_something_agrees_with_integration():
    """Two components, of which the parent's 20 rows, give or take 3, favour the one that was less likely before."""
    mixture = Mixture(np.array([[10.0], [24.0]]), np.array([[9.0], [16.0]]), np.log([[0.7], [0.3]]))
    below = mixture.component_posterior()[0].moment_matched()
    precision = 1 / below.variance + 1 / 9.0
    known = Normal((below.mean / below.variance + 20.0 / 9.0) / precision, 1 / precision)
    found = mixture.conditioned_on(known, below)
    x = np.arange(-40.0, 80.0, 0.01)
    each = mixture.mean, mixture.variance
    density = np.exp(mixture.log_weight - (x - each[0]) ** 2 / (2 * each[1]) - (x - 20.0) ** 2 / 18) / np.sqrt(each[1])
    chances = density.sum(axis=1) / density.sum()
    assert found.chances[:, 0] == pytest.approx(chances)
    mean = (density * x).sum(axis=1) / density.sum(axis=1)
    assert found.variance[:, 0] == pytest.approx((density * (x - mean[:, None]) ** 2).sum(axis=1) / density.sum(axis=1))
    assert found.average(found.mean) == pytest.approx(known.mean)
    shift = known.mean[0] - chances @ mean  # the same for both, in units of their variance
    assert found.mean[:, 0] == pytest.approx(mean + shift * found.variance[:, 0] / (chances @ found.variance[:, 0]))


def test_where_the_parent_says_nothing_components_stay_as_they_are():
    mixture = Mixture(np.array([[10.0], [24.0]]), np.array([[9.0], [16.0]]), np.log([[0.7], [0.3]]))
    below = mixture.component_posterior()[0].moment_matched()
    found = mixture.conditioned_on(below, below)
    assert found.chances[:, 0] == pytest.approx([0.7, 0.3])
    assert found.mean[:, 0] == pytest.approx([10.0, 24.0]) and found.variance[:, 0] == pytest.approx([9.0, 16.0])
