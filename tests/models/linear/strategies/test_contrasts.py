"""Contrasts: whole, orthogonal, adding up to zero, and even once each row is divided by its length."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.linear.strategies.residual_basis import contrasts, levelled, squares, tables


@pytest.mark.parametrize("values", [2, 3, 4, 7, 10, 15, 16])
def test_contrasts_weigh_every_difference_alike(values):
    rows = contrasts(values).dense()
    assert rows.shape == (values - 1, values) and not rows.sum(axis=1).any()
    lengths = squares(contrasts(values))
    assert np.array_equal(rows @ rows.T, np.diag(lengths))
    assert np.allclose((rows.T / lengths) @ rows, np.eye(values) - 1 / values)


def test_tables_are_contrasts_along_axes_of_few_values():
    rows = tables((3, 20, 2), 16)
    assert rows.shape == (2 * 20 * 1, 120)
    assert np.array_equal(squares(rows), (rows.dense() ** 2).sum(axis=1))
    assert tables((), 16).shape == (1, 1)


@pytest.mark.parametrize("sizes", [(15, 9), (7, 5, 3), (16,)])
def test_levelled_rows_have_one_length_but_for_rounding_and_load_all_cells_alike(sizes):
    rows = tables(sizes, 16)
    long = 32 * int(np.sqrt(squares(rows).max())) + 32
    levels = levelled(rows, long)
    lengths = np.sqrt((levels.dense().astype(float) ** 2).sum(axis=1))
    assert (np.abs(lengths / long - 1) <= 1 / 64).all()
    loads = levels.column_squares() / long**2
    assert np.allclose(loads, np.prod([1 - 1 / size for size in sizes]), rtol=1 / 50)
