"""The smallest epsilon, where it has to be found by trial."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sfumato.kernel.budget import Budget
from sfumato.models import MECHANISMS
from sfumato.planner import usefulness as least
from sfumato.planner.forecast import Outlook, Question
from sfumato.planner.questions import Line, default_items
from sfumato.schema import Schema

SCHEMA = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
ITEMS, COUNTS = default_items(SCHEMA)
QUESTION = Question(SCHEMA, tuple(ITEMS), COUNTS)


def trials(monkeypatch: pytest.MonkeyPatch, within: Callable[[float], float]) -> list[float]:
    """Let a mechanism be off by so much at an epsilon, and note what is tried."""
    tried: list[float] = []

    def outlook(mechanism, question, budget: Budget, *, patient: bool) -> Outlook:
        tried.append(float(budget.epsilon))
        return Outlook(mechanism.name, "simulated", (Line("all", 1.0, within(tried[-1]), "rows", True),))

    monkeypatch.setattr(least, "outlook", outlook)
    return tried


def found(error: float, most: float = least.MOST) -> Outlook:
    return least.least_epsilon(MECHANISMS["dawa"], QUESTION, error, line_by_line=False, most=most)


@pytest.mark.parametrize(
    ("law", "error"),
    [
        (lambda epsilon: 300 / epsilon, 50),
        (lambda epsilon: 300 / epsilon, 5000),
        # Noise on whole numbers is gone at once: an error of nothing says little about a smaller epsilon.
        (lambda epsilon: round(300 * 2.0**-epsilon), 5),
        (lambda epsilon: 400 / (1 + epsilon), 30),
    ],
)
def test_an_epsilon_found_by_trial_was_tried_and_kept_the_error(law, error, monkeypatch):
    tried = trials(monkeypatch, law)
    answer = found(error)
    assert answer.about and float(answer.epsilon) in tried and law(float(answer.epsilon)) <= error
    assert float(answer.epsilon) == min(one for one in tried if law(one) <= error)
    assert len(set(tried)) == len(tried) <= least.TRIALS


def test_trials_end_where_they_are_no_longer_worth_it(monkeypatch):
    tried = trials(monkeypatch, lambda epsilon: 1000.0)
    answer = found(5, most=8.0)
    assert answer.epsilon is None and "no epsilon up to 8" in answer.note and max(tried) == 8
