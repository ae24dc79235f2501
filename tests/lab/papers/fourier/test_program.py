"""The linear program: the theorem's steps hold for its solution."""

from __future__ import annotations

import numpy as np

from sfumato.lab.papers.fourier.content import downward_closure, written_out
from sfumato.lab.papers.fourier.measure import whole_table

SIZES = (2, 3, 2, 2)


def test_no_coefficient_is_farther_from_the_measured_one_than_the_largest_noise_and_rounding_is_small():
    random = np.random.default_rng(5)
    rows = written_out(downward_closure([(0, 1), (1, 2), (2, 3)], SIZES), SIZES)
    for _ in range(20):
        counts = random.poisson(random.gamma(0.3, 20.0, rows.shape[1]))
        noise = np.rint(random.laplace(0, len(rows), len(rows))).astype(np.int64)
        noisy = (rows @ counts).astype(np.int64) + noise
        found = whole_table(rows, noisy)
        assert found is not None and found.dtype == np.int64 and (found >= 0).all()
        assert (found > 0).sum() <= len(rows) + 1  # a corner: few cells are rounded
        assert np.abs(noisy - rows @ found).max() <= np.abs(noise).max() + (len(rows) + 1) / 2 + 1e-6


def test_without_noise_the_margins_come_back_up_to_rounding():
    rows = written_out(downward_closure([(0, 1, 2, 3)], SIZES), SIZES)  # all coefficients: the table itself
    counts = np.random.default_rng(6).poisson(9, rows.shape[1])
    assert np.array_equal(whole_table(rows, (rows @ counts).astype(np.int64)), counts)
    assert not whole_table(rows, np.zeros(len(rows), dtype=np.int64)).any()
