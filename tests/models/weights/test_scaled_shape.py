"""A total times a shape."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.answers.fit import PARTS
from sfumato.errors import QueryError
from sfumato.measurement import Laplace, Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.models.weights.fit import ScaledShape
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
