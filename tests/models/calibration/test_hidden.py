"""Rows in cells that are estimated to hold none: two noisy sums tell how many there are in one."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.model_error import hidden_deviation, thin_deviation
from sfumato.queries import Identity


def of_counts(counts: np.ndarray, scale: int, unit: float = 2.0, *, seen: bool = True) -> float:
    sums = np.abs(counts).sum(), np.abs(counts - 1).sum()
    noise = (Laplace(Fraction(scale)),)
    rows, beyond = (Measurement("misfit", Identity(1), np.array([one]), noise) for one in sums)
    return hidden_deviation(rows, beyond, len(counts), unit, seen=seen)


@pytest.mark.parametrize("size", [1, 3, 8])
def test_a_clear_measurement_tells_the_size_of_what_is_hidden(size):
    """Intervals around zero then hold 95 % of the cells that hold rows, to 3 %: 20,000 of them, by geometric sizes."""
    counts = np.zeros(200_000, dtype=np.int64)
    counts[::10] = np.random.default_rng(2).geometric(1 / size, 20_000)
    held = np.mean(counts[::10] <= 1.96 * of_counts(counts, 10) + 0.01)
    assert held > 0.92 and (size == 1 or held < 0.98)


def test_with_noise_alone_it_is_between_one_row_and_what_would_be_seen():
    zeros = np.zeros(100, dtype=np.int64)
    assert 1.0 <= 1.96 * of_counts(zeros, 10**6) <= 3 * 8.0 * 2.0
    assert of_counts(zeros, 10**6, unit=0.01) == pytest.approx(1 / 1.96, rel=1e-3)


def test_what_would_not_be_seen_may_be_larger():
    """One cell in a hundred holds 200 rows, far more than 8 times the noise: sizes are told where they may be that."""
    counts = np.where(np.arange(5000) % 100 == 0, 200, 0)
    assert of_counts(counts, 5) < 30 and 1.96 * of_counts(counts, 5, seen=False) > 200


def thin(counts: np.ndarray, target: int, scale: int):
    noise = (Laplace(Fraction(scale)),)
    sums = [np.array([0, np.abs(counts - away).sum()]) for away in (0, target)]
    rows, beyond = (Measurement("misfit", Identity(2), each, noise) for each in sums)
    return thin_deviation(rows, beyond, 1, len(counts), float(target))


def test_cells_that_share_rows_of_a_few_among_them_are_found_thin():
    deviation, size = thin(np.where(np.arange(1000) % 50 == 0, 150, 0), 3, 1)
    assert size == pytest.approx(150, rel=0.25) and 150 < 1.96 * deviation < 4 * size
    assert thin(np.where(np.arange(1000) % 50 == 0, 150, 0), 3, 10_000) is None  # noise leaves it open
    assert thin(np.full(1000, 3), 3, 1) is None and thin(np.arange(1000) % 2 * 6, 3, 1) is None
    assert thin(np.arange(1000) % 600, 300, 1) is None  # far off, but not empty
