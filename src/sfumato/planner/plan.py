"""Plan a release without reading or spending: expected error at an epsilon, or smallest epsilon for an error.

General mechanisms are priced by forecast.py, others by other_plans.py. A remark says how much less error a delta would
buy (Gaussian noise).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from math import inf, isfinite
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.arrays import MOST_DENSE
from sfumato.errors import BudgetError, MechanismError, QueryError, SfumatoError
from sfumato.kernel.budget import Amount, Budget, Cost, as_epsilon
from sfumato.kernel.charge import noise_for
from sfumato.models import MECHANISMS, considered, find_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.cells.cells import for_running, planned_threshold
from sfumato.plain_text import as_rows
from sfumato.planner.choose import Choice, choose_for, choose_mechanism, with_hints
from sfumato.planner.forecast import Outlook, Question, error_at_twice, expected_error, outlook
from sfumato.planner.other_plans import (
    plan_margins,
    plan_sparse,
    plan_special,
    squares_by_trial,
    tilt_towards,
    useless_kinds,
    with_a_delta,
)
from sfumato.planner.questions import Item, Statements, default_items, example_items, read_statements, statement_items
from sfumato.planner.report import Doubled, OverTime, Plan
from sfumato.planner.simulate import MOST_SIMULATED
from sfumato.planner.usefulness import every_query_error, least_epsilon, paper_error, rounded_up
from sfumato.queries import default_workload
from sfumato.queries.ranges import Running
from sfumato.releases.file.manifest import check_description
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.schema.linked import LinkedSchema

SHOWN_PERIODS = (1, 12, 60, 120)  # whose running totals a plan shows, besides that of all planned ones
NO_GAIN = 0.95  # of the error without it: with more it is not worth a delta


def what_a_delta_buys(question: Question, epsilon: Fraction, only: Mechanism | None) -> str | None:
    """Sentence on the error with a delta of 1e-9 (Gaussian noise) compared with none; None where it is unknown.

    only: the mechanism that was asked for by name; otherwise the choice of `auto` with and without it. Reads no data.
    """
    try:
        without, with_it = (_expected(question, cost, only) for cost in (Cost(epsilon), with_a_delta(epsilon)))
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
        found: Outlook | None = outlook(only, replace(question, items=()), cost.budget)
    else:
        found = expected_error(only, question, cost.budget)
    return (found.overall, only.name) if found is not None and isfinite(found.overall) else None


def _doubled(mechanism: Mechanism, question: Question, epsilon: Fraction, before: Outlook) -> Doubled | None:
    """Errors over the workload by one mechanism at an epsilon and at twice that epsilon."""
    budgets = [question.budget(mechanism, each) for each in (epsilon, 2 * epsilon)]
    after = error_at_twice(mechanism, question, budgets[0], budgets[1], before)
    return Doubled(before.overall, after) if isfinite(before.overall) and isfinite(after) else None


Step = Callable[[str], None]
MOST_CELLS_AT_ONCE = 10**7  # for which the bound on all queries at once is worked out
MUCH_MORE = 4.0  # times the smallest epsilon that is sure to do: beyond it nothing is tried out


def make_plan(
    schema: Schema | Mapping[str, Any] | str | PathLike[str],
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    error: float | None = None,
    confidence: float = 0.95,
    mechanism: str = "auto",
    workload: str | Path | Sequence[str] | Statements | None = None,
    workload_only: bool = False,
    options: Mapping[str, object] | None = None,
    every: bool = False,
    step: Step = lambda name: None,
) -> Plan:
    """Expected error of what `auto` would take at `epsilon`, or the smallest epsilon that keeps within `error`.

    schema: or the path of its YAML file, or a mapping with its keys. rho: in place of epsilon, as `release` takes it.
    delta: that a release may spend besides, as `release` takes it. workload: SELECT statements, as text, a list of
    texts or the path of a file: they get most of the accuracy, or with `workload_only` all of it. options: of the
    mechanism that is named, as `release` takes them. One with a purpose of its own is not priced but says what it
    promises. every: compare all mechanisms, which takes longer. Reads no data and spends nothing. step: told the name
    of each mechanism as its turn comes.

    >>> schema = Schema(dataset="t", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> make_plan(schema, epsilon=1, mechanism="cells").lines[-1].query
    'COUNT(*) of one cell'
    """
    schema = Schema.of(schema).in_rows
    if rho is not None:
        if epsilon is not None or error is not None or every:
            raise BudgetError("a plan for --rho takes neither --epsilon nor --error nor --all; give --rho alone")
        cost = Cost.stated(None, delta, rho)
        asked = (confidence, mechanism, workload, workload_only, options)
        return _plan_for_rho(schema, cost, *asked, step)
    _check(epsilon, error, confidence)
    check_description(schema)
    spent = None if epsilon is None else as_epsilon(epsilon)
    chance = Cost.stated(spent or 1, delta).delta
    if mechanism == "auto" and options:
        raise MechanismError("options belong to one mechanism; name it with --mechanism")
    only = None if mechanism == "auto" else find_mechanism(mechanism).with_options(options or {})
    only = for_running(schema, mechanism, pure=not chance) if schema.running else only
    if workload_only and workload is None:
        raise QueryError("--workload-only is about the statements of --workload; name their file with it")
    statements = None if workload is None else read_statements(workload, schema)
    if only is not None and only.special:
        return plan_special(only, schema, spent, confidence, statements)
    if (wide := _by_margins(schema, only)) is not None and statements is None:
        plan = plan_margins(wide, schema, spent, error, confidence, chosen=only is None, delta=chance)
        return replace(plan, remarks=(*plan.remarks, *_about_weights(schema, plan)))
    if wide is None and _is_sparse(schema, only):
        if only is not None:
            only.check(schema)
        return plan_sparse(schema, spent, error, confidence, statements, chosen=only is None)
    items, counts = default_items(schema) if statements is None else statement_items(statements, schema)
    if statements is not None and not workload_only:
        counts = tilt_towards(counts, schema.domain)
    if only is not None:
        only.check(schema, only.serves(counts))
    question = Question(schema, tuple(items), counts, confidence, delta=chance)
    if error is not None:
        plan = _plan_for_error(question, error, wide or only, step, default=statements is None, every=every)
    else:
        assert spent is not None  # noqa: S101 (one of the two was given)
        plan = _plan_for_epsilon(question, spent, only, step, every=every)
    over_time = _over_time(schema, only, Cost(spent, chance)) if spent is not None else ()
    remarks = (*plan.remarks, *_about_spreading(schema), *_about_weights(schema, plan))
    return replace(plan, tilted=bool(counts.named), stated=statements is not None, over_time=over_time, remarks=remarks)


def _about_spreading(schema: Schema) -> Iterator[str]:
    """Remark that `running: true` does not lower the error of totals, as one person may be in many of the periods."""
    series = schema.series
    if series is None or not series.running or series.periods is None:
        return
    many = f"a person may be in {schema.together:,} of the {series.periods:,} planned periods"
    if not schema.running:
        yield f"running: true changes nothing here: {many}, and noise drawn anew then serves totals best."
    elif (found := Running(series.periods, schema.together)).totals()[-1] >= found.anew()[-1]:
        yield f"Noise drawn anew in every period would serve totals better, because {many}: leave running out."


def _about_weights(schema: Schema, plan: Plan) -> Iterator[str]:
    """Remarks on errors with lower caps on weights or weights shrunk to a mean: they scale with the largest weight."""
    weight = schema.weight
    if weight is None:
        return
    overall = next((found.overall for found in plan.outlooks if found.mechanism == plan.mechanism), inf)
    mean, top = weight.upper / 4 if weight.mean is None else weight.mean, weight.shrunk(weight.upper)

    def error(largest: Fraction) -> str:
        by = float(largest / top)
        return f"{as_rows(overall * by)} rows" if isfinite(overall) and plan.error is None else f"{by:.3g} times"

    caps = [cap for cap in (weight.upper / part for part in (1, 2, 4)) if cap > max(weight.lower, weight.mean or 0)]
    moved = [(part, mean + (1 - part) * (weight.upper - mean)) for part in (Fraction(number, 4) for number in range(4))]
    yield (
        f"Errors are in proportion to the largest weight that a row can have, {float(top):g}. Error of a query by cap: "
        + "; ".join(f"upper: {float(cap):g}, {error(weight.shrunk(cap))}" for cap in caps)
        + ". What a lower cap takes away from counts is not known without the table; `sfumato check` tells its curator "
        "how many rows weigh more."
    )
    yield (
        f"Error of a query with weights moved toward {'a' if weight.mean is None else 'the'} mean of {float(mean):g}: "
        + "; ".join(f"shrink: {float(part):g}, {error(largest)}" for part, largest in moved)
        + ". Counts of groups whose mean weight is another are then off by as much as their weights were moved."
    )


def plan_tables(
    linked: LinkedSchema,
    *,
    epsilon: Amount | None = None,
    delta: Amount | None = None,
    rho: Amount | None = None,
    error: float | None = None,
    **asked: Any,
) -> tuple[dict[str, Plan], Fraction | None]:
    """Plan of every linked table with its share of a budget, and the epsilon of all tables together; None for a rho.

    error: plan each table for this error by itself; the epsilon is then the smallest, rounded up, of which every share
    suffices, None if that of a table is unknown. asked: further arguments of `make_plan`.
    """
    shares = {name: table.share for name, table in linked.tables.items()}
    if error is not None:
        plans = {
            name: make_plan(table.schema, epsilon=epsilon, rho=rho, delta=delta, error=error, **asked)
            for name, table in linked.tables.items()
        }
        chosen = {
            name: [o.epsilon for o in plan.outlooks if o.mechanism == plan.mechanism] for name, plan in plans.items()
        }
        needed = [Fraction(one) / shares[name] for name, found in chosen.items() for one in found if one is not None]
        if len(needed) < len(plans):
            return plans, None
        return plans, rounded_up(max(needed) * sum(shares.values()), 4)
    cost = Cost.stated(epsilon, delta, rho)
    parts = dict(zip(shares, cost.budget.split(*shares.values()), strict=True))
    chance = None if cost.pure else cost.delta
    plans = {
        name: make_plan(linked.tables[name].schema, epsilon=part.epsilon, rho=part.rho, delta=chance, **asked)
        for name, part in parts.items()
    }
    return plans, cost.epsilon


def _over_time(schema: Schema, mechanism: Mechanism | None, cost: Cost) -> tuple[OverTime, ...]:
    """Errors of the count of one cell in running totals and single periods, where noise is spread over time."""
    if mechanism is None or schema.series is None or not schema.running:
        return ()
    periods = schema.series.periods or 1
    share = cost.budget.split(*schema.weights.values())[0]
    contributions = schema.most_of_a_unit
    unit = noise_for(share, contributions, l1=Fraction(1), l2_squared=Fraction(1)).continuous_variance ** 0.5
    found = Running(periods, schema.together)
    totals, anew, single = found.totals(), found.anew(), found.single()
    told = sorted({*(many for many in SHOWN_PERIODS if many < periods), periods})
    rows = ((many, totals[many - 1], anew[many - 1], single[many - 1]) for many in told)
    return tuple(OverTime(many, unit * float(a), unit * float(b), unit * float(c), unit) for many, a, b, c in rows)


def _plan_for_rho(
    schema: Schema,
    cost: Cost,
    confidence: float,
    mechanism: str,
    workload: str | Path | Sequence[str] | Statements | None,
    workload_only: bool,
    options: Mapping[str, object] | None,
    step: Step,
) -> Plan:
    """Plan at a rho: of a mechanism with Gaussian noise at that rho, of any other at the epsilon with this rho."""
    rho, choice = cost.rho, None
    if mechanism == "auto" and not schema.running:
        statements = None if workload is None else read_statements(workload, schema)
        counts = None if statements is None else statement_items(statements, schema)[1]
        if counts is not None and not workload_only:
            counts = tilt_towards(counts, schema.domain)
        choice, cost = choose_for(schema, cost, counts)
    elif not schema.running and not find_mechanism(mechanism).gaussian:
        cost = cost.without_delta
    plan = make_plan(
        schema,
        epsilon=cost.epsilon,
        delta=cost.delta or None,
        confidence=confidence,
        mechanism=mechanism if choice is None else choice.name,
        workload=workload,
        workload_only=workload_only,
        options=options,
        step=step,
    )
    return replace(plan, rho=rho, choice=choice)


def _check(epsilon: Amount | None, error: float | None, confidence: float) -> None:
    """Refuse a plan without an epsilon or an error, or with both, and amounts that make no sense."""
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


def _plan_for_epsilon(question: Question, spent: Fraction, only: Mechanism | None, step: Step, *, every: bool) -> Plan:
    """Plan at an epsilon: choose a mechanism, price it in full, and compare it with all others if that is wanted."""
    schema, choice = question.schema, None
    outlooks: list[Outlook] = []
    if only is None:
        if every:
            outlooks = [
                outlook(one, question, question.budget(one, spent), bounds=False, patient=False)
                for one in _each(step, MECHANISMS.values())
            ]
        step("auto")
        choice, cost = choose_for(schema, Cost(spent, question.delta), question.workload, question.trials)
        chosen, question = MECHANISMS[choice.name], replace(question, delta=cost.delta)
    else:
        chosen = only
    budget = question.budget(chosen, spent)
    in_full = outlook(chosen, question, budget)
    if every and choice is not None:
        outlooks = [in_full if found.mechanism == choice.name else found for found in outlooks]
        choice = with_hints(choice, outlooks)
    plan = _finish(question, spent, None, chosen, choice, tuple(outlooks) or (in_full,), every=every)
    examples = outlook(chosen, replace(question, items=tuple(example_items(schema))), budget, bounds=False).lines
    doubled, warnings = _doubled(chosen, question, spent, in_full), _warnings(chosen, question, budget)
    return replace(plan, examples=examples, doubled=doubled, warnings=warnings)


def _warnings(mechanism: Mechanism, question: Question, budget: Budget) -> tuple[str, ...]:
    """Tables that a stated workload makes useless, in words; none of a mechanism that answers its workload alone."""
    schema, workload = question.schema, question.workload
    if workload is default_workload(schema.domain) or mechanism.answers != "everything":
        return ()
    squares = None
    if mechanism.forecast.strategy is None:

        def errors(items: list[Item]) -> list[float]:
            return [line.stderr for line in outlook(mechanism, replace(question, items=tuple(items)), budget).lines]

        squares = squares_by_trial(schema, errors)
    return useless_kinds(schema, mechanism, workload, budget, squares=squares)


def _each(step: Step, mechanisms: Iterable[Mechanism]) -> Iterator[Mechanism]:
    """Mechanisms in order, announced to the progress callback."""
    for one in mechanisms:
        step(one.name)
        yield one


def _plan_for_error(
    question: Question, error: float, only: Mechanism | None, step: Step, *, default: bool, every: bool
) -> Plan:
    """Plan for an error: `only`, or of the mechanisms with exact errors the one that needs the smallest epsilon."""
    counts = question
    if default:  # the wanted error is in rows
        counts = replace(question, items=tuple(item for item in question.items if item.unit == "rows"))
    if only:
        found = least_epsilon(only, counts, error, line_by_line=True)
        return _finish(counts, None, error, only, None, (found,), every=every)
    mechanisms = [*MECHANISMS.values()] if every else [*considered()]
    linear = [one for one in mechanisms if one.forecast.strategy is not None]
    at_one = {
        one.name: outlook(one, counts, counts.budget(one, Fraction(1)), patient=False) for one in _each(step, linear)
    }
    priced = {
        one.name: least_epsilon(one, counts, error, line_by_line=False, at_one=at_one[one.name]) for one in linear
    }
    kept = [found for found in priced.values() if found.epsilon is not None and not found.about]
    exact = [found for found in kept if MECHANISMS[found.mechanism].answers == "everything"]
    if not exact:
        raise QueryError(f"no mechanism keeps all of these within {error:g} rows; allow a larger error")
    best = min(exact, key=lambda found: found.epsilon or Fraction(0))
    chosen = MECHANISMS[best.mechanism]
    priced[chosen.name] = least_epsilon(chosen, counts, error, line_by_line=True, at_one=at_one[chosen.name])
    enough = best.epsilon or Fraction(1)
    if every:
        for one in _each(step, [one for one in mechanisms if one not in linear]):
            worth_trying = MUCH_MORE * float(enough)
            priced[one.name] = least_epsilon(one, counts, error, line_by_line=False, most=worth_trying)
        about = [found.mechanism for found in priced.values() if found.about and (found.epsilon or enough) < enough]
    else:
        tried = [one for one in mechanisms if one not in linear]
        about = [one.name for one in tried if _keeps(one, counts, error, enough)]
    outlooks = [priced[name] for name in MECHANISMS if name in priced]
    unknown = "What depends on the data can only be tried on public shapes, not promised"
    unknown += f"; {', '.join(about)} may do with less." if about else "."
    choice = Choice(best.mechanism, "smallest epsilon of those that can promise the error whatever the data", unknown)
    if not every:
        outlooks = [priced[best.mechanism]]
    plan = _finish(counts, None, error, chosen, choice, tuple(outlooks), every=every)
    return replace(plan, warnings=_warnings(chosen, question, question.budget(chosen, enough)))


def _keeps(mechanism: Mechanism, question: Question, error: float, epsilon: Fraction) -> bool:
    """Whether a mechanism whose error depends on the data kept within an error on every public shape tried."""
    found = outlook(mechanism, question, question.budget(mechanism, epsilon), patient=False)
    return max((line.within for line in found.lines), default=inf) <= error


def _finish(
    question: Question,
    spent: Fraction | None,
    error: float | None,
    mechanism: Mechanism,
    choice: Choice | None,
    outlooks: tuple[Outlook, ...],
    *,
    every: bool,
) -> Plan:
    """Assemble a plan; with simultaneous bounds, remarks and hints of one mechanism by name, or of all."""
    schema, size, name = question.schema, question.schema.domain.size, mechanism.name
    threshold = bound = paper = None
    in_detail = every or choice is None
    if spent is not None and error is None:
        if mechanism.holds.sparse:
            threshold = planned_threshold(schema, Budget.pure(spent))
        elif size <= MOST_CELLS_AT_ONCE and in_detail and not schema.running:
            share = spent / (1 + len(schema.summed)) / schema.most_of_a_unit
            bound = every_query_error(size, share, question.confidence)
            paper = paper_error(size, share, question.confidence)
    remarks = explain(outlooks, question)
    if spent is not None and error is None and not question.delta and in_detail:
        hint = what_a_delta_buys(question, spent, mechanism if choice is None else None)
        remarks += () if hint is None else (hint,)
    facts = (schema.dataset, name, spent, error, question.confidence, size, schema.expected_rows)
    delta = question.delta if mechanism.gaussian else Fraction(0)
    made = Plan(*facts, choice, outlooks, remarks, threshold, bound, paper, delta)
    return replace(made, exact=schema.exact_counts)


def _by_margins(schema: Schema, only: Mechanism | None) -> Mechanism | None:
    """Mechanism over marginals, where there are too many cells to price any other; None otherwise."""
    if schema.domain.size <= MOST_DENSE:
        return None
    name = choose_mechanism(schema, Budget.pure(1)).name if only is None else only.name
    return MECHANISMS[name] if MECHANISMS[name].forecast.foretold is not None else None


def _is_sparse(schema: Schema, only: Mechanism | None) -> bool:
    """Whether only the sparse form can be planned, which needs no array of all cells."""
    size = schema.domain.size
    if only is not None and MOST_DENSE < size <= (only.holds.most_cells or 0):
        raise MechanismError(
            f"{only.name} can be released on {size:,} cells, and planned on {MOST_DENSE:,}; plan it with fewer values"
        )
    return size > MOST_DENSE or (only is not None and only.holds.sparse and size > MOST_SIMULATED)


def explain(outlooks: Sequence[Outlook], question: Question) -> tuple[str, ...]:
    """At most one sentence that compares mechanisms: the first remark that one makes on two or more exact errors."""
    priced = {found.mechanism: found.named for found in outlooks if found.how == "exact" and isfinite(found.named)}
    remarks = (MECHANISMS[name].forecast.remark for name in MECHANISMS if name in priced and len(priced) > 1)
    said = (remark(priced, question.schema, question.workload.asked) for remark in remarks if remark is not None)
    return tuple(text for text in said if text)[:1]
