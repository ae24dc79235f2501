"""A fit brought to all rows and to margins: how far, how sure it is then, and refused where a file is forged."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from fitted import SCHEMA, SIZE, example

from sfumato.answers.fit import Grouped
from sfumato.errors import QueryError
from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.adjusted_fit import Along, MovedFit, steadied
from sfumato.queries import Identity

ALL = np.ones((SIZE, 1))
NESTED = replace(example("nested"), together=False)
BUCKETS = replace(example("tree"), over=SCHEMA.domain)
INNER = {"cells": NESTED, "buckets": BUCKETS, "leaves": example("leaves"), "shape": example("shape")}


def counted(answers, scale) -> Measurement:
    return Measurement("count", Identity(len(answers)), np.array(answers), (Laplace(Fraction(scale)),))


def spread(fit) -> np.ndarray:
    """The covariance of all cells, noise and model together."""
    errors = fit.errors(np.eye(SIZE))
    return errors.model + errors.weights.T @ (errors.design.variances[:, None] * errors.weights)


@pytest.mark.parametrize("kind", INNER)
def test_covariances_with_sums_are_those_of_the_errors(kind):
    columns = np.random.default_rng(0).normal(size=(SIZE, 3))
    for fit in (INNER[kind], MovedFit.brought(INNER[kind], counted([700], 5))):
        assert np.allclose(fit.covariances(columns), spread(fit) @ columns, rtol=1e-9, atol=1e-6)


def test_all_rows_that_are_clear_are_met_and_known_by_their_noise():
    wanted = round(NESTED.estimate.sum()) + 90
    fit = MovedFit.brought(NESTED, counted([wanted], 2))
    assert abs(fit.estimate.sum() - wanted) < 3.0
    assert float(fit.errors(ALL).model[0, 0]) == pytest.approx(float(fit.left[0]), abs=0.01)
    assert 0.5 < float(fit.left[0]) < 1.1 * Laplace(Fraction(2)).variance


def test_all_rows_in_noise_move_little_and_are_no_surer():
    fit = MovedFit.brought(NESTED, counted([round(NESTED.estimate.sum()) + 90], 10**5))
    assert abs(fit.estimate.sum() - NESTED.estimate.sum()) < 5.0
    assert float(fit.left[0]) > spread(NESTED).sum()


def test_margins_then_have_exactly_what_they_were_brought_to():
    along, moved = Along(SCHEMA.domain, (0, 1), (3, 2)), MovedFit.brought(NESTED, counted([700], 1))
    now = along.columns.T @ moved.estimate
    wanted = np.rint(now + np.array([40, -30, -10, 25, -25])).astype(int)
    fit, known = steadied(moved, along, [counted(wanted[:3], 1), counted(wanted[3:], 1)])
    assert np.abs(along.columns.T @ fit.estimate - wanted).max() < 4.0
    assert abs(fit.estimate.sum() - moved.estimate.sum()) < 0.1 and np.diagonal(known.spread).max() < 16.0


@pytest.mark.parametrize("kind", INNER)
def test_groups_err_as_the_same_weights_laid_out_and_so_do_all_rows(kind):
    fit, group = MovedFit.brought(INNER[kind], counted([700], 5)), np.arange(SIZE) // 2 % 4
    weights = np.stack([np.ones(SIZE), np.arange(SIZE) % 3 + 0.5], axis=1)
    asked = Grouped.of_cells(group, 4, weights, None)
    for place, (errors, more) in enumerate(zip(fit.errors_by_group(asked), fit.with_all_rows(asked), strict=True)):
        columns = weights * (group == place)[:, None]
        assert np.allclose(errors.model, fit.errors(columns).model, rtol=1e-6, atol=1e-6)
        assert np.allclose(more.model, fit.errors(np.column_stack([columns, ALL])).model, rtol=1e-4, atol=0.05)


def test_what_contradicts_itself_is_refused():
    for whole, left in ((None, [1.0]), (counted([7], 1), []), (counted([7], 1), [-1.0]), (counted([7], 1), [2.0**61])):
        with pytest.raises(QueryError, match="what is known of all rows"):
            MovedFit(NESTED, NESTED.estimate, whole, np.array(left))
    with pytest.raises(QueryError, match="counted once"):
        MovedFit(NESTED, NESTED.estimate, counted([7, 8], 1), np.ones(1))
