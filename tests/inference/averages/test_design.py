"""Shares of a budget go where questions gain from them."""

from __future__ import annotations

import numpy as np

from sfumato.inference.averages.design import Asked, best_shares, precisions
from sfumato.inference.averages.learning import expected
from sfumato.inference.averages.tables import Table

SIDES = (10, 20)
TABLES = [Table(SIDES, (1, 1)), Table(SIDES, (10, 1)), Table(SIDES, (1, 20)), Table(SIDES, SIDES)]
BY_FIRST, CELLS = TABLES[1].queries().dense().astype(float), np.eye(200)[:12]


def shares(kinds, rows, told=None, pure=True):
    asked = Asked.of(TABLES, kinds, np.ones(len(kinds)))
    counts = np.full(200, float(rows))
    return best_shares(asked, counts, expected(TABLES, 1.0), 8.0, np.zeros(4) if told is None else told, pure=pure)


def test_who_asks_one_table_gets_all_of_it():
    assert shares([BY_FIRST], 50)[1] > 0.999 and shares([CELLS], 5000)[-1] > 0.999
    assert shares([BY_FIRST], 50, pure=False)[1] > 0.999


def test_cells_are_measured_where_they_hold_rows_only():
    few, many = shares([BY_FIRST, CELLS], 0.5), shares([BY_FIRST, CELLS], 500)
    assert few[-1] == 0.0 and many[-1] > 0.2 and many[1] > 0.2
    assert np.isclose(few.sum(), 1.0) and np.isclose(many.sum(), 1.0)


def test_what_is_asked_is_what_its_spaces_make_up():
    asked = Asked.of(TABLES, [BY_FIRST], np.ones(1))
    assert np.allclose(asked.energies, [[2.0, 18.0, 0.0, 0.0]])  # 20 cells: a tenth of all, and what sets it apart


def test_a_table_tells_of_all_that_it_lies_inside():
    told = precisions(TABLES, np.array([np.inf, 4.0, np.inf, 2.0]))
    assert np.allclose(told, [20 / 4 + 1 / 2, 20 / 4 + 1 / 2, 1 / 2, 1 / 2])
