from __future__ import annotations

import numpy as np
import pytest

from sfumato.releases.rows.raking import LaidOut, Listed, fit_all_cells, rake
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "a": {"type": "integer", "lower": 0, "upper": 8},
            "b": {"type": "category", "values": list("wxyz")},
            "c": {"type": "boolean"},
        },
    }
)
DOMAIN = SCHEMA.domain


def test_possible_cells_stay_as_they_are():
    cells = np.arange(DOMAIN.size, dtype=np.float64)
    assert np.array_equal(fit_all_cells(DOMAIN, cells).reshape(-1), cells)


def test_cells_fit_all_margins_that_are_possible():
    """Noise of deviation 8 on cells of 20: many below zero, but no one-way or two-way sum of this seed is."""
    cells = np.random.default_rng(4).normal(20, 14, DOMAIN.shape)
    fitted, layout = fit_all_cells(DOMAIN, cells.reshape(-1)), LaidOut(DOMAIN.shape)
    assert (cells < 0).any() and fitted.min() >= 0
    for axes in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2)):
        wanted = layout.along(cells, axes)
        if wanted.min() >= 0 and axes != (0, 1):
            assert np.allclose(layout.along(fitted, axes), wanted, rtol=0, atol=1e-3 * cells.sum()), axes
    assert fitted.sum() == pytest.approx(cells.sum())


def test_a_value_that_the_release_answers_with_nothing_gets_no_rows():
    cells = np.random.default_rng(4).normal(20, 14, DOMAIN.shape)
    cells[3] -= cells[3].mean() + 5
    assert fit_all_cells(DOMAIN, cells.reshape(-1))[3].sum() <= 1e-3 * cells.sum()


def test_a_list_of_all_cells_is_raked_as_all_cells_are():
    at = np.random.default_rng(2)
    cells, goal = at.uniform(1, 2, DOMAIN.shape), at.uniform(1, 2, DOMAIN.shape)
    layout, listed = LaidOut(DOMAIN.shape), Listed(DOMAIN, np.arange(DOMAIN.size))
    margins = [(axes, layout.along(goal, axes)) for axes in ((0, 1), (1, 2), (0, 2))]
    for axes, margin in margins:
        assert np.allclose(listed.along(goal.reshape(-1), axes), margin)
    laid = rake(layout, cells.copy(), margins)
    assert np.allclose(laid.reshape(-1), rake(listed, cells.reshape(-1).copy(), margins))
    for axes, margin in margins:
        assert np.allclose(layout.along(laid, axes), margin, atol=1e-3)
