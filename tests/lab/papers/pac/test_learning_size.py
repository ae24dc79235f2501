"""The sizes of learning agree with each other in every direction, and the bound holds where it is tried."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.lab.papers.pac.measure import (
    learning_doubt,
    learning_epsilon,
    learning_error,
    learning_rows,
    learning_rules,
)


@pytest.mark.parametrize(("alpha", "rules", "epsilon", "beta"), [(0.05, 200, 0.5, 0.05), (0.01, 10**6, 2.0, 1e-6)])
def test_every_direction_leads_back(alpha, rules, epsilon, beta):
    rows = learning_rows(alpha, rules, epsilon, beta)
    assert learning_error(rows, rules, epsilon, beta) <= alpha < learning_error(rows - 1, rules, epsilon, beta)
    assert learning_epsilon(alpha, rows, rules, beta) == pytest.approx(epsilon, rel=1e-2)
    assert learning_rules(alpha, rows, epsilon, beta) == pytest.approx(rules, rel=1e-2)
    assert learning_doubt(alpha, rows, rules, epsilon) == pytest.approx(beta, rel=1e-2)


def test_what_cannot_be_is_said():
    assert learning_rules(0.01, 10, 1.0, 0.05) == 0 and learning_doubt(0.01, 10, 100, 1.0) == 1.0
    with pytest.raises(QueryError, match="no epsilon gives that error with 10 rows"):
        learning_epsilon(0.01, 10, 100, 0.05)
    for wrong in ({"alpha": 1.5}, {"beta": 0.0}, {"rules": 0.5}, {"epsilon": -1.0}):
        with pytest.raises(QueryError, match="must be"):
            learning_rows(**({"alpha": 0.1, "rules": 10, "epsilon": 1.0, "beta": 0.1} | wrong))


def test_the_error_stays_within_the_bound():
    """Thresholds on 50 values, 2,000 tables of 400 rows: 5 % may exceed; more than 10 % has a chance under 1e-6."""
    rng, rules, rows, epsilon, beta = np.random.default_rng(2), 51, 400, 0.2, 0.05
    alpha = learning_error(rows, rules, epsilon, beta)
    cuts = np.arange(rules)
    truth = 0.2 + 0.6 * np.abs(cuts - 20) / 50  # a fifth of the labels is wrong, whatever the rule
    exceeded = 0
    for _ in range(2000):
        x, flips = rng.integers(0, 50, rows), rng.random(rows) < 0.2
        label = (x >= 20) ^ flips
        wrong = ((x[:, None] >= cuts) != label[:, None]).sum(axis=0)
        chance = np.exp(-epsilon * (wrong - wrong.min()))
        chosen = rng.choice(rules, p=chance / chance.sum())
        exceeded += truth[chosen] > truth.min() + alpha
    assert exceeded <= 200
