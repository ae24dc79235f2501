"""Rows that carry the same noises along an axis."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.least_squares import classes as module
from sfumato.least_squares.classes import narrow, noise_classes, noises_along


def test_levels_are_found_along_each_axis():
    first, second = np.array([0, 1, 1, 2, 2, 2]), np.array([0, 1, 1])
    which = (first[:, None] * 2 + second).reshape(-1)
    classes, kinds = noises_along(which, [6, 3])
    assert [len(set(each)) for each in classes] == [3, 2] and kinds.shape == (3, 2)
    assert np.array_equal(kinds[np.ix_(*classes)].reshape(-1), which)


def test_one_noise_is_one_class():
    classes, kinds = noises_along(None, [2, 3])
    assert [each.tolist() for each in classes] == [[0, 0], [0, 0, 0]] and kinds.tolist() == [[0]]


@pytest.mark.parametrize("few", [1, 64])
def test_classes_are_the_same_whether_rows_are_compared_or_hashed(few, monkeypatch):
    """What too many classes would take is left to words without a pattern, which agree on what is alike."""
    grid = np.random.default_rng(3).integers(0, 2, (40, 2, 3))
    monkeypatch.setattr(module, "FEW_CLASSES", few)
    for place in range(3):
        found = noise_classes(grid, place)
        rows = np.moveaxis(grid, place, 0).reshape(grid.shape[place], -1)
        alike = (rows[:, None] == rows).all(axis=2)
        assert np.array_equal(found[:, None] == found, alike)


def test_too_many_classes_are_none():
    assert noises_along(np.arange(70 * 2), [70, 2]) is None


def test_numbers_take_as_few_bytes_as_they_need():
    assert narrow(np.array([3, 255])).dtype == np.uint8 and narrow(np.array([256])).dtype == np.int64
    assert narrow(np.zeros(0, dtype=np.int64)).dtype == np.int64
