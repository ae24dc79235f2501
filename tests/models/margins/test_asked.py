"""What is asked along an attribute: sums over all ranges by hand, and how errors add up in them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.scales import UsualQueries, together
from sfumato.models.margins.shrinkage import Directions

SHARE = np.array([0.1, 0.4, 0.2, 0.25, 0.05])


def questions(ordered: bool) -> np.ndarray:
    if not ordered:
        return np.eye(5)
    places = np.arange(5)
    return np.array([(low <= places) & (places < high) for low, high in combinations(range(6), 2)], dtype=float)


@pytest.mark.parametrize("ordered", [True, False])
def test_squares_are_those_of_all_questions(ordered):
    along = Directions.of(SHARE, ordered)
    asked, every = UsualQueries.of(along, SHARE, ordered=ordered), questions(ordered)
    assert asked.on_directions == pytest.approx(((every @ along.vectors) ** 2).sum(axis=0))
    assert asked.on_values == pytest.approx(((every - (every @ SHARE)[:, None]) ** 2).sum(axis=0))


def test_errors_of_neighbours_that_go_together_count_together():
    """A covariance worked out in full, for ranges of one attribute and single values of the other."""
    rows, columns = Directions.of(SHARE, True), Directions.of(SHARE, False)
    left = np.exp(rows.sizes[:, None] + columns.sizes)
    single = rows.vectors**2 @ left @ (columns.vectors**2).T
    asked = UsualQueries.of(rows, SHARE, ordered=True), UsualQueries.of(columns, SHARE, ordered=False)
    truly = apart = 0.0
    for one in questions(True):
        for other in questions(False):
            truly += (rows.vectors.T @ one) ** 2 @ left @ (columns.vectors.T @ other) ** 2
            apart += (one - one @ SHARE) ** 2 @ single @ (other - other @ SHARE) ** 2
    assert together(left, single, *asked) == pytest.approx(truly / apart)
    assert truly / apart > 1.2


def test_errors_are_never_made_smaller():
    along = Directions.of(SHARE, False)
    assert together(np.zeros(4), np.ones(5), UsualQueries.of(along, SHARE, ordered=False)) == 1.0
