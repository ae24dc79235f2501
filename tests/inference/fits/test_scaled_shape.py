"""A total times a shape, and the spread that a measured misfit stands for."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.inference.fits.base import PARTS
from sfumato.inference.fits.linear import LinearFit
from sfumato.inference.fits.scaled_shape import ScaledShape
from sfumato.inference.measured_spread import allow_for_noise, spread_for
from sfumato.measurement import Laplace, Measurement
from sfumato.queries import AllRanges, Identity, Weighted


def total(rows: int = 100) -> LinearFit:
    return LinearFit.of_answers(Measurement("count", Identity(1), np.array([rows]), (Laplace(Fraction(5)),)))


def test_the_estimate_is_the_total_in_proportion():
    fit = ScaledShape.like(total(), np.array([1.0, 3.0, 0.0, 4.0]))
    assert fit.estimate.tolist() == [12.5, 37.5, 0.0, 50.0]
    assert fit.of == "count" and len(fit.measurements) == 1
    misfit = Measurement("misfit", Identity(1), np.array([7]), (Laplace(Fraction(5)),))
    spread = fit.with_spread(1 / 3, misfit)
    assert spread.spread * PARTS == round(PARTS / 3) and spread.measurements[-1] is misfit


def test_errors_are_the_totals_noise_by_share_and_a_model_that_leaves_the_total_alone():
    fit = ScaledShape(total(), np.array([1, 4, 0, 9]), spread=6.0)
    columns = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 0.0], [1.0, 0.0, 1.0]])
    errors = fit.errors(columns)
    assert errors.weights == pytest.approx(np.array([[1.0, 5 / 14, 9 / 14]]))
    # by the roots 1, 2, 0, 3 half of the doubt lies in the first two cells and half in the last
    assert errors.model == pytest.approx(np.array([[0, 0, 0], [0, 9, -9], [0, -9, 9]]), abs=1e-12)
    assert not errors.unknown.any()


def test_variances_of_many_queries_are_the_diagonal_of_their_errors():
    fit = ScaledShape(total(), np.array([1, 4, 0, 9, 25]), spread=1.0)
    for queries in (AllRanges(5), Weighted(np.array([[1, -2, 3, 0, 5], [0, 0, -1, 1, 0]]))):
        model, noise = fit.variances(queries)
        errors = fit.errors(queries.dense().T.astype(np.float64))
        assert model == pytest.approx(np.diagonal(errors.model), abs=1e-12)
        assert noise == pytest.approx(errors.design.variances @ errors.weights**2)


def test_a_shape_without_mass_is_refused():
    for mass in ([], [0, 0], [1, -1]):
        with pytest.raises(QueryError, match="a shape needs"):
            ScaledShape(total(), np.array(mass, dtype=np.int64))


def test_the_spread_explains_the_mean_error():
    model, noise = np.array([1.0, 4.0, 0.0]), np.array([0.0, 2.0, 1.0])
    spread = spread_for(5.0, model, noise)
    assert np.sqrt(2 / np.pi * (spread**2 * model + noise)).mean() == pytest.approx(5.0)
    assert spread_for(0.1, model, noise) == 0.0  # the noise alone is more
    assert spread_for(5.0, np.zeros(3), noise) == 0.0  # nothing that a model could explain


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
