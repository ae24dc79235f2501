"""Rows and tables of a network of attributes."""

from __future__ import annotations

import numpy as np

from sfumato.lab.papers.bayes.measure import Family, Rows, larger_tables, raked, rows_of, smoothed
from sfumato.models.margins.table import Table
from sfumato.releases.rows.model import RandomNumbers

SIZES = (2, 3, 2)


def test_rows_have_the_tables_of_the_network():
    first = np.array([30.0, 70.0])
    second = np.array([[30.0, 0.0, 0.0], [0.0, 35.0, 35.0]])  # along places 0 and 1
    third = np.array([[0.0, 30.0], [35.0, 0.0], [0.0, 35.0]])  # along places 1 and 2
    families = [Family(0), Family(1, (0,)), Family(2, (1,))]
    rows = rows_of(families, {(0,): first, (0, 1): second, (1, 2): third}, 10_000, RandomNumbers(3))
    assert np.allclose(Rows(rows).counted((0, 1), SIZES, 100.0), second, atol=0.05)
    assert np.allclose(Rows(rows).counted((0, 2), SIZES, 100.0), [[0.0, 30.0], [35.0, 35.0]], atol=0.05)
    assert Rows(rows).counted((), SIZES, 100.0) == 100.0


def test_tables_are_brought_to_their_margins():
    one_way = [np.array([40.0, 60.0]), np.array([10.0, 90.0])]
    for table in (raked(np.ones((2, 2)), one_way), smoothed(np.array([[-5.0, 40.0], [9.0, 70.0]]), one_way)):
        assert (table >= 0).all()
        assert np.allclose(table.sum(axis=1), one_way[0]) and np.allclose(table.sum(axis=0), one_way[1])


def test_larger_tables_have_the_pairs_that_are_known():
    truth = np.arange(1.0, 9.0).reshape(2, 2, 2)
    places = [(0,), (1,), (2,), (0, 1), (0, 2), (1, 2)]
    known = {}
    for each in places:
        table = truth.sum(axis=tuple(axis for axis in range(3) if axis not in each))
        known[each] = Table(each, table, np.zeros(table.shape), np.zeros(table.shape))
    found = larger_tables([((0, 1, 2), (truth + 3.0, 4.0))], known)[0, 1, 2]
    for pair in places[3:]:
        away = tuple(axis for axis in range(3) if axis not in pair)
        assert np.allclose(found.estimate.sum(axis=away), known[pair].estimate, atol=1e-3)
