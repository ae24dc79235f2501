"""Plans of mechanisms that are not priced cell by cell: of one purpose, over marginals, and of sparse cells.

One with a purpose of its own states its guarantees. One over marginals of many attributes forecasts its errors by
formula. A domain that is never laid out is priced by a stand-in for its few published cells.

Tilt a release towards the statements that a user names, and warn of kinds of question that become useless.

A strategy made for one statement alone leaves all other questions without an answer worth having: a table by postcode
at the least error has nothing to say on age. So a workload of statements is a tilt. What is optimised is

    NAMED * (error of the statements / s)^2  +  (1 - NAMED) * (error of the default workload / u)^2

where s and u are the errors that `hierarchical` has if it serves either alone (pure epsilon, continuous noise), so that
neither part wins by the mere size of its errors. Mechanisms that measure a workload itself take the statements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf, isfinite, nan, prod, sqrt
from statistics import NormalDist

from sfumato.arrays import MOST_DENSE
from sfumato.domain import LARGEST_NUMBER, Domain
from sfumato.errors import QueryError, SfumatoError
from sfumato.kernel.budget import Budget, Cost
from sfumato.least_squares.expected_error import expected_errors
from sfumato.models import considered, sparse_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.cells.cells import planned_threshold
from sfumato.plain_text import as_rows
from sfumato.planner.choose import choose_for, choose_mechanism
from sfumato.planner.forecast import Outlook, formula_lines
from sfumato.planner.marginal_errors import PRICED, WORDS, Squares, sparse_stand_in, squares_by_kind, table
from sfumato.planner.questions import Item, Line, Statements, example_items, price, sparse_items, statement_items
from sfumato.planner.report import Doubled, Plan
from sfumato.planner.usefulness import epsilon_for
from sfumato.queries import Identity, Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.queries.workload import some_sets, tilted
from sfumato.releases.contents.content import Content
from sfumato.schema import Schema

HINTED = Fraction(1, 10**9)  # small beside one over the rows of any table


def with_a_delta(epsilon: Fraction) -> Cost:
    """Same epsilon with delta 1e-9, for the remark on what a delta would gain."""
    return Cost.stated(epsilon, HINTED)


def plan_special(
    mechanism: Mechanism, schema: Schema, spent: Fraction | None, confidence: float, statements: Statements | None
) -> Plan:
    """Plan for a mechanism with a purpose of its own: its guarantees without any data."""
    name = mechanism.name
    if spent is None:
        raise QueryError(f"--error is for mechanisms that answer any count; of {name} a plan says what --epsilon buys")
    workload = None if statements is None else statement_items(statements, schema)[1]
    mechanism.check(schema, workload)
    assert mechanism.forecast.promises is not None  # noqa: S101 (each has them: tests/models/base/test_mechanism_special.py)
    promised = mechanism.forecast.promises(schema, Budget.pure(spent), confidence, workload)
    outlook = Outlook(name, "promised", promises=promised.figures)
    facts = (schema.dataset, name, spent, None, confidence, schema.domain.size, schema.expected_rows)
    return Plan(*facts, None, (outlook,), promised.words)


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
    """Plan for a mechanism over marginals: expected errors at an epsilon, or the smallest epsilon for an error."""
    if error is not None:
        spent = _least_epsilon(mechanism, schema, error, confidence, delta)
    assert spent is not None  # noqa: S101 (one of the two was given)
    choice, cost = choose_for(schema, Cost(spent, delta)) if chosen else (None, Cost(spent, delta))
    lines = foretold_lines(mechanism, schema, cost.budget, confidence)
    examples = _margin_examples(mechanism, schema, cost.budget, confidence) or lines
    if error is not None:
        lines = tuple(Line(one.query, one.stderr, one.within, one.unit, one.guess, spent) for one in lines)
    note = "about, as if all pairs of attributes got even shares; it spends more where attributes depend on each other"
    once, twice = (_overall(mechanism, schema, Cost(each, cost.delta).budget) for each in (spent, 2 * spent))
    least = None if error is None else spent
    forecast = Outlook(mechanism.name, "foretold", lines, once, once, once, note, least, about=True)
    facts = (schema.dataset, mechanism.name, None if error is not None else spent, error, confidence)
    remarks = (hint,) if not delta and (hint := _delta(mechanism, schema, spent)) is not None else ()
    plan = Plan(*facts, schema.domain.size, schema.expected_rows, choice, (forecast,), remarks)
    doubled, exact = Doubled(once, twice), schema.exact_counts
    return replace(plan, delta=cost.delta, examples=examples, doubled=doubled, exact=exact)


def _overall(mechanism: Mechanism, schema: Schema, budget: Budget) -> float:
    """Forecast error of a mechanism over marginals: geometric mean over kinds of query."""
    assert mechanism.forecast.foretold is not None  # noqa: S101 (it is one)
    return mechanism.forecast.foretold(schema, budget, None).overall(None)


def _margin_examples(mechanism: Mechanism, schema: Schema, budget: Budget, confidence: float) -> tuple[Line, ...]:
    """Expected errors of example questions; none where cells are too many to number for queries."""
    if schema.domain.size > LARGEST_NUMBER or mechanism.forecast.foretold is None:
        return ()
    items = example_items(schema)
    return formula_lines(mechanism.forecast.foretold(schema, budget, None), items, schema, confidence)


def foretold_lines(mechanism: Mechanism, schema: Schema, budget: Budget, confidence: float) -> tuple[Line, ...]:
    """Expected errors by number of attributes, for a mechanism with such a forecast; empty for any other."""
    wide = NormalDist().inv_cdf((1 + confidence) / 2)
    kinds = _by_kind(mechanism, schema, budget).items()
    return tuple(Line(ASKED[kind].format(schema.dataset), error, wide * error, "rows", True) for kind, error in kinds)


def _by_kind(mechanism: Mechanism, schema: Schema, budget: Budget) -> dict[str, float]:
    """Forecast of standard errors by number of attributes."""
    if mechanism.forecast.foretold is None:
        return {}
    return dict(mechanism.forecast.foretold(schema, budget, None).by_kind)


def _least_epsilon(mechanism: Mechanism, schema: Schema, error: float, confidence: float, delta: Fraction) -> Fraction:
    """Smallest epsilon whose forecast keeps within the error, by bisection on a logarithmic scale."""

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
    """Sentence on the errors with a delta of 1e-9, for a mechanism over marginals."""
    try:
        gaussian = with_a_delta(epsilon).budget
        before, after = (_by_kind(mechanism, schema, each) for each in (Budget.pure(epsilon), gaussian))
    except SfumatoError:
        return None
    kind = "two attributes" if "two attributes" in before else "one attribute"
    less = [f"{as_rows(after[each])} rows instead of {as_rows(before[each])}" for each in (kind, "all rows")]
    return f"With --delta 1e-9 (Gaussian noise) counts of {kind} would be off by about {less[0]}, of all by {less[1]}."


def plan_sparse(
    schema: Schema,
    spent: Fraction | None,
    error: float | None,
    confidence: float,
    statements: Statements | None,
    *,
    chosen: bool,
) -> Plan:
    """Plan for a domain whose cells are too many for memory: the mechanism sparse-cells, priced by its stand-in."""
    name = sparse_mechanism().name
    items = (
        sparse_items(schema)
        if statements is None
        else [Item(query, "rows", None, select, True) for query, select in statements]
    )

    def line(item: Item, epsilon: Fraction) -> Line:
        return price(item, sparse_stand_in(schema, Budget.pure(epsilon)), confidence)

    if error is not None:
        counts = [item for item in items if item.unit == "rows"]
        least = [epsilon_for(lambda epsilon, item=item: line(item, epsilon).within, error) for item in counts]  # type: ignore[misc]
        pairs = zip(counts, least, strict=True)
        lines = tuple(replace(line(item, epsilon), epsilon=epsilon) for item, epsilon in pairs)
        forecast = Outlook(name, "exact", lines, epsilon=max(least))
    else:
        assert spent is not None  # noqa: S101 (one of the two was given)
        forecast = Outlook(name, "exact", tuple(line(item, spent) for item in items))
    threshold = planned_threshold(schema, Budget.pure(spent)) if spent is not None else None
    choice = choose_mechanism(schema, Budget.pure(spent or 1)) if chosen else None
    facts = (schema.dataset, name, spent, error, confidence, schema.domain.size, schema.expected_rows)
    doubled = None
    if spent is not None:
        at_twice = [line(item, 2 * spent).stderr for item in items[:1]]
        doubled = Doubled(forecast.lines[0].stderr, at_twice[0], items[0].query)
    return replace(Plan(*facts, choice, (forecast,), (), threshold), doubled=doubled, stated=statements is not None)


# -- tilt


def tilt_towards(named: Workload, domain: Domain) -> Workload:
    """Workload with most weight on the named queries, and the rest on the default workload.

    Domains of more than MOST_DENSE cells have no default workload: the named queries alone.
    """
    if domain.size > MOST_DENSE:
        return replace(named, named=len(named.blocks))
    usual = default_workload(domain)
    return tilted(named, usual, (_scale(named, domain), _scale(usual, domain)))


def _scale(workload: Workload, domain: Domain) -> float:
    """Error on a workload if the whole budget serves it: by a tree, or by noisy cells where a tree is not priced."""
    from sfumato.models.linear.strategies.hierarchies import tree_strategy

    try:
        error = workload.overall(expected_errors(tree_strategy(domain, workload, True), workload, True))
        if isfinite(error):
            return error
    except SfumatoError:  # such as a statement that cannot be priced by a tree
        pass
    return workload.overall(expected_errors(Strategy(Identity(domain.size)), workload, True))


def squares_by_trial(schema: Schema, errors: Callable[[list[Item]], Sequence[float]]) -> Squares:
    """Mean squared errors of the tables that warnings look at, from a forecast of items of a plan."""
    sets = [
        axes for kind in range(min(len(schema.domain.axes), 3) + 1) for axes in some_sets(schema.domain, kind, PRICED)
    ]
    items = [Item(", ".join(axis.name for axis in axes), "rows", table(schema, axes)) for axes in sets]
    squares: Squares = {len(axes): {} for axes in sets}
    for axes, error in zip(sets, errors(items), strict=True):
        squares[len(axes)][axes] = error**2
    return squares


def useless_kinds(
    schema: Schema,
    mechanism: Mechanism,
    workload: Workload | None,
    budget: Budget,
    content: Content | None = None,
    squares: Squares | None = None,
) -> tuple[str, ...]:
    """Warnings on kinds of question that a workload makes useless.

    A table is useless if its error exceeds the rows of its average group; one that would be so without the workload is
    not warned of. Of a mechanism whose error depends on the data, `hierarchical` tells what would be without it.
    squares: mean squared errors with the workload, where these are known already.
    """
    from sfumato.planner.simulate import ROWS_PER_CELL

    domain = schema.domain
    rows = schema.expected_rows or round(ROWS_PER_CELL * schema.usual_weight * domain.size)
    if workload is None or domain.size > MOST_DENSE or workload is default_workload(domain):
        return ()
    if squares is None:
        squares = squares_by_kind(schema, mechanism, workload, budget, content)
    if not squares:
        return ()
    priced = mechanism if mechanism.forecast.strategy is not None else _plain_tree()
    usual = squares_by_kind(schema, priced, default_workload(domain), budget)
    warnings = []
    for kind in range(1, len(squares)):
        groups = {axes: rows / prod(axis.size for axis in axes) for axes in squares[kind]}
        lost = {
            axes: sqrt(square) / groups[axes]
            for axes, square in squares[kind].items()
            if sqrt(square) > groups[axes] >= sqrt(usual[kind].get(axes, inf))
        }
        if lost:
            worst, looked_at = max(lost, key=lambda axes: lost[axes]), len(squares[kind])
            many = f"{len(lost)} of {looked_at} tables" if looked_at > 1 else "the table"
            warnings.append(
                f"Warning: with this workload {many} by {WORDS[kind]} would be useless: counts by "
                f"{', '.join(axis.name for axis in worst)} would be off by {as_rows(sqrt(squares[kind][worst]))} rows, "
                f"where a group has {as_rows(groups[worst])} on average; without it, by "
                f"{as_rows(sqrt(usual[kind][worst]))}."
            )
    return tuple(warnings)


def _plain_tree() -> Mechanism:
    """First mechanism of `auto` with an exact error that neither publishes noisy cells nor searches for a strategy."""
    exact = (one for one in considered() if one.forecast.strategy is not None)
    return next(one for one in exact if not one.as_measured and not one.forecast.optimised)
