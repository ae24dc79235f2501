"""Which mechanism to use, without looking at the data.

A mechanism whose error does not depend on the data is known exactly. One that gains from how the data lies is tried on
public shapes, and only if the schema says how many rows to expect: what it gains hangs on that number.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf, isfinite

from sfumato.errors import SfumatoError
from sfumato.kernel.budget import Budget
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.mechanisms.cells import MOST_DENSE
from sfumato.planner.blocks import expected_blocks
from sfumato.planner.expect import QUERY_BY_QUERY, TRIED, Outlook, Question, outlook, strategy_of, takes_long, why_not
from sfumato.planner.simulate import root_mean_square
from sfumato.queries import Workload
from sfumato.queries.workload import default_workload
from sfumato.schema import Schema

MOST_TRIED = 2**11  # cells up to which mechanisms are tried for a choice; beyond, a rule decides
MOST_RULED = 2**17  # cells up to which the rule speaks for dawa, which takes minutes on more
ALIKE = 1.01  # times the least error is as good, and then the plainer mechanism is preferred
WORTH_IT = 0.95  # what depends on the data must promise this much less error than what does not
FULL = 2  # rows times epsilon per cell, from which cells are so full that a partition of them no longer pays

ONLY_THE_WORKLOAD = (
    "With it, what does not follow from the queries of the workload has no answer in the release, "
    "so it is taken by name only."
)
PRIVATE = "How the table lies is not looked at, as that would cost budget."


@dataclass(frozen=True)
class Choice:
    """The mechanism to use, why, and what cannot be known without the data."""

    name: str
    why: str
    unknown: str


def choose_mechanism(schema: Schema, budget: Budget, workload: Workload | None = None) -> Choice:
    """The mechanism of least expected error; reads no data and spends nothing.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> choose_mechanism(schema, Budget.pure(1)).name in MECHANISMS
    True
    """
    return _choose(json.dumps(schema.to_dict()), budget, workload)


@lru_cache(maxsize=64)
def _choose(written: str, budget: Budget, workload: Workload | None) -> Choice:
    schema = Schema.from_dict(json.loads(written))
    if schema.domain.size > MOST_DENSE:
        return too_large(schema)
    asked = workload or default_workload(schema.domain)
    question = Question(schema, (), asked)
    fitting = [one for one in MECHANISMS.values() if why_not(one, schema, asked) is None]
    if budget.epsilon is None:
        fitting = [one for one in fitting if one.gaussian] or [MECHANISMS["cells"]]
    known = [found for one in fitting if (found := _known(one, question, budget)) is not None]
    tried = [outlook(one, question, budget) for one in fitting if one.name in TRIED and _may_try(schema, budget)]
    return choose_among([*known, *tried], schema, budget)


def choose_among(outlooks: list[Outlook], schema: Schema, budget: Budget) -> Choice:
    """The best of what was priced, and a hint at what it left aside."""
    choice = _best(outlooks, schema, budget)
    mine = next((found.overall for found in outlooks if found.mechanism == choice.name), inf)
    aside = [
        f"{found.mechanism} ({_rows(found.overall)} rows)"
        for found in outlooks
        if found.how == "simulated" and found.mechanism not in TRIED and found.overall < WORTH_IT * mine
    ]
    bound = [found for found in outlooks if found.mechanism in QUERY_BY_QUERY and found.overall < WORTH_IT * mine]
    if bound:
        least = min(bound, key=lambda found: found.overall)
        said = f"{least.mechanism} would have {_rows(least.overall)} rows on these queries. {ONLY_THE_WORKLOAD}"
        choice = replace(choice, unknown=f"{choice.unknown} {said}")
    if not aside:
        return choice
    hint = f"On the public shapes {', '.join(aside)} did better; ask by name if your table is like them."
    return replace(choice, unknown=f"{choice.unknown} {hint}")


def _best(outlooks: list[Outlook], schema: Schema, budget: Budget) -> Choice:
    exact = [found for found in outlooks if found.how == "exact" and isfinite(found.overall)]
    # A release is asked other things too, so what leaves them unknown is taken by name only.
    exact = [found for found in exact if found.mechanism not in QUERY_BY_QUERY]
    least = min(found.overall for found in exact)
    best = next(found for found in exact if found.overall <= ALIKE * least)  # of those alike the plainest comes first
    known = sorted((found for found in exact if found is not best), key=lambda found: found.overall)
    tried = sorted((o for o in outlooks if o.how == "simulated" and o.mechanism in TRIED), key=lambda o: o.overall)
    tried = tried if _may_try(schema, budget) else []  # so that a plan, which tries more, names what `auto` takes
    others = ", ".join(f"{found.mechanism} {_rows(found.overall)}" for found in known[:2])
    rest = f"; next {others}" if others else ""
    plain = f"least expected error of those that do not depend on the data: {_rows(best.overall)} rows a query{rest}"
    if schema.expected_rows is None:
        missing = (
            "How many rows there are is not known: state expected_rows, and mechanisms that gain from it are compared."
        )
        return Choice(best.mechanism, plain, f"{missing} {PRIVATE}")
    if not tried and schema.domain.size > MOST_TRIED and best.mechanism != "cells" and _by_rule(schema, budget):
        return _ruled(schema, budget, best)
    if tried and tried[0].overall < WORTH_IT * best.overall:
        found = tried[0]
        why = (
            f"{_rows(found.overall)} rows a query in the middle of the public shapes with "
            f"{schema.expected_rows:,} rows, where {best.mechanism} has {_rows(best.overall)} whatever the data"
        )
        unknown = (
            f"Its error depends on the data: from {_rows(found.best)} rows on the kindest shape to "
            f"{_rows(found.worst)} on the unkindest. {PRIVATE}"
        )
        return Choice(found.mechanism, why, unknown)
    if tried:
        plain += f"; {tried[0].mechanism} has {_rows(tried[0].overall)} in the middle of the public shapes"
    return Choice(best.mechanism, plain, f"Whether the table is kinder than the public shapes. {PRIVATE}")


def too_large(schema: Schema) -> Choice:
    """The only mechanism for a domain that does not fit in memory."""
    why = f"{schema.domain.size:,} cells are too many for memory, and sparse-cells never lays them out"
    return Choice("sparse-cells", why, f"How many cells hold enough rows to be published. {PRIVATE}")


def _known(mechanism: Mechanism, question: Question, budget: Budget) -> Outlook | None:
    """The exact error of a mechanism, if the data has no say in it and it is quickly found."""
    if takes_long(mechanism, question) is not None:
        return None
    try:
        strategy = strategy_of(mechanism, question, budget)
        if strategy is None:
            return None
        overall = root_mean_square(expected_blocks(strategy, question.schema, budget, question.workload.blocks))
    except SfumatoError:  # one that cannot be priced here cannot be recommended either
        return None
    return Outlook(mechanism.name, "exact", (), overall, overall, overall)


def _may_try(schema: Schema, budget: Budget) -> bool:
    return schema.expected_rows is not None and schema.domain.size <= MOST_TRIED and budget.epsilon is not None


def _by_rule(schema: Schema, budget: Budget) -> bool:
    """Whether rows are so few for the noise that a partition of the cells will pay; docs/planning.md has the trials."""
    if budget.epsilon is None or "dawa" not in MECHANISMS or schema.expected_rows is None:
        return False
    return schema.domain.size <= MOST_RULED and fullness(schema, budget) < FULL


def fullness(schema: Schema, budget: Budget) -> float:
    """Rows per cell over the size of the noise: how far the counts of single cells stand out."""
    assert budget.epsilon is not None and schema.expected_rows is not None  # noqa: S101 (asked for pure epsilon only)
    statistics, contributions = 1 + len(schema.measures), schema.privacy_unit.contributions
    return float(schema.expected_rows * budget.epsilon / (statistics * contributions * schema.domain.size))


def _ruled(schema: Schema, budget: Budget, best: Outlook) -> Choice:
    why = (
        f"rows times epsilon per cell is {fullness(schema, budget):.2g}, below {FULL}: so few rows leave stretches of "
        f"cells that look alike, and dawa gains from them; {best.mechanism} has {_rows(best.overall)} rows a query"
    )
    return Choice("dawa", why, f"How large the stretches are; dawa was not tried on so many cells. {PRIVATE}")


def _rows(error: float) -> str:
    return f"{error:,.3g}" if error < 1000 else f"{error:,.0f}"
