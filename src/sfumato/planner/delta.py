"""What a delta would buy, said where none is given: Gaussian noise adds up more slowly than Laplace noise."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import isfinite

from sfumato.errors import SfumatoError
from sfumato.kernel.cost import Cost
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.choose import choose_mechanism
from sfumato.planner.forecast import Question, expected_error, outlook

HINTED = Fraction(1, 10**9)  # small beside one over the rows of any table
NO_GAIN = 0.95  # of the error without it: with more it is not worth a delta


def what_a_delta_buys(question: Question, epsilon: Fraction, only: Mechanism | None) -> str | None:
    """One sentence; None where nothing is known of it. Reads no data.

    only: the mechanism that was asked for by name; otherwise what `auto` would take with it and without.
    """
    try:
        without, with_it = (_expected(question, cost, only) for cost in (Cost(epsilon), Cost.stated(epsilon, HINTED)))
    except SfumatoError:  # such as an epsilon so large that Gaussian noise has no use
        return None
    if without is None or with_it is None:
        return None
    before, (after, name) = without[0], with_it
    if after > NO_GAIN * before:
        return f"A delta would buy nothing here: at 1e-9 the error would be {as_rows(after)} rows a query ({name})."
    return (
        f"A delta would buy {before / after:.2g} times less error: with --delta 1e-9 {as_rows(after)} rows a query "
        f"({name}, Gaussian noise) instead of {as_rows(before)}."
    )


def _expected(question: Question, cost: Cost, only: Mechanism | None) -> tuple[float, str] | None:
    if only is None:
        choice = choose_mechanism(question.schema, cost.budget, question.workload, question.trials)
        return (choice.expected, choice.name) if isfinite(choice.expected) else None
    if not only.gaussian:
        return None
    if only.adaptive:
        error: float | None = outlook(only, replace(question, items=()), cost.budget).overall
    else:
        error = expected_error(only, question, cost.budget)
    return (error, only.name) if error is not None and isfinite(error) else None
