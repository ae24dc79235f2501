"""What a budget buys, before anything is read or spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations
from math import inf, isfinite

from sfumato.domain import Axis, ValueSet
from sfumato.errors import BudgetError, QueryError
from sfumato.kernel.budget import Amount as Number
from sfumato.kernel.budget import Budget, as_epsilon
from sfumato.mechanisms import find_mechanism
from sfumato.planner.standin import stand_in
from sfumato.planner.usefulness import epsilon_for, every_query_error, paper_error
from sfumato.queries.regions import Region
from sfumato.releases.answer import answer_select
from sfumato.releases.cube import Cube
from sfumato.releases.estimate import Estimate
from sfumato.schema import Schema
from sfumato.sql import Amount, Column, Select

MOST_CELLS_AT_ONCE = 10**7  # for which the bound on all queries at once is worked out
MOST_PAIRS = 6


@dataclass(frozen=True)
class Line:
    """One query of a plan.

    stderr, within: expected standard error, and how far the answer is off at most, with the plan's confidence, both in
    `unit`s; the worst of the query's groups. guess: whether it depends on the data, so that an even spread was assumed.
    """

    query: str
    stderr: float
    within: float
    unit: str
    guess: bool
    epsilon: Fraction | None = None


@dataclass(frozen=True)
class Plan:
    """Expected error of one mechanism at one epsilon; or, for a wanted error, the smallest epsilon per query.

    every_query, paper: how far any union of cells is off at most, all at once: from the exact noise, and by
    theorem 5.2 of TR-2010-003. None for sparse releases and very large domains.
    """

    mechanism: str
    epsilon: Fraction | None
    error: float | None
    confidence: float
    cells: int
    lines: tuple[Line, ...]
    threshold: int | None = None
    every_query: float | None = None
    paper: float | None = None


def make_plan(
    schema: Schema,
    *,
    epsilon: Number | None = None,
    error: float | None = None,
    confidence: float = 0.95,
    mechanism: str = "auto",
    workload: Sequence[tuple[str, Select]] | None = None,
) -> Plan:
    """Expected error per query at `epsilon`, or the smallest epsilon that keeps each query within `error`.

    Reads no data and spends nothing.
    """
    if error is not None and not (isfinite(error) and error > 0):
        raise QueryError(f"--error is how many rows an answer may be off; it must be above 0, not {error}")
    if not 0 < confidence < 1:
        raise QueryError(f"--confidence lies between 0 and 1, such as 0.95, not {confidence}")
    if epsilon is None and error is None:
        raise BudgetError("a plan needs --epsilon, or --error to find the smallest epsilon for it")
    name = find_mechanism(mechanism).name
    asked = list(workload) if workload is not None else default_workload(schema, counts_only=error is not None)
    spent = None if epsilon is None else as_epsilon(epsilon)
    size, unit = schema.domain.size, schema.privacy_unit.contributions
    if error is not None:
        lines = tuple(_smallest(schema, name, query, select, error, confidence) for query, select in asked)
        return Plan(name, spent, error, confidence, size, lines)
    assert spent is not None  # noqa: S101 (one of the two was given)
    cube = stand_in(schema, Budget.pure(spent), name)
    lines = tuple(_price(cube, query, select, confidence) for query, select in asked)
    plan = Plan(name, spent, None, confidence, size, lines, cube.threshold)
    if cube.sparse or size > MOST_CELLS_AT_ONCE:
        return plan
    share = spent / (1 + len(schema.measures)) / unit
    return Plan(
        name,
        spent,
        None,
        confidence,
        size,
        lines,
        None,
        every_query_error(size, share, confidence),
        paper_error(size, share, confidence),
    )


def default_workload(schema: Schema, *, counts_only: bool = False) -> list[tuple[str, Select]]:
    """Queries everybody asks: the total, one and two attributes, one cell, sums and averages of the measures."""
    axes, dataset = list(schema.domain), schema.dataset
    asked = [(f"COUNT(*) FROM {dataset}", _count(()))]
    asked += [(f"COUNT(*) ... GROUP BY {axis.name}", _count((axis,))) for axis in axes if len(axes) > 1]
    if len(axes) > 2:
        pairs = list(combinations(axes, 2))[:MOST_PAIRS]
        asked += [(f"COUNT(*) ... GROUP BY {a.name}, {b.name}", _count((a, b))) for a, b in pairs]
    asked.append(("COUNT(*) of one cell", _count(tuple(axes))))
    for name in () if counts_only else schema.measures:
        everyone = Amount(Region.everything(), name)
        asked.append((f"SUM({name}) FROM {dataset}", _select(Column("sum", (everyone,), kind="sum"))))
        if schema.expected_rows:
            rows = (Amount(Region.everything(), None),)
            bounds = (float(schema.measures[name].lower), float(schema.measures[name].upper))
            mean = Column("avg", (everyone,), rows, bounds=bounds, kind="average")
            asked.append((f"AVG({name}) FROM {dataset}", _select(mean)))
    return asked


def _count(axes: tuple[Axis, ...]) -> Select:
    """The count of one group of a GROUP BY; they are all alike, so the first stands for all."""
    region = Region.everything()
    for axis in axes:
        edges = axis.edges
        first = ValueSet.above(float(edges[0]), inclusive=True)
        if axis.size > 1:
            first &= ValueSet.below(float(edges[1]), inclusive=False)
        region &= Region.where(axis.name, first)
    return _select(Column("count", (Amount(region, None),)))


def _select(column: Column) -> Select:
    return Select((column,), (), Region.everything())


def _price(cube: Cube, query: str, select: Select, confidence: float) -> Line:
    result = answer_select(select, cube, confidence)
    numbers = [cell for row in result.rows for cell in row if isinstance(cell, Estimate)]
    if not numbers:
        raise QueryError(f"this query has no number in it, so there is no error to plan: {query}")
    within = max(max(number.high - number.value, number.value - number.low) for number in numbers)
    guess = any(column.denominator is not None for column in select.aggregates) or not select.exact or cube.sparse
    units = {_unit(column) for column in select.aggregates}
    unit = units.pop() if len(units) == 1 else "mixed"
    return Line(query, max(number.stderr for number in numbers), within, unit, guess)


def _unit(column: Column) -> str:
    """What an aggregate is counted in."""
    if column.kind == "count":
        return "rows"
    of = {amount.of for amount in column.numerator if amount.of is not None}
    return of.pop() if column.kind in ("sum", "average") and len(of) == 1 else column.kind


def _smallest(schema: Schema, mechanism: str, query: str, select: Select, error: float, confidence: float) -> Line:
    def within(epsilon: Fraction) -> float:
        found = _price(stand_in(schema, Budget.pure(epsilon), mechanism), query, select, confidence).within
        return found if isfinite(found) else inf

    epsilon = epsilon_for(within, error)
    line = _price(stand_in(schema, Budget.pure(epsilon), mechanism), query, select, confidence)
    return replace(line, epsilon=epsilon)
