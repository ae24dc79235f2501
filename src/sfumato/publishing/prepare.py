"""Everything about a release that can be settled, and refused, before anything is spent: no data is needed for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from sfumato.errors import BudgetError, MechanismError, QueryError
from sfumato.kernel.budget import Amount
from sfumato.kernel.cost import Cost
from sfumato.limits import MOST_DENSE
from sfumato.mechanisms import Mechanism, find_mechanism
from sfumato.publishing.fits_in_file import check_writable
from sfumato.queries import Identity, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema


@dataclass(frozen=True, eq=False)
class Prepared:
    """What will be done."""

    schema: Schema
    mechanism: Mechanism
    cost: Cost
    workload: Workload | None
    why: str | None = None  # of a mechanism that was chosen for the curator


def prepare(
    schema: Schema,
    epsilon: Amount,
    *,
    delta: Amount | None = None,
    mechanism: str = "auto",
    workload: Workload | str | Path | None = None,
) -> Prepared:
    """Settle mechanism, cost and workload, and refuse what does not fit or could not be written afterwards."""
    cost = Cost.stated(epsilon, delta)
    asked = _workload(workload, schema)
    if mechanism != "auto":
        return _fitting(Prepared(schema, find_mechanism(mechanism), cost, asked))
    plain = _chosen(schema, Cost(cost.epsilon), asked)
    if not cost.pure:
        allowed = _chosen(schema, cost, asked)
        if allowed.mechanism.gaussian and _expected_error(allowed) < _expected_error(plain):
            with suppress(BudgetError):  # Gaussian noise does not fit the file; Laplace noise may
                return _fitting(allowed)
    return _fitting(plain)


def _workload(given: Workload | str | Path | None, schema: Schema) -> Workload | None:
    if isinstance(given, str | Path):
        from sfumato.planner.questions import read_statements
        from sfumato.sql.workload import workload_of

        given = workload_of(read_statements(given, schema), schema)
    if given is None:
        return default_workload(schema.domain) if schema.domain.size <= MOST_DENSE else None
    if given.columns != schema.domain.size:
        raise QueryError(f"the workload spans {given.columns} cells, the schema has {schema.domain.size}")
    return given


def _chosen(schema: Schema, cost: Cost, workload: Workload | None) -> Prepared:
    from sfumato.planner.choose import choose_mechanism

    choice = choose_mechanism(schema, cost.budget, workload)
    return Prepared(schema, find_mechanism(choice.name), cost, workload, choice.why)


def _expected_error(prepared: Prepared) -> float:
    """How far a query of the workload is off, in units that pure epsilon and rho-zCDP share.

    The budget is split evenly over the statistics: the error grows with their number under pure epsilon, and with its
    root under zCDP. A mechanism that adapts to the data is taken as on a full table; any other that depends on it was
    chosen for promising less than all that do not.
    """
    from sfumato.least_squares.expected_error import overall_error

    schema, workload, budget = prepared.schema, prepared.workload, prepared.cost.budget
    statistics = 1 + len(schema.measures)
    if workload is not None and prepared.mechanism.error_if_full is not None:
        return prepared.mechanism.error_if_full(schema, workload, budget) / schema.privacy_unit.contributions
    if workload is None or (prepared.mechanism.strategy is None and prepared.mechanism.name != "cells"):
        return 0.0
    strategy = (
        Strategy(Identity(schema.domain.size))
        if prepared.mechanism.strategy is None
        else prepared.mechanism.strategy(schema, workload, prepared.cost.pure)
    )
    error = overall_error(strategy, workload, prepared.cost.pure)
    if budget.is_pure:
        return error * statistics / float(budget.amount)
    return error * sqrt(statistics / (2.0 * float(budget.amount)))


def _fitting(prepared: Prepared) -> Prepared:
    schema, mechanism, workload = prepared.schema, prepared.mechanism, prepared.workload
    refused = mechanism.refuses(schema, workload)
    if refused is None and workload is None and mechanism.name not in ("cells", "sparse-cells"):
        refused = f"a number for each of {schema.domain.size:,} cells does not fit in memory; use sparse-cells"
    if refused is not None:
        raise MechanismError(
            refused if refused.startswith(mechanism.name) else f"{mechanism.name} does not fit: {refused}"
        )
    cost = prepared.cost if mechanism.gaussian else Cost(prepared.cost.epsilon)
    check_writable(schema, cost, mechanism, workload)
    return Prepared(schema, mechanism, cost, workload, prepared.why)
