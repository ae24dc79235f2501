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
