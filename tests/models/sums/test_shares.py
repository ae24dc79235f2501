"""Shares of a budget go where questions gain from them, and no kind of question pays much for it."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.sums.measure import MOST_LOST, Problem, QueryKinds, of_anything, of_effects, precisions
from sfumato.models.sums.posterior import Effects, Table, expected

SIDES = (10, 20)
TABLES = [Table(SIDES, (1, 1)), Table(SIDES, (10, 1)), Table(SIDES, (1, 20)), Table(SIDES, SIDES)]
BY_FIRST, CELLS = TABLES[1].queries().dense().astype(float), np.eye(200)[:12]
UNTOLD = np.zeros(4)


def asked_of(*kinds):
    return QueryKinds.of(TABLES, kinds, np.ones(len(kinds)))


def shares(kinds, rows, pure=True):
    prior = of_effects(TABLES, np.full(200, float(rows)), expected(TABLES, 1.0))
    return Problem(asked_of(*kinds), prior, UNTOLD, 8.0, 8.0, pure).best_shares()


def least(kinds, rows, pure=True):
    prior = of_anything(TABLES, np.full(200, float(rows)), 8.0)
    return Problem(asked_of(*kinds), prior, UNTOLD, 8.0, 8.0, pure).least_for_cells()


def test_who_asks_one_table_gets_all_of_it():
    assert shares([BY_FIRST], 50)[1] == 1.0 and shares([CELLS], 5000)[-1] == 1.0
    assert shares([BY_FIRST], 50, pure=False)[1] == 1.0


def test_cells_are_measured_where_they_hold_rows_only():
    few, many = shares([BY_FIRST, CELLS], 0.5), shares([BY_FIRST, CELLS], 500)
    assert few[-1] == 0.0 and many[-1] > 0.2 and many[1] > 0.2
    assert np.isclose(few.sum(), 1.0) and np.isclose(many.sum(), 1.0)


def test_cells_get_what_keeps_them_from_losing_too_much():
    """All that a full cell's noise may grow by is `MOST_LOST`: in shares of epsilon its inverse, of rho the square."""
    assert least([BY_FIRST, CELLS], 10**6) == pytest.approx(1 / MOST_LOST, abs=0.02)
    assert least([BY_FIRST, CELLS], 10**6, pure=False) == pytest.approx(1 / MOST_LOST**2, abs=0.02)
    assert least([BY_FIRST, CELLS], 0) == 0.0 and least([BY_FIRST], 10**6) == 0.0


@pytest.mark.parametrize("rows", [1, 1000])
@pytest.mark.parametrize("pure", [True, False])
def test_cells_lose_no_more_whatever_is_learned_afterwards(rows, pure):
    """Cells that seem to have no effects of their own would get nothing; what was set aside for them is theirs."""
    kinds, counts = [BY_FIRST, TABLES[2].queries().dense().astype(float), CELLS], np.full(200, float(rows))
    first = least(kinds, rows, pure)
    left = 8.0 / max(1e-9, 1.0 - first) ** (2 if pure else 1)
    told = precisions(TABLES, np.array([*[np.inf] * 3, 8.0 / max(first, 1e-9) ** (2 if pure else 1)]))
    seems = of_effects(TABLES, counts, Effects((TABLES[0],), (1.0,), 0.0, 0.0, 0.0))
    rest = Problem(asked_of(*kinds), seems, told, left, 8.0, pure).best_shares()
    truly = Problem(asked_of(*kinds), of_anything(TABLES, counts, 8.0), told, left, 8.0, pure)
    assert truly.ratios(rest[None])[0, -1] <= MOST_LOST**2 * 1.001
    assert Problem(asked_of(*kinds), seems, told, left, 8.0, pure).ratios(rest[None]).max() <= MOST_LOST**2 * 1.001
