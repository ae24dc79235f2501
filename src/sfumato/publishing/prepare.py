"""Everything about a release that can be settled, and refused, before anything is spent: no data is needed for it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from sfumato.errors import BudgetError, QueryError
from sfumato.kernel.budget import Amount
from sfumato.kernel.cost import Cost
from sfumato.limits import MOST_DENSE
from sfumato.mechanisms import find_mechanism
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.queries import Workload, default_workload
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
    """How far off the queries of the workload are, in rows, under the noise of either kind of budget.

    A mechanism that adapts to the data is taken as on a full table; any other that depends on it was chosen for
    promising less than all that do not. The blocks of the others are added up, as strategies are compared.
    """
    from sfumato.planner.forecast import Question, expected_error

    schema, workload, budget = prepared.schema, prepared.workload, prepared.cost.budget
    if workload is None:
        return 0.0
    if prepared.mechanism.error_if_full is not None:
        return prepared.mechanism.error_if_full(schema, workload, budget)
    error = expected_error(prepared.mechanism, Question(schema, (), workload), budget)
    return 0.0 if error is None else error * sqrt(len(workload.blocks))


def _fitting(prepared: Prepared) -> Prepared:
    from sfumato.publishing.fits_in_file import check_writable

    schema, mechanism, workload = prepared.schema, prepared.mechanism, prepared.workload
    mechanism.check(schema, workload)
    cost = prepared.cost if mechanism.gaussian else Cost(prepared.cost.epsilon)
    check_writable(schema, cost, mechanism, workload)
    return Prepared(schema, mechanism, cost, workload, prepared.why)
