"""Distances of margins from guesses: exact at any size, and moved by one row by at most 1."""

from __future__ import annotations

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.verbs.measuring import LARGEST, checked_penalties, distance
from sfumato.schema import Schema

SQUARE = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {name: {"type": "integer", "lower": 0, "upper": 1} for name in "ab"},
    }
)
GUESSES = [(["a"], np.array([0, 0])), (["b"], np.array([0, 0])), (["a", "b"], np.array([5, 5, 5, 5]))]


def test_one_row_moves_a_distance_by_one_at_most_wherever_it_lies():
    rng = np.random.default_rng(1)
    for largest in (3, 2**40, 2**62):
        for _ in range(50):
            counts, guess = rng.integers(0, largest, 5), rng.integers(-largest, largest, 5)
            more = counts + (np.arange(5) == rng.integers(5))
            assert abs(distance(more, guess) - distance(counts, guess)) <= 1
    assert distance(np.full(4, 2**62), np.full(4, -(2**62))) == LARGEST  # and never wraps round


@pytest.mark.parametrize("penalties", [(1, 2), (1, 2, 3, 4), (0.5, 1, 2), (2**62, 0, 0)])
def test_penalties_are_whole_numbers_one_for_each_margin(penalties):
    with pytest.raises(QueryError, match="penalt"):
        checked_penalties(penalties, 3)


def test_the_farthest_margin_is_chosen_at_a_large_epsilon_and_penalties_count():
    counts = np.array([[50, 0], [0, 50]])
    curator = curator_of(SQUARE, counts, epsilon=1000)
    assert curator.select_margin(GUESSES, (0, 30, 30), Budget.pure(500)) == 0
    assert curator.select_margin(GUESSES, (30, 0, 30), Budget.pure(500)) == 1
    with pytest.raises(PrivacyError):  # all is spent
        curator.select_margin(GUESSES, (0, 0, 0), Budget.pure(1))
