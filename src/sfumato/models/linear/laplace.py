"""Laplace: equal noise on every query of the workload, calibrated to its L1 sensitivity; the classical baseline.

Dwork, McSherry, Nissim, Smith: Calibrating noise to sensitivity in private data analysis (TCC 2006). The noise grows
with the number of queries that touch one cell. Inconsistent answers are reconciled by least squares, and sums that the
queries do not determine are reported as unknown.
"""

from __future__ import annotations

from collections.abc import Mapping

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.queries import Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema

MOST_QUERIES = 2**20
FAR = 3.0  # times the error of the best make it worth a warning


def laplace_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Strategy of the workload's own queries."""
    return Strategy(workload.queries)


laplace = linear(laplace_strategy)


def laplace_refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Reason why the workload cannot be measured query by query, or None."""
    queries = (workload or default_workload(schema.domain)).queries
    if not queries.integral:
        return "the workload has weights that are not whole numbers; hierarchical and matrix take any weights"
    if queries.rows > MOST_QUERIES:
        return (
            f"the workload has {queries.rows:,} queries and {MOST_QUERIES:,} can be measured one by one; "
            "name the ones that matter with --workload, or use hierarchical"
        )
    return None


def _remark(priced: Mapping[str, float], schema: Schema, workload: Workload) -> str | None:
    """Warning for a plan where the expected error is FAR times that of the best mechanism."""
    best = min(priced, key=lambda name: priced[name])
    if priced[MECHANISM.name] <= FAR * priced[best]:
        return None
    times = priced[MECHANISM.name] / priced[best]
    return (
        f"laplace adds noise to every query of the workload, and a person counts in up to {workload.queries.l1:,} of "
        f"them; {best} asks other queries and has {times:,.0f} times less error."
    )


MECHANISM = Mechanism(
    name="laplace",
    summary="the same noise on each of the workload's queries",
    paper="Dwork et al. 2006",
    run=laplace,
    refuses=laplace_refuses,
    answers="its workload",
    forecast=Forecast(strategy=laplace_strategy, remark=_remark),
)
