"""Revenue as a score: one row moves it as little as is proved, at any size, and odd prices are refused unpaid."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from curators import CENSUS, curator_of

from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.verbs.scores import MOST, Revenue
from sfumato.schema import Schema


@pytest.mark.parametrize("rows", [0, 10, 2**41, 2**60])
@pytest.mark.parametrize("prices", [[1, 2, 9], [0, 3, 3], [5, 6, MOST]])
def test_one_row_moves_no_score_down_and_none_up_by_more_than_the_highest_price(rows, prices):
    score = Revenue(np.array(prices))
    counts = np.array([rows, 3, rows // 7], dtype=np.int64)
    before = score.scores(counts)
    for cell in range(3):
        after = score.scores(counts + (np.arange(3) == cell))
        moved = [int(a) - int(b) for a, b in zip(after, before, strict=True)]
        assert min(moved) >= 0 and max(moved) <= score.spread == score.sensitivity
    assert before.dtype == np.int64


@pytest.mark.parametrize("prices", [[], [[1, 2]], [0.5, 1.0], [2, 1], [-1, 1], [0, 0], [MOST + 1]])
def test_prices_that_are_none_are_refused(prices):
    with pytest.raises(QueryError):
        Revenue(np.array(prices))


def test_select_takes_the_best_price_and_nothing_that_looks_like_one():
    schema = Schema.from_dict({**CENSUS, "measures": {}})
    curator = curator_of(schema, np.full((100, 2), 50))
    with pytest.raises(QueryError, match="the candidates span 3 cells"):
        curator.select(Revenue(np.arange(1, 4)), Budget.pure(1))

    class Cheap(Revenue):
        @property
        def spread(self) -> int:
            return 1

    with pytest.raises(PrivacyError, match="proved"):
        curator.select(Cheap(np.arange(200)), Budget.pure(1))
    assert curator.charge.fullest == 0
    # p (200 - p) * 50 is greatest at 100, by 25 (p - 100)^2... : beyond 40 steps the chance is e^-400 a price
    assert abs(curator.select(Revenue(np.arange(200)), Budget.pure(Fraction(1))) - 100) < 40
