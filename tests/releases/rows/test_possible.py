from __future__ import annotations

import numpy as np
import pytest

from sfumato.releases.rows.raking import halved_without_negatives, without_negatives


def test_the_nearest_numbers_without_negatives_keep_the_total():
    noisy = np.array([5.0, -3.0, 2.0, 0.5, -0.5])
    found = without_negatives(noisy)
    assert found.min() >= 0 and found.sum() == pytest.approx(noisy.sum())
    for other in np.eye(5) * noisy.sum():  # nearer than any corner of the simplex
        assert ((found - noisy) ** 2).sum() <= ((other - noisy) ** 2).sum()
    assert without_negatives(np.array([-1.0, -2.0])).tolist() == [0.0, 0.0]


@pytest.mark.parametrize("shape", [(1,), (7,), (64,), (5, 9), (3, 4, 6, 2)])
def test_halving_keeps_the_total_and_what_was_possible(shape):
    at = np.random.default_rng(3)
    noisy = at.normal(2, 5, size=shape)
    if noisy.sum() > 0:
        found = halved_without_negatives(noisy)
        assert found.min() >= 0 and found.sum() == pytest.approx(noisy.sum())
    assert np.array_equal(halved_without_negatives(abs(noisy)), abs(noisy))


def test_halving_keeps_ranges_that_the_nearest_numbers_fill():
    """Rows in the first half only, noise of deviation 5 on 4,096 numbers, made consistent with both halves."""
    noisy = np.where(np.arange(4096) < 2048, 1.0, 0.0) + np.random.default_rng(1).normal(0, 5, 4096)
    for half, total in ((slice(0, 2048), 2048.0), (slice(2048, None), 20.0)):
        noisy[half] += (total - noisy[half].sum()) / 2048
    assert halved_without_negatives(noisy)[:2048].sum() == pytest.approx(2048)
    assert without_negatives(noisy)[:2048].sum() < 1500


def test_halves_of_which_nothing_is_known_share_evenly():
    assert halved_without_negatives(np.array([10.0, 10.0, -1.0, -1.0, 0.0, 5.0])).sum() == pytest.approx(23)
    found = halved_without_negatives(np.array([[4.0, 4.0], [3.0, -2.0]]))
    assert found.tolist() == [[4.0, 2.0], [3.0, 0.0]]
