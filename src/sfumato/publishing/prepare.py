"""Everything about a release that can be settled, and refused, before anything is spent: no data is needed for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import inf
from pathlib import Path

from sfumato.errors import MechanismError, QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Amount
from sfumato.kernel.cost import Cost
from sfumato.limits import MOST_DENSE
from sfumato.models import find_mechanism
from sfumato.models.base.mechanism import Mechanism
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
    expected: float = inf  # its error, that of all kinds of query as the workload weighs them, in rows


def prepare(
    schema: Schema,
    epsilon: Amount,
    *,
    delta: Amount | None = None,
    mechanism: str = "auto",
    workload: Workload | str | Path | None = None,
    even_if_useless: bool = False,
    options: Mapping[str, object] | None = None,
) -> Prepared:
    """Settle mechanism, cost and workload; refuse what does not fit, could not be written or would tell nothing.

    options: of the mechanism, by name, which must then be named too.
    """
    if options and mechanism == "auto":
        raise MechanismError("--with is about one mechanism; name it with --mechanism")
    prepared = _settled(schema, epsilon, delta, mechanism, workload, options or {})
    if not even_if_useless and not prepared.mechanism.special:
        from sfumato.publishing.usefulness import refuse_useless

        refuse_useless(schema, prepared.mechanism, prepared.workload, prepared.cost.budget)
    return prepared


def _settled(
    schema: Schema,
    epsilon: Amount,
    delta: Amount | None,
    mechanism: str,
    workload: Workload | str | Path | None,
    options: Mapping[str, object],
) -> Prepared:
    cost = Cost.stated(epsilon, delta)
    asked = _workload(workload, schema)
    if mechanism != "auto":
        return _fitting(Prepared(schema, find_mechanism(mechanism).with_options(options), cost, asked))
    from sfumato.planner.choose import choose_for

    choice, cost = choose_for(schema, cost, asked)
    return _fitting(Prepared(schema, find_mechanism(choice.name), cost, asked, choice.why, choice.expected))


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


def _fitting(prepared: Prepared) -> Prepared:
    from sfumato.publishing.fits_in_file import check_writable
    from sfumato.publishing.steps import with_steps_that_fit

    schema, mechanism, workload = prepared.schema, prepared.mechanism, prepared.workload
    mechanism.check(schema, workload)
    cost = prepared.cost if mechanism.gaussian else Cost(prepared.cost.epsilon)
    schema = with_steps_that_fit(schema, cost, mechanism, workload)
    check_writable(schema, cost, mechanism, workload)
    return replace(prepared, schema=schema, cost=cost)
