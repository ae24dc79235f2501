"""Partition fits: what they estimate, which noises enter a sum, and that the model's share is what it says."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.measurement import Laplace, Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.fit import PartitionFit
from sfumato.queries import Identity

LABELS = np.array([0, 0, 0, 1, 1, 2])


def measured(answers):
    return Measurement("count", Identity(len(answers)), np.array(answers, dtype=np.int64), (Laplace(Fraction(2)),))


def fit() -> PartitionFit:
    return PartitionFit(LABELS, LinearFit.of_answers(measured([30, 8, 5])), np.array([12.0, 4.0, 0.0]))


def test_totals_are_spread_evenly():
    assert fit().estimate.tolist() == [10, 10, 10, 4, 4, 5]


def test_noise_weights_reproduce_the_estimate_of_any_sum():
    """The estimate is linear in what was measured, so the noise weights times the answers are the estimate itself."""
    found = fit()
    columns = np.array([[1.0, 0], [1, 0], [0, 2], [1, 0], [0, -1], [0, 1]])
    errors = found.errors(columns)
    assert np.allclose(errors.weights.T @ found.totals.measurement.answers, columns.T @ found.estimate)
    assert errors.design.variances.tolist() == [Laplace(Fraction(2)).variance] * 3


def test_model_variance_is_that_of_half_a_bucket():
    labels = np.zeros(4, dtype=np.int64)
    found = PartitionFit(labels, LinearFit.of_answers(measured([8])), np.array([6.0]))
    errors = found.errors(np.array([[1.0, 1], [1, 1], [0, 1], [0, 1]]))
    assert np.allclose(errors.model, [[9.0, 0.0], [0.0, 0.0]])  # half of it for the half, nothing for the whole


def test_buckets_cut_by_one_query_err_together():
    labels = np.array([0, 0, 1, 1])
    found = PartitionFit(labels, LinearFit.of_answers(measured([8, 8])), np.array([6.0, 6.0]))
    one, both = np.diagonal(found.errors(np.array([[1.0, 1], [0, 0], [0, 1], [0, 0]])).model)
    assert one == pytest.approx(9.0)
    assert both == pytest.approx(36.0)


@pytest.mark.parametrize(
    "wrong",
    [{"labels": np.array([0, 0, 0, 1, 1, 1])}, {"deviations": np.ones(2)}, {"labels": np.array([0, 0, 0, 1, 1, -1])}],
)
def test_parts_that_do_not_fit_are_refused(wrong):
    given = {"labels": LABELS, "totals": LinearFit.of_answers(measured([1, 2, 3])), "deviations": np.ones(3)} | wrong
    with pytest.raises(QueryError):
        PartitionFit(**given)
