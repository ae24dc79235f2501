"""Linear queries with intervals of other kinds, from Python."""

from __future__ import annotations

import numpy as np
import pytest
from sure_coverage import GRID, SIDE, checkerboard, content_of

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Weighted
from sfumato.releases.release import Release

ROWS = np.zeros((3, SIDE**2), dtype=np.int64)
ROWS[0], ROWS[1, 5], ROWS[2, 5] = 1, 1, -1
QUERIES = Weighted(ROWS)


def release(mechanism: str) -> Release:
    """Epsilon 50, so that guaranteed ends miss less than once in 1e6 times at a confidence of 1 - 1e-7."""
    content = content_of(mechanism, "checkerboard", epsilon=50)
    return Release(content, mechanism, describe_guarantee(Budget.pure(50), GRID), private=False)


@pytest.mark.parametrize("mechanism", ["cells", "sfumato", "dawa"])
def test_ends_hold_and_stay_within_what_is_possible(mechanism):
    found = release(mechanism).answer(QUERIES, confidence=1 - 1e-7, interval="guaranteed")
    truth = ROWS @ checkerboard().reshape(-1)
    assert all(one.low <= true <= one.high for one, true in zip(found, truth, strict=True))
    assert found[1].low >= 0 >= found[2].high


def test_both_stand_side_by_side():
    made = release("dawa")
    typical, both, sure = (made.answer(QUERIES, interval=kind) for kind in ("typical", "both", "guaranteed"))
    assert [one.sure for one in both] == [(one.low, one.high) for one in sure]
    assert [(one.value, one.low, one.high) for one in both] == [(one.value, one.low, one.high) for one in typical]


def test_other_words_are_refused():
    with pytest.raises(QueryError, match="typical, guaranteed or both"):
        release("cells").answer(QUERIES, interval="sure")
