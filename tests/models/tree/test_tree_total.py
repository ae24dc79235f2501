"""The number of all rows by least squares, and where one row more would lie."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain.binary_tree import BinaryTree
from sfumato.models.tree.fit import of_one_row_more, total_by_squares, total_of_both

TREE = BinaryTree.line(4)
NOT = np.inf


def test_the_total_weighs_a_node_against_its_parts():
    answers = [np.array([100.0]), np.array([60.0, 0.0]), np.array([0.0, 0.0, 20.0, 30.0])]
    scales = [np.array([2.0]), np.array([1.0, NOT]), np.array([NOT, NOT, 1.0, 1.0])]
    total, variance = total_by_squares(TREE, answers, scales, laplace=False)
    assert (total, variance) == (pytest.approx((100 / 4 + 110 / 3) / (1 / 4 + 1 / 3)), pytest.approx(12 / 7))
    assert total_by_squares(TREE, answers, scales, laplace=True)[1] == pytest.approx(24 / 7)


def test_what_was_measured_nowhere_has_no_total():
    scales = [np.array([NOT]), np.array([1.0, NOT]), np.full(4, NOT)]
    assert total_by_squares(TREE, [np.zeros(1), np.zeros(2), np.zeros(4)], scales, laplace=True)[1] == np.inf


def test_one_row_more_is_divided_by_slopes():
    assert of_one_row_more(TREE, [np.array([0.25]), np.array([1.0, 0.5])]).tolist() == [0.25, 0.0, 0.375, 0.375]
    odd = of_one_row_more(BinaryTree.line(3), [np.array([0.5]), np.array([0.5, 0.5])])
    assert odd.sum() == pytest.approx(1.0) and len(odd) == 3


def test_least_squares_has_the_last_word_unless_the_posterior_claims_far_more():
    assert total_of_both((100.0, 30.0), (120.0, 100.0)) == (120.0, 100.0)
    assert total_of_both((100.0, 30.0), (0.0, np.inf)) == (100.0, 30.0)
    assert total_of_both((100.0, 1.0), (105.0, 100.0)) == (100.0, 1.0)
    assert total_of_both((100.0, 1.0), (120.0, 100.0)) == (pytest.approx(115.0), pytest.approx(75.25))
