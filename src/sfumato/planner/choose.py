"""Choose a mechanism without reading data: forecast the error of those that fit, and apply the rules (rules.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import inf

from sfumato.arrays import MOST_DENSE
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, Cost
from sfumato.models import MECHANISMS, considered
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.forecast import Outlook, Question, Tried, expected_error, outlook, takes_long
from sfumato.planner.rules import MANY_CELLS, PRIVATE, Case, first_rule
from sfumato.queries import Workload
from sfumato.queries.workload import default_workload
from sfumato.schema import Schema

HOPE = 0.85  # of the least error otherwise: the least that a search over one or two attributes ever found
WORTH_IT = 0.95  # times the error of what is taken: with less, what was left aside is worth a hint

ONLY_THE_WORKLOAD = (
    "With it, what does not follow from the queries of the workload has no answer in the release, "
    "so it is taken by name only."
)


@dataclass(frozen=True)
class Choice:
    """Recommended mechanism, the reason, and what cannot be known without the data.

    expected: the error that the choice rests on, in rows a query as the workload weighs them; inf where none is known.
    """

    name: str
    why: str
    unknown: str
    expected: float = inf


def choose_for(
    schema: Schema, cost: Cost, workload: Workload | None = None, tried: Tried | None = None
) -> tuple[Choice, Cost]:
    """Mechanism of least expected error and its cost: a delta only where Gaussian noise has less error."""
    plain = choose_mechanism(schema, cost.without_delta.budget, workload, tried)
    if not cost.pure:
        allowed = choose_mechanism(schema, cost.budget, workload, tried)
        if MECHANISMS[allowed.name].gaussian and allowed.expected < plain.expected:
            return allowed, cost
    return plain, cost.without_delta


def choose_mechanism(
    schema: Schema, budget: Budget, workload: Workload | None = None, tried: Tried | None = None
) -> Choice:
    """Mechanism of least expected error; reads no data and spends nothing.

    tried: simulations of this schema and workload made so far, extended in place.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> choose_mechanism(schema, Budget.pure(1)).name in MECHANISMS
    True
    """
    if tried is not None:
        return _chosen(schema, budget, workload, tried)
    return _remembered(json.dumps(schema.to_dict()), budget, workload)


@lru_cache(maxsize=64)
def _remembered(written: str, budget: Budget, workload: Workload | None) -> Choice:
    """Choice for a schema given as JSON text, cached."""
    return _chosen(Schema.from_dict(json.loads(written)), budget, workload, {})


def _chosen(schema: Schema, budget: Budget, workload: Workload | None, tried: Tried) -> Choice:
    """Choice from forecasts of all mechanisms that fit schema, workload and budget."""
    if schema.domain.size > MOST_DENSE:
        return choose_among([], schema, budget, workload)
    queries = workload or default_workload(schema.domain)
    question = Question(schema, (), queries, trials=tried)
    fitting = [one for one in considered() if _may_take(one, schema, queries)]
    if not budget.is_pure:
        fitting = [one for one in fitting if one.gaussian] or fitting[:1]
    plain = [one for one in fitting if not one.forecast.optimised]
    outlooks = [found for one in plain if (found := _known(one, question, budget)) is not None]
    if schema.expected_rows is not None or schema.domain.size <= MANY_CELLS:
        outlooks += [outlook(one, question, budget) for one in plain if one.adaptive]
    searched = [one for one in fitting if one.forecast.optimised]
    if searched and _could_win(outlooks, schema, budget, queries):
        outlooks += [found for one in searched if (found := _known(one, question, budget)) is not None]
    return choose_among(outlooks, schema, budget, queries)


def _may_take(mechanism: Mechanism, schema: Schema, workload: Workload) -> bool:
    """Whether `auto` may take a mechanism: it answers everything, fits, and its error can be forecast."""
    wanted = mechanism.forecast.for_auto and mechanism.answers == "everything"
    return (
        wanted
        and (mechanism.forecast.strategy is not None or mechanism.adaptive)
        and not mechanism.why_not(schema, workload)
    )


def _could_win(outlooks: list[Outlook], schema: Schema, budget: Budget, workload: Workload) -> bool:
    """Whether an optimised strategy could win if it were as much better (HOPE) as any has ever been."""
    if len(schema.domain.shape) > 2:
        return True
    hoped = [replace(found, overall=HOPE * found.overall) if found.how == "exact" else found for found in outlooks]
    taken = first_rule(Case(hoped, schema, budget, workload))[1]
    return not MECHANISMS[taken].adaptive


def choose_among(outlooks: list[Outlook], schema: Schema, budget: Budget, workload: Workload | None) -> Choice:
    """Apply the rules to the forecasts."""
    case = Case(outlooks, schema, budget, workload)
    rule, name = first_rule(case)
    expected = next((found.overall for found in outlooks if found.mechanism == name), inf)
    if case.by_margins is not None and name == case.by_margins.name:
        expected = case.of_margins
    return Choice(name, rule.why(case), f"{rule.unknown(case)} {PRIVATE}", expected)


def with_hints(choice: Choice, outlooks: Sequence[Outlook]) -> Choice:
    """Add hints on mechanisms with less error that `auto` does not take."""
    unknown = choice.unknown
    asked = next((found.named for found in outlooks if found.mechanism == choice.name), choice.expected)
    bound = [found for found in outlooks if MECHANISMS[found.mechanism].answers == "its workload"]
    if bound and (least := min(bound, key=lambda found: found.named)).named < WORTH_IT * asked:
        unknown += f" {least.mechanism} would have {as_rows(least.named)} rows on these queries. {ONLY_THE_WORKLOAD}"
    better = [(found, MECHANISMS[found.mechanism]) for found in outlooks if found.overall < WORTH_IT * choice.expected]
    if aside := [found for found, mechanism in better if found.how == "simulated" and not mechanism.adaptive]:
        listed = ", ".join(f"{found.mechanism} ({as_rows(found.overall)} rows)" for found in aside)
        unknown += f" On the public shapes {listed} did better; ask by name if your table is like them."
    return replace(choice, unknown=unknown)


def _known(mechanism: Mechanism, question: Question, budget: Budget) -> Outlook | None:
    """Exact error of a mechanism, where it does not depend on the data and is quickly computed; None otherwise."""
    if takes_long(mechanism, question) is not None:
        return None
    try:
        overall = expected_error(mechanism, question, budget)
    except SfumatoError:  # one that cannot be priced here cannot be recommended either
        return None
    return None if overall is None else Outlook(mechanism.name, "exact", (), overall, overall, overall)
