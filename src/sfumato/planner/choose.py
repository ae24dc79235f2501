"""Which mechanism to use, without looking at the data.

A mechanism whose error does not depend on the data is known exactly; where that error is next to the least that noise
allows, nothing else is asked. `sfumato` gains from how the data lies and is tried on public shapes, if the schema says
how many rows to expect: what it gains hangs on that number. Where it cannot be tried it is taken, for on a full table
it is about as good as a tree and on most others better, unless something is known to be much better on full tables.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from math import inf, isfinite, sqrt

from sfumato.errors import SfumatoError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.limits import MOST_DENSE
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.planner.blocks import expected_blocks
from sfumato.planner.forecast import QUERY_BY_QUERY, TRIED, Outlook, Question, outlook, strategy_of, takes_long, why_not
from sfumato.planner.simulate import MOST_SIMULATED, root_mean_square
from sfumato.queries import Workload
from sfumato.queries.workload import default_workload
from sfumato.schema import Schema

MOST_TRIED = MOST_SIMULATED  # cells up to which mechanisms are tried for a choice; beyond, a rule decides
ALIKE = 1.01  # times the least error is as good, and then the plainer mechanism is preferred
WORTH_IT = 0.95  # times the error of what is taken: with less, what was left aside is worth a hint
NEXT_TO_BEST = 2  # times the noise on one query that spends everything: little is left to gain for anyone
MUCH_BETTER = 0.5  # of sfumato's error on a full table; it gains as much and more where a table is not full
THIN = 0.2  # rows times epsilon per cell, below which a table is so empty that sfumato was never behind

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
    if not budget.is_pure:
        fitting = [one for one in fitting if one.gaussian] or [MECHANISMS["cells"]]
    known = [found for one in fitting if (found := _known(one, question, budget)) is not None]
    tried = [outlook(one, question, budget) for one in fitting if one.name in TRIED and _may_try(schema)]
    return choose_among([*known, *tried], schema, budget, asked)


def choose_among(outlooks: list[Outlook], schema: Schema, budget: Budget, workload: Workload) -> Choice:
    """The best of what was priced, and a hint at what it left aside."""
    choice = _best(outlooks, schema, budget, workload)
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


def _best(outlooks: list[Outlook], schema: Schema, budget: Budget, workload: Workload) -> Choice:
    exact = [found for found in outlooks if found.how == "exact" and isfinite(found.overall)]
    # A release is asked other things too, so what leaves them unknown is taken by name only.
    exact = [found for found in exact if found.mechanism not in QUERY_BY_QUERY]
    least = min(found.overall for found in exact)
    best = next(found for found in exact if found.overall <= ALIKE * least)  # of those alike the plainest comes first
    known = sorted((found for found in exact if found is not best), key=lambda found: found.overall)
    tried = sorted((o for o in outlooks if o.how == "simulated" and o.mechanism in TRIED), key=lambda o: o.overall)
    tried = tried if _may_try(schema) else []  # so that a plan, which tries more, names what `auto` takes
    others = ", ".join(f"{found.mechanism} {_rows(found.overall)}" for found in known[:2])
    rest = f"; next {others}" if others else ""
    plain = f"least expected error of those that do not depend on the data: {_rows(best.overall)} rows a query{rest}"
    if best.overall <= NEXT_TO_BEST * _one_look(schema, budget):
        known_best = f"Whether the table is empty or even in places, from which little could be gained here. {PRIVATE}"
        return Choice(best.mechanism, f"{plain}, next to the noise on a single query", known_best)
    if not tried:
        return _untried(best, plain, schema, budget, workload)
    if tried[0].overall <= best.overall:
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


def _may_try(schema: Schema) -> bool:
    return schema.expected_rows is not None and schema.domain.size <= MOST_TRIED


def _untried(best: Outlook, plain: str, schema: Schema, budget: Budget, workload: Workload) -> Choice:
    """The default, unless something is known to be much better on a full table; docs/planning.md has the trials."""
    mine = MECHANISMS.get("sfumato")
    unknown = f"Whether the table is empty or even in places, from which sfumato would gain. {PRIVATE}"
    if schema.expected_rows is None:
        unknown = (
            f"How many rows there are: state expected_rows, and mechanisms are tried on tables like that. {PRIVATE}"
        )
    if mine is None or mine.error_if_full is None or why_not(mine, schema, workload) is not None:
        return Choice(best.mechanism, plain, unknown)
    if (rows := fullness(schema, budget)) < THIN:
        why = f"rows times epsilon per cell is {rows:.2g}, below {THIN}: so few rows leave most of the table empty, "
        why += f"which sfumato gains from; {best.mechanism} has {_rows(best.overall)} rows a query whatever the data"
        return Choice("sfumato", why, f"Where the rows lie; so many cells were not tried. {PRIVATE}")
    full = mine.error_if_full(schema, workload, budget)
    if best.overall < MUCH_BETTER * full:
        return Choice(best.mechanism, f"{plain}; sfumato has about {_rows(full)} on a full table", unknown)
    why = (
        f"about {_rows(full)} rows a query on a table that is full everywhere, and on most others less, where "
        f"{best.mechanism} has {_rows(best.overall)} whatever the data"
    )
    return Choice("sfumato", why, unknown)


def fullness(schema: Schema, budget: Budget) -> float:
    """Rows per cell over the size of the noise, how far single cells stand out: rows times epsilon per cell."""
    if schema.expected_rows is None:
        return inf
    return schema.expected_rows / schema.domain.size * sqrt(2.0) / max(_one_look(schema, budget), 1e-9)


def _one_look(schema: Schema, budget: Budget) -> float:
    """The standard error of one query that spends all that the count may."""
    share = budget.evenly(1 + len(schema.measures))[0]
    contributions = schema.privacy_unit.contributions
    return sqrt(noise_for(share, contributions, l1=Fraction(1), l2_squared=Fraction(1)).variance)


def _rows(error: float) -> str:
    return f"{error:,.3g}" if error < 1000 else f"{error:,.0f}"
