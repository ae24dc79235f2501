"""A plan for a mechanism with a purpose of its own: what it promises, for it is not priced beside others."""

from __future__ import annotations

from fractions import Fraction

from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.forecast import Outlook
from sfumato.planner.questions import Statements, statement_items
from sfumato.planner.report import Plan
from sfumato.schema import Schema


def plan_special(
    mechanism: Mechanism, schema: Schema, spent: Fraction | None, confidence: float, statements: Statements | None
) -> Plan:
    """What a mechanism would ask, and what it promises without any data."""
    name = mechanism.name
    if spent is None:
        raise QueryError(f"--error is for mechanisms that answer any count; of {name} a plan says what --epsilon buys")
    workload = None if statements is None else statement_items(statements, schema)[1]
    mechanism.check(schema, workload)
    assert mechanism.forecast.promises is not None  # noqa: S101 (each has them: tests/mechanisms/test_mechanism_special.py)
    found = mechanism.forecast.promises(schema, Budget.pure(spent), confidence, workload)
    outlook = Outlook(name, "promised", promises=found.figures)
    facts = (schema.dataset, name, spent, None, confidence, schema.domain.size, schema.expected_rows)
    return Plan(*facts, None, (outlook,), found.words)
