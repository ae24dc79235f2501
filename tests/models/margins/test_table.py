"""Tables summed over kinds of values, and put together from several noisy ones."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.margins.table import Table, independent, pooled, spread_out, sum_kinds, sum_out


def test_values_of_one_kind_are_added_up():
    table = np.arange(12.0).reshape(3, 4)
    kinds = [np.array([0, 1, 0]), np.array([1, 0, 0, 1])]
    expected = np.array([[(1 + 2 + 9 + 10), (0 + 3 + 8 + 11)], [(5 + 6), (4 + 7)]], dtype=float)
    assert np.array_equal(sum_kinds(table, kinds), expected)
    assert np.array_equal(sum_kinds(table, [np.arange(3), np.arange(4)]), table)
    whole = Table((2, 5), table, table, 0 * table).summed({2: kinds[0], 5: kinds[1], 7: kinds[0]})
    assert np.array_equal(whole.estimate, expected) and np.array_equal(whole.noise, expected)


def test_axes_are_spread_out_and_summed_out():
    table = np.arange(6.0).reshape(2, 3)
    assert spread_out(table, (1, 4), (0, 1, 4)).shape == (1, 2, 3)
    assert sum_out(table, (4,), (1, 4)).tolist() == [3.0, 5.0, 7.0]
    assert float(sum_out(table, (), (1, 4))) == 15.0
    assert independent([np.array([1.0, 3.0]), np.array([2.0, 2.0])], 4.0).tolist() == [[0.5, 0.5], [1.5, 1.5]]


def test_noisy_tables_count_by_their_precision():
    """A pair's margin carries the noise of all its cells: 3 values of variance 1 summed count a third of one."""
    pair, margin = np.ones((2, 3)), np.array([6.0, 6.0])
    found, variance = pooled([((0, 1), (pair, 1.0)), ((0,), (margin, 1.0))], (0,))
    assert np.allclose(found, (3.0 / 3 + 6.0) / (1 / 3 + 1)) and variance == pytest.approx(0.75)
    total, variance = pooled([((0, 1), (pair, 1.0)), ((0,), (margin, 1.0))], ())
    assert float(total) == pytest.approx((6 / 6 + 12 / 2) / (1 / 6 + 1 / 2)) and variance == pytest.approx(1.5)
