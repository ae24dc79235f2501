"""The search between bounds finds the least value, and stops where it is told to."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.linear.strategies.hdmm import least


def bowl(middle, curvature):
    def value_and_slope(x):
        return float((curvature * (x - middle) ** 2).sum()), 2 * curvature * (x - middle)

    return value_and_slope


def test_a_long_bowl_is_followed_to_its_middle_and_no_further_than_the_bounds():
    """Curvatures a thousand times apart; the least value between bounds is each number's own, clipped."""
    middle, curvature = np.array([3.0, -2.0, 0.5, 9.0]), np.array([1.0, 1000.0, 30.0, 0.1])
    value, where = least(bowl(middle, curvature), np.full(4, 1.0), 0.0, 8.0, looks=200, close=1e-12)
    assert where == pytest.approx(np.clip(middle, 0.0, 8.0), abs=1e-4)
    assert value == pytest.approx(4000 + 0.1, rel=1e-6)


def test_it_never_looks_more_often_than_it_may_and_never_ends_higher_than_it_began():
    seen = []

    def rough(x):
        seen.append(x.copy())
        return float(100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2), np.array(
            [-400 * x[0] * (x[1] - x[0] ** 2) - 2 * (1 - x[0]), 200 * (x[1] - x[0] ** 2)]
        )

    start = np.array([0.0, 2.0])
    for looks in (1, 2, 7, 60):
        seen.clear()
        value, _ = least(rough, start, 0.0, 2.0, looks=looks, close=1e-12)
        assert len(seen) <= looks and value <= rough(start)[0]
    assert least(rough, start, 0.0, 2.0, looks=300, close=1e-12)[0] < 1e-6  # the valley's end, at (1, 1)


def test_a_start_at_the_least_value_stays_there():
    value, where = least(bowl(np.zeros(3), np.ones(3)), np.zeros(3), 0.0, 1.0, looks=10, close=1e-9)
    assert value == 0.0 and not where.any()
