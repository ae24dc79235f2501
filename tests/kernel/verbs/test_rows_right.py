"""A row raises the scores of rules by 0 or 1 and lowers none, however many rows there are."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.errors import PrivacyError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.scores import RowsRight
from sfumato.lab.audit.attacks.exact import largest_loss, selecting
from sfumato.lab.audit.attacks.exact_verbs import CANDIDATES

EVERY_RULE = np.array([[code >> cell & 1 for cell in range(4)] for code in range(16)]) == 1


@pytest.mark.parametrize("rows", [0, 10, 2**55, 2**61 - 8, 2**61, 2**62 - 2, 2**62])
def test_a_row_more_raises_every_score_by_nothing_or_one(rows):
    score, counts = RowsRight(EVERY_RULE), np.array([rows, 0, 3, 1], dtype=np.int64)
    before = score.scores(counts)
    assert before.dtype == np.int64 and before[0] == 0
    for cell in range(4):
        moved = score.scores(counts + (np.arange(4) == cell)) - before
        assert set(moved.tolist()) <= {0, 1}


def test_large_tables_of_rules_are_multiplied_in_parts(monkeypatch):
    monkeypatch.setattr("sfumato.kernel.verbs.scores.AT_ONCE", 8)
    counts = np.array([5, 0, 7, 2])
    assert RowsRight(EVERY_RULE).scores(counts).tolist() == (EVERY_RULE @ counts).tolist()


def test_the_rate_is_as_high_as_the_privacy_allows_and_no_higher():
    """At epsilon 4 the exact loss is 4 on the worst pair; without the one-way saving it would be 2 or so."""
    loss, _ = largest_loss(selecting(CANDIDATES["rows that rules get right"], Fraction(4), 1), (3,), 4, 1)
    assert 3.4 < loss <= 4 + 1e-9


def test_a_curator_takes_no_other_shape_and_no_copy():
    domain = Domain((Axis("cell", "integer", np.arange(4.0)),))
    curator = Curator(
        domain, Aggregate(np.array([0]), np.array([2])), {"count": 1}, Charge(Budget.pure(1), 1, 3), TestingEntropy(1)
    )
    with pytest.raises(QueryError, match="span 4 cells"):
        curator.select(RowsRight(EVERY_RULE), Budget.pure(1))
    copied = RowsRight(EVERY_RULE[:, :3])
    object.__setattr__(copied, "right", np.array(copied.right))
    with pytest.raises(PrivacyError, match="made afresh"):
        curator.select(copied, Budget.pure(1))
    assert curator.charge.fullest == 0
    assert 0 <= curator.select(replace(copied), Budget.pure(1)) < 16


@pytest.mark.parametrize("right", [np.zeros((0, 3), dtype=bool), np.zeros((2, 3)), np.zeros(3, dtype=bool)])
def test_what_is_no_table_of_rules_is_refused(right):
    with pytest.raises(QueryError, match="true and false"):
        RowsRight(right)
