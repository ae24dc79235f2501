"""What questions ask of spaces, and what tables tell of them."""

from __future__ import annotations

import numpy as np

from sfumato.models.sums.measure import QueryKinds, of_anything, of_effects, precisions
from sfumato.models.sums.posterior import Effects, Table

SIDES = (10, 20)
TABLES = [Table(SIDES, (1, 1)), Table(SIDES, (10, 1)), Table(SIDES, (1, 20)), Table(SIDES, SIDES)]


def test_what_is_asked_is_what_its_spaces_make_up():
    asked = QueryKinds.of(TABLES, [TABLES[1].queries().dense().astype(float)], np.ones(1))
    assert np.allclose(asked.energies, [[2.0, 18.0, 0.0, 0.0]])  # 20 cells: a tenth of all, and what sets it apart


def test_a_table_tells_of_all_that_it_lies_inside():
    told = precisions(TABLES, np.array([np.inf, 4.0, np.inf, 2.0]))
    assert np.allclose(told, [20 / 4 + 1 / 2, 20 / 4 + 1 / 2, 1 / 2, 1 / 2])


def test_effects_vary_what_lies_around_their_regions():
    """10 regions of 20 cells with 3 rows each; variances 0.1 between them, 0.2 between cells, 0.3 between rows."""
    effects = Effects((TABLES[1],), (0.1,), 0.2, 0.3, 0.4)
    found = of_effects(TABLES, np.full(200, 3.0), effects)
    own = 0.2 * 9 + 0.3 * 3 + 0.4
    assert np.allclose(found.mean(axis=1), [own + 18, own + 18, own, own])  # 0.1 * 60^2 / 20


def test_a_sum_is_off_by_its_count_at_most_and_full_regions_are_told_from_empty_ones():
    counts = np.repeat([0.0, 4.0], 100)
    found = of_anything(TABLES, counts, 2.0)
    assert np.allclose(found[-1], [2.0] * 4 + [18.0] * 4)
    assert np.allclose(found[0], 400**2 / 200 + 2.0) and np.allclose(found[1, [0, -1]], [2.0, 80**2 / 20 + 2.0])
