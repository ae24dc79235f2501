"""The largest misfit moves by no more than its sensitivity, whichever way a row goes, however many rows there are."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.kernel.verbs.scores import LargestMisfit
from sfumato.queries import Identity, Prefix, Weighted


@pytest.mark.parametrize("rows", [0, 10, 2**55, 2**62 - 1])
@pytest.mark.parametrize("queries", [Identity(3), Prefix(3), Weighted(np.array([[2, -1, 0], [0, 3, 1]]))])
def test_one_row_moves_it_by_its_sensitivity_at_most(rows, queries):
    rng = np.random.default_rng(3)
    score = LargestMisfit(queries, rng.integers(-20, 20, (30, queries.rows)))
    counts = np.array([rows, 0, 3], dtype=np.int64)
    before = score.scores(counts)
    for cell in range(3):
        after = score.scores(counts + (np.arange(3) == cell))
        assert max(abs(int(a) - int(b)) for a, b in zip(after, before, strict=True)) <= score.sensitivity


def test_it_is_the_largest_of_the_distances():
    score = LargestMisfit(Prefix(3), np.array([[0, 0, 0], [1, 5, 9]]))
    assert score.scores(np.array([1, 2, 3])).tolist() == [-6, -3]


@pytest.mark.parametrize("targets", [np.zeros((2, 2), dtype=int), np.zeros((2, 3)), np.zeros(3, dtype=int)])
def test_targets_that_do_not_fit_are_refused(targets):
    with pytest.raises(QueryError, match="3 whole-number answers each"):
        LargestMisfit(Identity(3), targets)
    with pytest.raises(QueryError, match="beyond 2\\^62"):
        LargestMisfit(Identity(3), np.array([[0, 0, 2**62 + 1]]))
