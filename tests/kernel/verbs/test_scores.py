"""Scores move by no more than their sensitivity, however many rows there are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.kernel.verbs.scores import FINEST_QUANTILE, Rank


@pytest.mark.parametrize("rows", [10, 2**41, 2**45, 2**55, 2**60])
@pytest.mark.parametrize("quantile", [Fraction(1, 2), Fraction(1, 3), Fraction(524_287, FINEST_QUANTILE), Fraction(1)])
def test_one_row_moves_a_rank_by_its_sensitivity_at_most(rows, quantile):
    """With 2^43 rows and a denominator of 2^20, products leave 64 bits: there the score once jumped by 2^64."""
    score = Rank(quantile)
    counts = np.array([rows, 0, 3, rows // 7, 1], dtype=np.int64)
    before = score.scores(counts)
    for cell in range(len(counts)):
        after = score.scores(counts + (np.arange(len(counts)) == cell))
        moved = [abs(int(a) - int(b)) for a, b in zip(after, before, strict=True)]
        assert max(moved) <= score.sensitivity
    assert before.max() == 0  # some cell holds the quantile
    assert before.dtype == np.int64


def test_quantiles_finer_than_any_use_are_refused():
    with pytest.raises(QueryError, match="write 1/10"):
        Rank(Fraction(0.1))


@pytest.mark.parametrize("quantile", [Fraction(0), Fraction(1), Fraction(1, 2), Fraction(3, 4), Fraction(1, 10)])
def test_one_row_moves_two_ranks_apart_by_their_spread_and_no_less(quantile):
    """All tables of up to 4 rows in 4 cells; the spread is reached, so no higher rate would be private."""
    score, widest = Rank(quantile), 0
    for code in range(5**4):
        counts = np.array([code // 5**place % 5 for place in range(4)])
        for cell in range(4):
            moved = score.scores(counts + (np.arange(4) == cell)) - score.scores(counts)
            widest = max(widest, int(moved.max() - moved.min()))
    assert widest <= score.spread
    assert widest == score.spread or quantile not in (0, 1, Fraction(1, 2))
