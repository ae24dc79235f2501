"""What noisy counts of a tree say by themselves."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain.binary_tree import BinaryTree
from sfumato.models.tree.observation import UNKNOWN, Evidence, Mixture, log_at_zero

NEVER = np.inf


def evidence(*, laplace: bool = True, sizes: tuple[int, ...] = (1, 1, 1, 1)) -> Evidence:
    """Four leaves, of which the whole and the second leaf were measured."""
    answers = [np.array([9.0]), np.zeros(2), np.array([0.0, 5.0, 0.0, 0.0])]
    scales = [np.array([2.0]), np.full(2, NEVER), np.array([NEVER, 3.0, NEVER, NEVER])]
    return Evidence.of(BinaryTree.line(4), np.array(sizes), answers, scales, laplace=laplace)


def test_nodes_know_whether_anything_was_measured_in_them():
    found = evidence()
    assert [part.tolist() for part in found.measured] == [[True], [True, False], [False, True, False, False]]
    assert [part.tolist() for part in found.inner] == [[0], [0]]


@pytest.mark.parametrize("laplace", [True, False])
def test_an_empty_node_explains_all_that_was_measured_in_it(laplace):
    found = evidence(laplace=laplace)
    leaf, whole = (log_at_zero(np.array([a]), np.array([s]), laplace=laplace)[0] for a, s in ((5.0, 3.0), (9.0, 2.0)))
    assert found.zero[1] == pytest.approx([leaf, 0.0]) and found.zero[0] == pytest.approx([leaf + whole])


def test_a_node_that_was_not_measured_says_nothing_of_itself():
    own = evidence().own(2)
    assert own.variance.tolist() == [UNKNOWN, 18.0, UNKNOWN, UNKNOWN]
    mixture = Mixture(np.full((1, 2), 4.0), np.full((1, 2), 6.0), np.zeros((1, 2)))
    found = evidence(laplace=False).observed(2, np.array([0, 1]), mixture)
    assert (found.mean[0, 0], found.variance[0, 0], found.log_weight[0, 0]) == (4.0, 6.0, 0.0)
    assert found.mean[0, 1] == pytest.approx((4.0 / 6 + 5.0 / 9) / (1 / 6 + 1 / 9))
    assert mixture.mean.tolist() == [[4.0, 4.0]]  # what is passed in stays as it is


def test_the_even_share_is_that_of_the_cells():
    found = evidence(sizes=(1, 2, 3, 4))
    assert found.even[0] == pytest.approx([0.3])
    assert found.even[1] == pytest.approx([1 / 3, 3 / 7])
