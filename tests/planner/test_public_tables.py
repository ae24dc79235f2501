"""The public shapes: the same every time, of the size asked for, and scattered as people are."""

import numpy as np
import pytest

from sfumato.planner.simulate import SHAPES, prior_tables

SIZES = [(1,), (2,), (300,), (4096,), (100, 2, 8), (1, 7, 1, 5)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("rows", [1, 1000, 27_000_000])
def test_every_shape_has_about_the_rows_asked_for(sizes, rows):
    """Poisson totals: seven deviations and a row is a chance below 1e-10, were the hash random; it is fixed."""
    for name, table in prior_tables(sizes, rows).items():
        assert table.dtype == np.int64 and table.shape == (np.prod(sizes),) and table.min() >= 0
        assert abs(table.sum() - rows) <= 7 * np.sqrt(rows) + 1, name


def test_they_are_the_same_tomorrow():
    again = prior_tables((64, 3), 5000)
    for name, table in prior_tables((64, 3), 5000).items():
        assert (table == again[name]).all()
    assert tuple(again) == tuple(SHAPES)
    # Plans would change with these figures, so they are written down.
    assert [int(table[:9].sum()) for table in again.values()] == [241, 193, 1, 121, 58]


def test_an_even_table_scatters_as_independent_people_do():
    """Variance over mean of 4096 Poisson counts is 1 within 6 / sqrt(2048): a chance of about 1e-9."""
    for rows in (4096 * 3, 4096 * 500):
        even = prior_tables((4096,), rows)["even"]
        assert abs(even.var() / even.mean() - 1) < 6 / np.sqrt(2048)


def test_few_rows_leave_a_sparse_shape_empty_and_many_fill_it():
    few, many = (prior_tables((4096,), rows)["sparse"] for rows in (20_000, 20_000_000))
    assert (few == 0).mean() > 0.9 and (many == 0).mean() < 0.1


def test_a_spike_holds_half_of_all_rows():
    spike = prior_tables((10, 10), 10_000)["spike"].reshape(10, 10)
    assert 0.45 < spike[3, 3] / spike.sum() < 0.55


def test_neighbours_are_alike_on_hills_and_strangers_on_rough_ground():
    tables = prior_tables((1024,), 10**6)

    def likeness(table):
        return np.corrcoef(table[:-1], table[1:])[0, 1]

    assert likeness(tables["smooth"]) > 0.95 and abs(likeness(tables["rough"])) < 0.2
