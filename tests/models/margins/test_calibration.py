"""Errors are brought to the size that was measured."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.calibration.model_error import OF_NORMAL
from sfumato.models.margins.calibration import ALL, FINE, Doubt, scale_of, scaled_blocks
from sfumato.models.margins.scales import Scaled
from sfumato.models.margins.table import Table

RNG = np.random.default_rng(1)
DOUBTS = [Doubt(RNG.uniform(0, 3, 20), RNG.uniform(0.1, 2, 20)) for _ in range(5)]


@pytest.mark.parametrize("scale", [0.01, 0.7, 1.0, 40.0, 1e4])
def test_a_known_scale_is_found_again(scale):
    measured = sum(doubt.size(scale) for doubt in DOUBTS)
    assert scale_of(DOUBTS, measured, 0.0) == pytest.approx(scale, rel=1e-6)


def test_sizes_are_those_of_normal_errors():
    """100,000 of them: a mean with a deviation of 0.002 of itself, and a seed."""
    doubt = Doubt(np.array([3.0]), np.array([0.5]))
    drawn = np.random.default_rng(5).normal(0.0, np.sqrt(3.0 + 2.0 * 0.5), 100_000)
    assert doubt.size(2.0) == pytest.approx(np.abs(drawn).mean(), rel=0.02)
    assert doubt.size(0.0) == pytest.approx(OF_NORMAL * np.sqrt(3.0))


def test_the_larger_the_misfit_and_its_noise_the_larger_the_scale():
    scales = [scale_of(DOUBTS, measured, 0.0) for measured in np.linspace(0, 500, 20)]
    assert scales == sorted(scales) and scales[-1] > 10


def test_noise_is_believed_as_little_as_it_is_large_beside_what_is_claimed():
    claimed = sum(doubt.size(1.0) for doubt in DOUBTS)
    at = [scale_of(DOUBTS, 3 * claimed, noise * claimed) for noise in (0.0, 0.1, 1.0, 100.0)]
    half = claimed + (3 * claimed - claimed) / 2  # as large: half of the way
    assert at[2] == pytest.approx(scale_of(DOUBTS, half, 0.0)) and at[3] == pytest.approx(1.0, abs=0.01)
    assert at == sorted(at, reverse=True)  # noise widens nothing, and what is mostly noise is not believed


def test_it_stays_between_its_bounds():
    assert scale_of(DOUBTS, -1e3, 0.0, 0.25, 7.0) == 0.25  # noise may make a misfit negative
    assert scale_of(DOUBTS, 1e9, 0.0, 0.25, 7.0) == pytest.approx(7.0)
    nothing = [Doubt(np.ones(3), np.zeros(3))]
    assert scale_of(nothing, 1.0, 0.0) == 0.0 and np.isfinite(scale_of(nothing, 100.0, 0.0))


def test_quarters_that_no_contrast_measures_err_at_least_as_the_contrasts_of_halves_foretell():
    """A contrast corrects halves as a step; what is smooth is off in quarters by much more than in eighths."""
    table = Table((0, 1), np.full((16, 16), 10.0), np.zeros((16, 16)), np.full((16, 16), 10.0))
    scales = {(ALL, ALL): 1.0, (FINE, FINE): 2.0, (ALL, 0): 1.0, (0, ALL): 1.0}
    for of_quarters, expected in ((9.0, 9.0), (0.5, 2.0)):
        contrasts = Scaled((1.0, 0.0, 0.0, 0.0), (3.0, of_quarters, of_quarters / 2, of_quarters / 4))
        found = scaled_blocks((0, 1), scales, table, (0.0, 0.0), contrasts, None)
        both = [noise + model for noise, model in zip(found.noise, found.model, strict=True)]
        assert both[:3] == pytest.approx([4.0, expected, 2.0])
