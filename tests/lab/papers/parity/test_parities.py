"""Parities from noisy cells: the transform is exact, and the best fit is found."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.lab.papers.parity.content import as_cells, learn, odd, transformed


def test_the_transform_is_the_sum_with_signs():
    values = np.random.default_rng(1).integers(-50, 50, 32)
    places = np.arange(32)
    dense = [int((values * (1 - 2 * odd(places & v))).sum()) for v in places]
    assert transformed(values).tolist() == dense


@pytest.mark.parametrize("opposite", [False, True])
def test_the_vector_and_its_opposite_are_found(opposite):
    label = odd(np.arange(64) & 0b010011) ^ opposite
    zeros, ones = 30 * (label == 0), 30 * (label == 1)
    found = learn(zeros, ones)
    assert (found.vector, found.opposite) == (0b010011, opposite) and found.gap == found.lead == 64 * 30


def test_a_label_that_never_changes_is_no_parity():
    found = learn(np.full(16, 100), np.zeros(16, dtype=np.int64))
    assert found.vector != 0 and found.gap == 0


def test_the_label_may_stand_anywhere():
    counts = np.arange(8)
    zeros, ones = as_cells(counts, 0, 3)
    assert zeros.tolist() == [0, 1, 2, 3] and ones.tolist() == [4, 5, 6, 7]
    assert as_cells(counts, 1, 3)[1].tolist() == [2, 3, 6, 7]
