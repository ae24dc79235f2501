"""A plan for a table of many attributes: errors by kind of question, as the mechanism foretells them."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, inf, nan
from statistics import NormalDist

from sfumato.errors import QueryError, SfumatoError
from sfumato.kernel.budget import Budget
from sfumato.kernel.cost import Cost
from sfumato.models.base.mechanism import Mechanism
from sfumato.plain_text import as_rows
from sfumato.planner.choose import choose_for
from sfumato.planner.delta import HINTED
from sfumato.planner.forecast import Outlook
from sfumato.planner.price import Line
from sfumato.planner.report import Plan
from sfumato.schema import Schema

ASKED = {
    "all rows": "COUNT(*) FROM {}",
    "one attribute": "COUNT(*) ... GROUP BY one attribute",
    "two attributes": "COUNT(*) ... GROUP BY two attributes",
    "three attributes": "COUNT(*) ... GROUP BY three attributes",
}
LEAST, MOST = 2.0**-20, 2.0**14  # epsilons among which the smallest is looked for
HALVINGS = 30


def plan_margins(
    mechanism: Mechanism,
    schema: Schema,
    spent: Fraction | None,
    error: float | None,
    confidence: float,
    *,
    chosen: bool,
    delta: Fraction,
) -> Plan:
    """At an epsilon the errors to expect; for an error, the smallest epsilon of which it is to be expected."""
    if error is not None:
        spent = _least_epsilon(mechanism, schema, error, confidence, delta)
    assert spent is not None  # noqa: S101 (one of the two was given)
    choice, cost = choose_for(schema, Cost(spent, delta)) if chosen else (None, Cost(spent, delta))
    lines = foretold_lines(mechanism, schema, cost.budget, confidence)
    if error is not None:
        lines = tuple(Line(one.query, one.stderr, one.within, one.unit, one.guess, spent) for one in lines)
    note = "about, as if all pairs of attributes got even shares; it spends more where attributes depend on each other"
    found = Outlook(
        mechanism.name, "simulated", lines, inf, inf, inf, note, None if error is None else spent, about=True
    )
    facts = (schema.dataset, mechanism.name, None if error is not None else spent, error, confidence)
    remarks = (hint,) if not delta and (hint := _delta(mechanism, schema, spent)) is not None else ()
    plan = Plan(*facts, schema.domain.size, schema.expected_rows, choice, (found,), remarks)
    return replace(plan, delta=cost.delta)


def foretold_lines(mechanism: Mechanism, schema: Schema, budget: Budget, confidence: float) -> tuple[Line, ...]:
    """The errors to expect by kind of question, of a mechanism that foretells them; none of any other."""
    wide = NormalDist().inv_cdf((1 + confidence) / 2)
    kinds = _by_kind(mechanism, schema, budget).items()
    return tuple(Line(ASKED[kind].format(schema.dataset), error, wide * error, "rows", True) for kind, error in kinds)


def _by_kind(mechanism: Mechanism, schema: Schema, budget: Budget) -> dict[str, float]:
    if mechanism.forecast.foretold is None:
        return {}
    return dict(mechanism.forecast.foretold(schema, budget).by_kind)


def _least_epsilon(mechanism: Mechanism, schema: Schema, error: float, confidence: float, delta: Fraction) -> Fraction:
    def worst(epsilon: float) -> float:
        lines = foretold_lines(mechanism, schema, Cost(Fraction(epsilon), delta).budget, confidence)
        return max((line.within for line in lines), default=nan)

    low, high = LEAST, MOST
    if not worst(high) <= error:
        raise QueryError(f"{mechanism.name} keeps not all of these within {error:g} rows; allow a larger error")
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (low, middle) if worst(middle) <= error else (middle, high)
    return Fraction(ceil(high * 1000), 1000) if high > 0.01 else Fraction(high)


def _delta(mechanism: Mechanism, schema: Schema, epsilon: Fraction) -> str | None:
    """What a delta would buy, in a sentence."""
    try:
        gaussian = Cost.stated(epsilon, HINTED).budget
        before, after = (_by_kind(mechanism, schema, each) for each in (Budget.pure(epsilon), gaussian))
    except SfumatoError:
        return None
    kind = "two attributes" if "two attributes" in before else "one attribute"
    less = [f"{as_rows(after[each])} rows instead of {as_rows(before[each])}" for each in (kind, "all rows")]
    return f"With --delta 1e-9 (Gaussian noise) counts of {kind} would be off by about {less[0]}, of all by {less[1]}."
