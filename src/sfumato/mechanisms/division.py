"""Division (WD): noise straight on the queries, more of it where they crowd on one cell.

Li et al., A workload division differential privacy algorithm to improve the accuracy for linear computations. What was
corrected is told in strategies/division.py: the hot cell comes from the workload, both halves are divided further, and
each part gets the noise that serves the workload best under the one rule that no cell bears more than the budget.
"""

from __future__ import annotations

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.mechanisms._measure_and_fit import measure_and_fit
from sfumato.mechanisms.laplace import laplace_refuses
from sfumato.queries import Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema
from sfumato.strategies.division import divide


def division(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Measure every query of the workload, with noise by part."""
    asked = division_strategy(schema, workload or default_workload(schema.domain), pure=budget.is_pure)
    return measure_and_fit(curator, schema, asked, budget)


def division_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """The queries themselves, in parts of different precision."""
    return divide(workload)


def division_refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Why the workload cannot be measured query by query, or None."""
    return laplace_refuses(schema, workload)
