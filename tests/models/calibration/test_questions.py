"""Kinds of questions, the same whether weights are laid out or come by group."""

from __future__ import annotations

import numpy as np

from sfumato.answers.fit import Grouped
from sfumato.domain import Axis, Domain
from sfumato.models.calibration.fit import Questions, in_ways

DOMAIN = Domain(tuple(Axis(name, "integer", np.arange(size + 1.0)) for name, size in (("x", 4), ("y", 3), ("z", 2))))
ESTIMATE = np.arange(24.0)


def test_what_is_restricted_and_how_many_cells_there_are():
    x, y, z = np.indices(DOMAIN.shape).reshape(3, -1)
    columns = np.stack([np.ones(24), x == 1, (x == 1) & (z == 0), (x < 2) & (y == 1) & (z == 1), 2.0 * (y > 0)], axis=1)
    found = Questions.of_columns(DOMAIN, columns, ESTIMATE)
    assert found.restricted.tolist() == [0, 1, 2, 3, 1]
    assert found.cells.tolist() == [24, 6, 3, 2, 16]
    assert np.allclose(found.rows, [ESTIMATE[column != 0].mean() for column in columns.T])
    one, two = in_ways(found, 3)
    assert one.tolist() == [True, True, False, False, True] and two.tolist() == [False, False, True, False, False]


def test_groups_are_questions_like_others():
    x, *_ = np.indices(DOMAIN.shape).reshape(3, -1)
    weights = np.stack([np.ones(24), np.arange(24.0) % 5], axis=1)
    for whole in (None, np.stack([np.zeros(24), np.ones(24)], axis=1)):
        found = Questions.of_groups(DOMAIN, Grouped.of_cells(x, 4, weights, whole), ESTIMATE)
        for group in range(4):
            laid_out = weights * (x == group)[:, None]
            if whole is not None:
                laid_out[:, 1] = 1.0  # what all groups have in common decides alone
            other, mine = Questions.of_columns(DOMAIN, laid_out, ESTIMATE), found.some(slice(2 * group, 2 * group + 2))
            assert np.array_equal(mine.restricted, other.restricted)
            assert np.allclose(mine.cells, other.cells) and np.allclose(mine.rows, other.rows)
