"""Pulls of a choice: none where rows lie evenly, and as far as the law of a choice says where they do not."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from sfumato.lab.papers.quantiles.quantile_line import pull

EVEN = np.array([10.0, 40.0, 160.0]), np.array([50.0, 200.0, 800.0])
NOTHING = np.array([1000.0]), np.array([0.0])


def test_even_rows_do_not_pull_however_many_they_are():
    for times in (0.1, 1.0, 50.0):
        assert pull(EVEN[0], times * EVEN[1], EVEN[0], times * EVEN[1], 2.0, 1.0, 5.0) == 0.0


def test_a_gap_pulls_by_the_logarithm_of_its_length():
    """A density of 5 to a piece, beside a gap of 1,000 pieces; cells so wide that there are no heaps."""
    for scale in (2.0, 8.0):
        assert pull(*EVEN, *NOTHING, scale, 160.0, 0.0) == pytest.approx(scale * log(5 * 1000 / scale))
    assert pull(*NOTHING, *EVEN, 2.0, 1.0, 0.0) == 0.0  # and nothing pulls into the rows


def test_a_heap_pulls_no_further_than_it_is_tall():
    """Runs as everywhere but for one of twice the rows, which may be all on one value of a thousandth of its length."""
    rows = EVEN[1] + np.array([6.0, 0.0, 0.0])
    small, tall = (pull(EVEN[0], EVEN[1] + more * np.eye(3)[0], *EVEN, 4.0, 0.01, 1.0) for more in (6.0, 600.0))
    assert pull(EVEN[0], rows, *EVEN, 4.0, 0.01, 10.0) < 1.0  # it does not show
    assert 0.0 < small <= 6.0 < tall < 60.0


def test_what_is_far_away_does_not_pull():
    """Rows between here and there keep a choice from having come from there."""
    rows = np.array([500.0, 500.0, 10_000.0])
    assert pull(np.array([100.0, 100.0, 1.0]), rows, np.array([100.0]), np.array([500.0]), 2.0, 0.01, 1.0) < 1.0


def test_the_law_of_a_choice_stays_within():
    """A heap of 40 rows between gaps of 100 pieces with 40 rows each: 97.5 % of all choices for every rank in it."""
    rows = np.concatenate([np.full(100, 0.4), [40.0], np.full(100, 0.4)])
    upto, scale = np.cumsum(rows), 4.0
    middle = upto - rows / 2
    for rank in np.linspace(41, 79, 20):
        chance = np.exp(-np.maximum(np.abs(middle - rank) - rows / 2, 0.0) / scale)
        chance /= chance.sum()
        above = np.flatnonzero(np.cumsum(chance[::-1])[::-1] > 0.025)[-1]
        if above > 101:
            place = slice(above, None)
            most = pull(
                np.array([above - 101.0, 1.0]),
                np.array([0.4 * (above - 101), 40.0]),
                np.ones(201 - above),
                rows[place],
                scale,
                1.0,
                0.0,
            )
            assert middle[above] - rank < 3.7 * scale + most + 4.0
