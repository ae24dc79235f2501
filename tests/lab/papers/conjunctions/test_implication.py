"""Rows that two conjunctions share, from how their counts vary together: unbiased, with the error that is claimed."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

from sfumato.lab.papers.conjunctions.content import (
    best_subsets,
    direct_error,
    error_of,
    expected_error,
    rows_needed,
    together,
)


def test_the_covariance_is_unbiased_and_has_the_error_that_is_claimed():
    """2,000 tries: mean and size within 5.2 and 6 standard errors, together a chance of less than 1e-6."""
    random, subsets, noise = np.random.default_rng(2), 40, 15.0
    first, second, both, found = 900, 700, 400, []
    for _ in range(2000):
        shared, one, other = (random.binomial(n, 0.5, subsets) for n in (both, first - both, second - both))
        noises = np.rint(random.laplace(0, noise, (2, subsets)))
        found.append(together(shared + one + noises[0], shared + other + noises[1]))
    claimed = error_of(first, second, both, (2 * noise**2, 2 * noise**2), subsets)
    assert abs(np.mean(found) - both) < 5.2 * claimed / np.sqrt(2000)
    assert np.std(found) == pytest.approx(claimed, rel=6 * 1.2 / np.sqrt(2 * 2000))


def test_the_number_of_subsets_balances_chance_and_noise():
    subsets = best_subsets(1e8, 10, 1, 1.0)
    error = expected_error(1e8, 10, 1, subsets, 1.0, worst=False)
    assert all(expected_error(1e8, 10, 1, other, 1.0, worst=False) > error for other in (subsets // 2, 2 * subsets))


def test_half_the_share_needs_sixteen_times_the_rows_and_the_papers_share_more_than_there_are():
    some, more = (rows_needed(10, 1, 1.0, within, 0.05) for within in (0.1, 0.05))
    assert 8 < more / some < 24
    assert rows_needed(20, 2, 0.01, 1e-6, 0.05) == inf
    assert direct_error(10, 1, 1.0) < 0.001 * 0.1 * some  # what it would take to be of use, direct counts have long had
