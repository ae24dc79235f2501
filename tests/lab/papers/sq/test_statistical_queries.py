"""The oracle keeps the tolerance that it states, and spends its budget to the last bit; sample sizes hold."""

from __future__ import annotations

from fractions import Fraction
from math import exp

import numpy as np
import pytest
from curators import curator_of

from sfumato.errors import BudgetError, QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.lab.papers.sq.statistical_queries import (
    Oracle,
    Questions,
    exact_rows,
    largest_noise,
    paper_rows,
    rows_needed,
)
from sfumato.queries import Identity, Total
from sfumato.schema import Schema

SCHEMA = Schema.from_dict(
    {
        "dataset": "t",
        "privacy_unit": "row",
        "attributes": {
            "a": {"type": "integer", "lower": 0, "upper": 3},
            "b": {"type": "integer", "lower": 0, "upper": 1},
        },
    }
)
COUNTS = np.array([30, 10, 25, 15, 5, 40, 12, 13])


def test_all_replies_keep_their_tolerance():
    """200 oracles of three questions at delta 0.2; misses are at most 0.2 of them, by 5 deviations (1e-6) 0.34."""
    missed = 0
    for seed in range(200):
        curator = curator_of(SCHEMA, COUNTS.reshape(4, 2), epsilon=3, entropy=TestingEntropy(seed))
        oracle = Oracle(curator, Budget.pure(3), 3, delta=0.2)
        replies = [oracle.ask(Identity(8)) for _ in range(3)]
        assert curator.charge.fullest == curator.charge.limit
        true = COUNTS / COUNTS.sum()
        missed += any((np.abs(reply.shares - true) > reply.tolerance).any() for reply in replies)
    assert missed <= 0.34 * 200


def test_an_oracle_answers_as_many_questions_as_it_was_made_for():
    oracle = Oracle(curator_of(SCHEMA, COUNTS.reshape(4, 2), entropy=SystemEntropy()), Budget.pure(1), 1)
    oracle.ask(Total(8))
    with pytest.raises(BudgetError, match="all questions have been asked"):
        oracle.ask(Total(8))
    with pytest.raises(QueryError, match="1, 2, 3"):
        Oracle(curator_of(SCHEMA, COUNTS.reshape(4, 2)), Budget.pure(1), 0)


def test_a_table_of_no_rows_has_no_shares():
    replies = []
    for seed in range(8):
        curator = curator_of(SCHEMA, 0 * COUNTS.reshape(4, 2), entropy=TestingEntropy(seed))
        replies.append(Oracle(curator, Budget.pure(1), 1).ask(Total(8)))
    assert all(reply.tolerance > 0.0 for reply in replies) and any(np.isinf(reply.tolerance) for reply in replies)


def test_questions_share_a_budget_and_say_what_is_left():
    curator = curator_of(SCHEMA, COUNTS.reshape(4, 2), epsilon=3)
    ask = Questions(curator, Budget.pure(3), 3)
    found = ask.counts(["a"])
    assert found.noise.scale == 1 and ask.rest == Budget.pure(2)
    padded = ask.counts(["a", "b"], np.array([0, 0, 1, 1, -1, -1, 1, 1]), 4)
    assert len(padded.answers) == 4 and padded.answers[2:].tolist() == [0, 0]
    ask.counts(["b"])
    assert ask.rest is None and curator.charge.fullest == curator.charge.limit
    with pytest.raises(BudgetError, match="all questions have been asked"):
        ask.counts(["b"])


@pytest.mark.parametrize(("scale", "number", "delta"), [(1.0, 1, 0.05), (7.3, 12, 0.01), (0.2, 3, 0.3)])
def test_the_largest_noise_is_the_exact_quantile(scale, number, delta):
    def beyond(t: int) -> float:
        ratio = exp(-1.0 / scale)
        return 1.0 - (1.0 - 2.0 * ratio ** (t + 1) / (1.0 + ratio)) ** number

    bound = largest_noise(scale, number, delta)
    assert beyond(bound) <= delta * (1 + 1e-9) and (bound == 0 or beyond(bound - 1) > delta)


def test_sample_sizes():
    assert paper_rows(10, 1, 0.01, 0.05) > exact_rows(10, Fraction(1), 0.01, 0.05) - 10
    assert exact_rows(4, 1, 0.01, 0.5) < 0.9 * paper_rows(4, 1, 0.01, 0.5)
    assert rows_needed(10, 1, 0.01, 0.05, at_once=100) > rows_needed(10, 1, 0.01, 0.05) > exact_rows(10, 1, 0.01, 0.05)
    with pytest.raises(QueryError, match="between 0 and 1"):
        paper_rows(10, 1, 0, 0.05)
