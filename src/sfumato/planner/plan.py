"""Plan a release without reading or spending: expected error at an epsilon, or smallest epsilon for an error.

General mechanisms are priced by forecast.py. A mechanism over marginals of many attributes forecasts its errors by
number of attributes; one with a purpose of its own states its guarantees. A remark says how much less error a delta
would buy (Gaussian noise).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, inf, isfinite, nan
from os import PathLike
from pathlib import Path
from statistics import NormalDist

from sfumato.arrays import MOST_DENSE
from sfumato.errors import BudgetError, MechanismError, QueryError, SfumatoError
from sfumato.kernel.budget import Amount, Budget, Cost, as_epsilon
from sfumato.models import MECHANISMS, find_mechanism, sparse_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.cells.sparse_cells import planned_threshold
from sfumato.plain_text import as_rows
from sfumato.planner.choose import Choice, choose_for, choose_mechanism, with_hints
from sfumato.planner.forecast import Outlook, Question, expected_error, outlook
from sfumato.planner.marginal_errors import sparse_stand_in
from sfumato.planner.price import Line, price
from sfumato.planner.questions import Item, Statements, default_items, read_statements, sparse_items, statement_items
from sfumato.planner.report import Plan
from sfumato.planner.simulate import MOST_SIMULATED
from sfumato.planner.smallest_epsilon import least_epsilon
from sfumato.planner.usefulness import epsilon_for, every_query_error, paper_error
from sfumato.schema import Schema

HINTED = Fraction(1, 10**9)  # small beside one over the rows of any table
NO_GAIN = 0.95  # of the error without it: with more it is not worth a delta


def what_a_delta_buys(question: Question, epsilon: Fraction, only: Mechanism | None) -> str | None:
    """Sentence on the error with a delta of 1e-9 (Gaussian noise) compared with none; None where it is unknown.

    only: the mechanism that was asked for by name; otherwise the choice of `auto` with and without it. Reads no data.
    """
    try:
        without, with_it = (_expected(question, cost, only) for cost in (Cost(epsilon), Cost.stated(epsilon, HINTED)))
    except SfumatoError:  # such as an epsilon so large that Gaussian noise has no use
        return None
    if without is None or with_it is None:
        return None
    before, (after, name) = without[0], with_it
    if after > NO_GAIN * before:
        return f"A delta would buy nothing here: at 1e-9 the error would be {as_rows(after)} rows a query ({name})."
    return (
        f"A delta would buy {before / after:.2g} times less error: with --delta 1e-9 {as_rows(after)} rows a query "
        f"({name}, Gaussian noise) instead of {as_rows(before)}."
    )


def _expected(question: Question, cost: Cost, only: Mechanism | None) -> tuple[float, str] | None:
    """Expected error at a cost and the mechanism it belongs to; None where it cannot be forecast."""
    if only is None:
        choice = choose_mechanism(question.schema, cost.budget, question.workload, question.trials)
        return (choice.expected, choice.name) if isfinite(choice.expected) else None
    if not only.gaussian:
        return None
    if only.adaptive:
        error: float | None = outlook(only, replace(question, items=()), cost.budget).overall
    else:
        error = expected_error(only, question, cost.budget)
    return (error, only.name) if error is not None and isfinite(error) else None


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
    if error is not None:
        lines = tuple(Line(one.query, one.stderr, one.within, one.unit, one.guess, spent) for one in lines)
    note = "about, as if all pairs of attributes got even shares; it spends more where attributes depend on each other"
    forecast = Outlook(
        mechanism.name, "simulated", lines, inf, inf, inf, note, None if error is None else spent, about=True
    )
    facts = (schema.dataset, mechanism.name, None if error is not None else spent, error, confidence)
    remarks = (hint,) if not delta and (hint := _delta(mechanism, schema, spent)) is not None else ()
    plan = Plan(*facts, schema.domain.size, schema.expected_rows, choice, (forecast,), remarks)
    return replace(plan, delta=cost.delta)


def foretold_lines(mechanism: Mechanism, schema: Schema, budget: Budget, confidence: float) -> tuple[Line, ...]:
    """Expected errors by number of attributes, for a mechanism with such a forecast; empty for any other."""
    wide = NormalDist().inv_cdf((1 + confidence) / 2)
    kinds = _by_kind(mechanism, schema, budget).items()
    return tuple(Line(ASKED[kind].format(schema.dataset), error, wide * error, "rows", True) for kind, error in kinds)


def _by_kind(mechanism: Mechanism, schema: Schema, budget: Budget) -> dict[str, float]:
    """Forecast of standard errors by number of attributes."""
    if mechanism.forecast.foretold is None:
        return {}
    return dict(mechanism.forecast.foretold(schema, budget).by_kind)


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
        gaussian = Cost.stated(epsilon, HINTED).budget
        before, after = (_by_kind(mechanism, schema, each) for each in (Budget.pure(epsilon), gaussian))
    except SfumatoError:
        return None
    kind = "two attributes" if "two attributes" in before else "one attribute"
    less = [f"{as_rows(after[each])} rows instead of {as_rows(before[each])}" for each in (kind, "all rows")]
    return f"With --delta 1e-9 (Gaussian noise) counts of {kind} would be off by about {less[0]}, of all by {less[1]}."


Step = Callable[[str], None]
MOST_CELLS_AT_ONCE = 10**7  # for which the bound on all queries at once is worked out
MUCH_MORE = 4.0  # times the smallest epsilon that is sure to do: beyond it nothing is tried out


def make_plan(
    schema: Schema | str | PathLike[str],
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    error: float | None = None,
    confidence: float = 0.95,
    mechanism: str = "auto",
    workload: str | Path | Sequence[str] | Statements | None = None,
    options: Mapping[str, object] | None = None,
    step: Step = lambda name: None,
) -> Plan:
    """Expected error of every mechanism at `epsilon`, or the smallest epsilon of each that keeps within `error`.

    schema: or the path of its YAML file. delta: that a release may spend besides, as `release` takes it. workload:
    SELECT statements, as text, a list of texts or the path of a file. options: of the mechanism that is named, as
    `release` takes them. One with a purpose of its own is not priced but says what it promises. Reads no data and
    spends nothing. step: told the name of each mechanism as its turn comes.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> make_plan(schema, epsilon=1, mechanism="cells").lines[-1].query
    'COUNT(*) of one cell'
    """
    schema = Schema.of(schema)
    if error is not None and not (isfinite(error) and error > 0):
        raise QueryError(f"--error is how many rows an answer may be off; it must be above 0, not {error}")
    if not 0 < confidence < 1:
        raise QueryError(f"--confidence lies between 0 and 1, such as 0.95, not {confidence}")
    if epsilon is None and error is None:
        raise BudgetError("a plan needs --epsilon, or --error to find the smallest epsilon for it")
    if epsilon is not None and error is not None:
        raise BudgetError(
            "a plan is for --epsilon (how large is the error?) or for --error (how small an epsilon?); give one of them"
        )
    spent = None if epsilon is None else as_epsilon(epsilon)
    chance = Cost.stated(spent or 1, delta).delta
    if mechanism == "auto" and options:
        raise MechanismError("options belong to one mechanism; name it with --mechanism")
    only = None if mechanism == "auto" else find_mechanism(mechanism).with_options(options or {})
    statements = None if workload is None else read_statements(workload, schema)
    if only is not None and only.special:
        return plan_special(only, schema, spent, confidence, statements)
    if (wide := _by_margins(schema, only)) is not None and statements is None:
        return plan_margins(wide, schema, spent, error, confidence, chosen=only is None, delta=chance)
    if _is_sparse(schema, only):
        if only is not None:
            only.check(schema)
        return _sparse_plan(schema, spent, error, confidence, statements, chosen=only is None)
    items, counts = default_items(schema) if statements is None else statement_items(statements, schema)
    if only is not None:
        only.check(schema, counts)
    question = Question(schema, tuple(items), counts, confidence, delta=chance)
    if error is not None:
        return _plan_for_error(question, error, only, step, default=statements is None)
    assert spent is not None  # noqa: S101 (one of the two was given)
    return _plan_for_epsilon(question, spent, only, step)


def _plan_for_epsilon(question: Question, spent: Fraction, only: Mechanism | None, step: Step) -> Plan:
    """Plan at an epsilon: forecast all mechanisms, choose one, price it in full."""
    schema = question.schema
    if only:
        forecast = outlook(only, question, question.budget(only, spent))
        return _finish(question, spent, None, only.name, None, (forecast,))
    outlooks = [outlook(one, question, question.budget(one, spent), bounds=False, patient=False) for one in _each(step)]
    choice, cost = choose_for(schema, Cost(spent, question.delta), question.workload, question.trials)
    choice = with_hints(choice, outlooks)
    in_full = outlook(MECHANISMS[choice.name], question, cost.budget)
    outlooks = [in_full if found.mechanism == choice.name else found for found in outlooks]
    question = replace(question, delta=cost.delta)
    return _finish(question, spent, None, choice.name, choice, tuple(outlooks))


def _each(step: Step) -> Iterator[Mechanism]:
    """Mechanisms in order, announced to the progress callback."""
    for name, one in MECHANISMS.items():
        step(name)
        yield one


def _plan_for_error(question: Question, error: float, only: Mechanism | None, step: Step, *, default: bool) -> Plan:
    """Plan for an error: smallest epsilon of all mechanisms, exact ones first."""
    counts = question
    if default:  # the wanted error is in rows
        counts = replace(question, items=tuple(item for item in question.items if item.unit == "rows"))
    if only:
        found = least_epsilon(only, counts, error, line_by_line=True)
        return _finish(counts, None, error, only.name, None, (found,))
    linear = [one for one in MECHANISMS.values() if one.forecast.strategy is not None]
    priced = {one.name: least_epsilon(one, counts, error, line_by_line=False) for one in _each(step) if one in linear}
    exact = [found for found in priced.values() if found.epsilon is not None and not found.about]
    if not exact:
        raise QueryError(f"no mechanism keeps all of these within {error:g} rows; allow a larger error")
    best = min(exact, key=lambda found: found.epsilon or Fraction(0))
    priced[best.mechanism] = least_epsilon(MECHANISMS[best.mechanism], counts, error, line_by_line=True)
    for one in _each(step):
        if one not in linear:
            worth_trying = MUCH_MORE * float(best.epsilon or 1)
            priced[one.name] = least_epsilon(one, counts, error, line_by_line=False, most=worth_trying)
    outlooks = [priced[name] for name in MECHANISMS]
    about = [found.mechanism for found in outlooks if found.about and (found.epsilon or 0) < (best.epsilon or 0)]
    unknown = "What depends on the data can only be tried on public shapes, not promised"
    unknown += f"; {', '.join(about)} may do with less." if about else "."
    choice = Choice(best.mechanism, "smallest epsilon of those that can promise the error whatever the data", unknown)
    return _finish(counts, None, error, best.mechanism, choice, tuple(outlooks))


def _finish(
    question: Question,
    spent: Fraction | None,
    error: float | None,
    name: str,
    choice: Choice | None,
    outlooks: tuple[Outlook, ...],
) -> Plan:
    """Assemble a plan with simultaneous bounds, remarks and hints."""
    schema, size = question.schema, question.schema.domain.size
    threshold = bound = paper = None
    if spent is not None and error is None:
        if MECHANISMS[name].holds.sparse:
            threshold = planned_threshold(schema, Budget.pure(spent))
        elif size <= MOST_CELLS_AT_ONCE:
            share = spent / (1 + len(schema.measures)) / schema.privacy_unit.contributions
            bound = every_query_error(size, share, question.confidence)
            paper = paper_error(size, share, question.confidence)
    remarks = explain(outlooks, question)
    if spent is not None and error is None and not question.delta:
        hint = what_a_delta_buys(question, spent, MECHANISMS[name] if choice is None else None)
        remarks += () if hint is None else (hint,)
    facts = (schema.dataset, name, spent, error, question.confidence, size, schema.expected_rows)
    lines: tuple[Line, ...] = ()
    if spent is not None and not next(found.lines for found in outlooks if found.mechanism == name):
        budget = question.budget(MECHANISMS[name], spent)
        lines = foretold_lines(MECHANISMS[name], schema, budget, question.confidence)
    delta = question.delta if MECHANISMS[name].gaussian else Fraction(0)
    return Plan(*facts, choice, outlooks, remarks, threshold, bound, paper, lines, delta)


def _sparse_plan(
    schema: Schema,
    spent: Fraction | None,
    error: float | None,
    confidence: float,
    statements: Statements | None,
    *,
    chosen: bool,
) -> Plan:
    """Plan for a domain that is never laid out: one mechanism, priced by its stand-in."""
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
    return Plan(*facts, choice, (forecast,), (), threshold)


def _by_margins(schema: Schema, only: Mechanism | None) -> Mechanism | None:
    """Mechanism over marginals, where there are too many cells to price any other; None otherwise."""
    if schema.domain.size <= MOST_DENSE:
        return None
    name = choose_mechanism(schema, Budget.pure(1)).name if only is None else only.name
    return MECHANISMS[name] if MECHANISMS[name].forecast.foretold is not None else None


def _is_sparse(schema: Schema, only: Mechanism | None) -> bool:
    """Whether only the sparse form can be planned, which needs no array of all cells."""
    size = schema.domain.size
    return size > MOST_DENSE or (only is not None and only.holds.sparse and size > MOST_SIMULATED)


def explain(outlooks: Sequence[Outlook], question: Question) -> tuple[str, ...]:
    """First remark of a mechanism on the comparison, where there is more than one exact error."""
    priced = {found.mechanism: found.overall for found in outlooks if found.how == "exact" and isfinite(found.overall)}
    remarks = (MECHANISMS[name].forecast.remark for name in MECHANISMS if name in priced and len(priced) > 1)
    said = (remark(priced, question.schema, question.workload) for remark in remarks if remark is not None)
    return tuple(text for text in said if text)[:1]
