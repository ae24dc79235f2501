"""Local levels: predictions pool by precision, smoothed errors have the covariances of a smoother."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.answers.local_level import Prediction, Walk, positive_fit


def test_predictions_pool_by_precision_and_forget_what_is_flagged():
    first = Prediction(np.array([10.0, 4.0]), np.array([2.0, np.inf]), np.array([2.0, 0.0]))
    second = Prediction(np.array([16.0, 8.0]), np.array([4.0, 3.0]), np.array([1.0, 1.0]))
    both = first & second
    assert both.mean.tolist() == [12.0, 8.0]
    assert both.variance.tolist() == pytest.approx([4.0 / 3.0, 3.0])
    nothing = both.forgetting(np.array([False, True])) & Prediction.of_nothing((2,))
    assert np.isfinite(nothing.variance).tolist() == [True, False] and nothing.periods.tolist() == [3.0, 0.0]


@pytest.mark.filterwarnings("error")
def test_what_is_known_without_noise_decides_alone():
    exact = Prediction(np.array([10.0]), np.array([0.0]), np.array([1.0]))
    other = Prediction(np.array([16.0]), np.array([4.0]), np.array([1.0]))
    for pair in (exact & other, other & exact, exact & exact):
        assert pair.mean.tolist() == [10.0] and pair.variance[0] == pytest.approx(0.0, abs=1e-100)


@pytest.mark.parametrize(("drift", "within"), [(0.0, 1e-4), (0.02, 0.03), (0.1, 0.05), (0.3, 0.1)])
def test_covariances_between_periods_are_those_of_a_smoother(drift, within):
    """Against the posterior covariance of twelve counts by the whole matrix: over all pairs of periods, and by lag."""
    months, alone, rows = 12, 300.0, 80.0
    scatter, steps = 1.5 * rows, np.minimum.outer(np.arange(months), np.arange(months))
    walk = 1e7 + drift**2 * rows**2 * steps
    counts = walk + scatter * np.eye(months)
    explicit = counts - counts @ np.linalg.solve(counts + alone * np.eye(months), counts)
    pairs = explicit[~np.eye(months, dtype=bool)].mean()
    errors = []
    for at in range(months):
        others = np.arange(months) != at
        seen = (counts + alone * np.eye(months))[np.ix_(others, others)]
        errors.append(walk[at, at] - walk[at, others] @ np.linalg.solve(seen, walk[others, at]))
    found = [
        Walk(drift**2, 1.5, months).shared(*map(np.array, (drift**2 * rows**2, e, scatter, alone))) for e in errors
    ]
    assert np.mean([covariance for covariance, _ in found]) == pytest.approx(pairs, rel=within)
    by_lag = [np.diagonal(explicit, lag).mean() / pairs for lag in range(1, months)]
    lags = np.mean([lags for _, lags in found], axis=0)
    assert lags[1:] == pytest.approx(by_lag, abs=0.1 * by_lag[0])
    assert lags[0] >= lags[1]


def test_least_squares_with_signs():
    features = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    assert positive_fit(features, features @ [2.0, 3.0], np.ones(3)).tolist() == pytest.approx([2.0, 3.0])
    assert (positive_fit(features, features @ [2.0, -9.0], np.ones(3)) >= 0.0).all()
