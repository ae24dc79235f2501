"""Allocations of a budget: against a grid, the rules known in closed form and the conditions of the best."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from sfumato.models.linear.strategies.budget_allocation import (
    best_precisions,
    best_weights,
    squared_error,
    whole_weights,
)


@pytest.mark.parametrize("pure", [True, False])
def test_weights_are_the_best_of_a_grid(pure):
    """Three levels of a tree over 16 cells, all divisions of the budget in steps of a fortieth."""
    size = np.array([16.0, 4.0, 1.0])
    asked = np.array([40.0, 25.0, 30.0])

    def answered(squares):
        return np.cumsum((squares * size)[..., ::-1], axis=-1)[..., ::-1]

    weights, error = best_weights(asked, answered, lambda each: np.cumsum(each) * size, np.ones(3), pure)
    assert weights.sum() == pytest.approx(1)
    tried = [np.array([a, b, 40 - a - b]) / 40 for a, b in product(range(40), repeat=2) if a + b < 40]
    assert error <= min(squared_error(asked, answered, one, pure) for one in tried) * (1 + 1e-8)


def test_weights_become_whole_and_small_ones_vanish():
    assert whole_weights(np.array([0.3, 0.6, 0.0001]), 4) == [8, 16, 0]


def test_the_square_root_and_the_cube_root_rule_where_all_parts_meet_in_one_cell():
    sizes, loads = np.array([50.0, 2.0, 7.0]), np.array([[3], [1], [5]])
    for power in (1, 2):
        # precision s = epsilon_i / Delta_i; minimising sum |W_i| s^-power with sum s Delta_i = 1
        root = (sizes * loads[:, 0] ** power) ** (1 / (power + 1))
        assert best_precisions(sizes, loads, power) == pytest.approx(root / root.sum() / loads[:, 0], rel=1e-4)


def test_precisions_are_feasible_and_no_small_change_is_better():
    """The conditions of Karush, Kuhn and Tucker: the slope is a non-negative sum of the full cells' loads."""
    from scipy.optimize import nnls

    loads = (np.arange(7 * 300).reshape(7, 300) * 7919) % 101 % 13
    weights = np.array([1.0, 9, 4, 30, 2, 5, 1])
    for power in (1, 2):
        s = best_precisions(weights, loads, power)
        borne = s @ loads
        assert borne.max() == pytest.approx(1, abs=1e-6) and borne.max() <= 1 + 1e-12
        slope = power * weights * s ** (-power - 1)
        _, missed = nnls(loads[:, borne > 1 - 1e-4].astype(float), slope)
        assert missed < 1e-2 * np.linalg.norm(slope)
