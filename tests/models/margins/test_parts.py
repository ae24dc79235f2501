"""Parts of tables from noisy ones: unbiased, the mean by precision, and adding up to the tables."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.margins.joining import Observed, join_unbiased, parts

GENERATOR = np.random.default_rng(3)


def test_without_noise_parts_add_up_to_the_table():
    table = GENERATOR.integers(0, 50, (3, 4)).astype(float)
    found = parts([Observed((0, 2), table, 1.0)])
    assert set(found) == {(), (0,), (2,), (0, 2)}
    renamed = {tuple({0: 0, 2: 1}[place] for place in part): one.estimate for part, one in found.items()}
    assert np.allclose(join_unbiased([np.full(3, 1 / 3), np.full(4, 1 / 4)], renamed), table)
    assert np.allclose(found[0, 2].estimate.sum(axis=0), 0) and np.allclose(found[0,].estimate.sum(), 0)


def test_kinds_of_uneven_sizes_are_joined_as_their_values_are():
    table = GENERATOR.integers(0, 50, (3, 4)).astype(float)
    found = {part: one.estimate for part, one in parts([Observed((0, 1), table, 1.0)]).items()}
    del found[0, 1]  # what is not known is even
    fine = join_unbiased([np.full(3, 1 / 3), np.full(4, 1 / 4)], found)
    kinds = np.array([[1, 1, 0], [0, 0, 1]], dtype=float)
    summed = {part: kinds @ one if 0 in part else one for part, one in found.items()}
    assert np.allclose(join_unbiased([np.array([2, 1]) / 3, np.full(4, 1 / 4)], summed), kinds @ fine)


def test_tables_are_pooled_by_what_they_are_worth():
    """Least squares over both tables, written out."""
    first, second = GENERATOR.normal(0, 9, (3, 4)), GENERATOR.normal(0, 9, 3)
    found = parts([Observed((0, 1), first, 2.0), Observed((0,), second, 5.0)])
    rows = np.vstack([np.eye(12) / np.sqrt(2.0), np.kron(np.eye(3), np.ones((1, 4))) / np.sqrt(5.0)])
    best = np.linalg.lstsq(rows, np.concatenate([first.reshape(-1) / np.sqrt(2.0), second / np.sqrt(5.0)]), rcond=None)
    whole = join_unbiased(
        [np.full(3, 1 / 3), np.full(4, 1 / 4)], {part: table.estimate for part, table in found.items()}
    )
    assert np.allclose(whole.reshape(-1), best[0])
    inverse = np.linalg.inv(rows.T @ rows)
    sums = np.kron(np.eye(3), np.ones((1, 4)))
    of_margin = 2 / 3 * found[0,].noise[0] + found[()].noise / 9
    assert np.diagonal(sums @ inverse @ sums.T) == pytest.approx(of_margin)


def test_contrasts_tell_nothing_of_parts_without_their_axis():
    found = parts([Observed((0, 1), np.array([[1.0, 2, 3], [-1, -2, -3]]), 1.0, always=(0,))])
    assert set(found) == {(0,), (0, 1)}
