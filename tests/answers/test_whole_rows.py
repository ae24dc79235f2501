"""Intervals of counts that a model has a say in: whole rows, long tails, clusters."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.answers.evaluate import RULE_OF_THREE, cluster, long_tail, of_whole_rows
from sfumato.answers.fieller import Interval, Intervals


def whole(value, stderr, low, high, noise, model):
    """The interval of one count, from that of a sum."""
    (found,) = of_whole_rows(Intervals.of([Interval(value, stderr, low, high, noise, model)]), 0.95).at(0.95)
    return found


def test_measured_counts_only_end_at_wholes():
    found = whole(10.2, 2.0, 6.3, 14.1, 2.0, 0.0)
    assert (found.low, found.high) == (6, 15)


def test_what_is_expected_to_be_empty_leaves_room_for_three():
    found = whole(0.0, 0.01, 0.0, 0.02, 0.0, 0.01)
    assert (found.low, found.high) == (0, RULE_OF_THREE)


@pytest.mark.parametrize(("mean", "together"), [(0.05, 2), (0.5, 2), (5, 2), (5, 10), (20, 40), (200, 10), (200, 40)])
def test_counts_that_come_in_clusters_are_held_where_some_are(mean, together):
    """Negative binomial counts, of those that are not none: 20,000 draws, of which 94 % must be held.

    If 95 % were, fewer would be seen with a chance of 1e-10.
    """
    draws = np.random.default_rng(3).negative_binomial(mean / (together - 1), 1 / together, 1_000_000)
    some = draws[draws > 0][:20_000]
    deviation = (mean * together) ** 0.5
    found = whole(mean, deviation, max(0.0, mean - 1.96 * deviation), mean + 1.96 * deviation, 0.0, deviation)
    assert np.mean((some >= found.low) & (some <= found.high)) > 0.94


def test_a_long_tail_is_a_bell_where_many_rows_are_expected():
    assert long_tail(np.array(1e6), np.array(1.0), 0.95) == pytest.approx(1e6 + 1960, abs=5)
    assert cluster(0.0, 0.95) == 1


@pytest.mark.parametrize("value", [5e-324, 1e-300, 1e-160, 1e300])
@pytest.mark.parametrize("error", [5e-324, 1e-200, 1.0, 1e300, np.inf])
def test_values_and_errors_at_the_ends_of_floating_point_have_ends_in_order(value, error):
    """Joined margins expect 1e-300 rows of a cell: its shape underflows, and so does, upwards, a squared error."""
    found = whole(value, error, max(0.0, value - error), value + error, 0.0, error)
    assert 0 <= found.low <= found.value <= found.high


def test_a_law_without_a_shape_is_all_but_none():
    assert long_tail(np.array(1e-300), np.array(1e300), 0.95) == 0.0
