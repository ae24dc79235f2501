"""Plan of a release, and its report as text and tables, the same for the command line and for Python."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import inf, isfinite
from string import ascii_uppercase

from sfumato.answers.results import decimals_for
from sfumato.arrays import MOST_DENSE
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Cost
from sfumato.plain_text import aligned, in_short, printable, readable
from sfumato.planner.choose import Choice
from sfumato.planner.forecast import Outlook
from sfumato.planner.questions import Line
from sfumato.planner.simulate import ROWS_PER_CELL
from sfumato.releases.group_privacy import PRIORS, as_chance, beliefs_after, group_privacy, in_words, odds_of
from sfumato.schema.invariants import EVEN_THOUGH
from sfumato.schema.parts import PrivacyUnit

MOST_COMPARED = 7  # questions that fit beside each other


@dataclass(frozen=True)
class Doubled:
    """Expected errors, in rows, at the epsilon of a plan and at twice as much; of the workload or of one question."""

    before: float
    after: float
    question: str = "a query"


@dataclass(frozen=True)
class OverTime:
    """Standard errors of the count of one cell, in rows, where noise is spread over time.

    total, single: of the running total of so many periods, and of the last of them alone. anew, single_anew: of the
    same if every period were measured by itself.
    """

    periods: int
    total: float
    anew: float
    single: float
    single_anew: float


@dataclass(frozen=True, repr=False)
class Plan:
    """Expected errors at one epsilon, of one mechanism or of every; or, for a wanted error, the smallest epsilon.

    choice: the recommended mechanism, why, and what cannot be known. outlooks: every mechanism that was compared, or
    the one. mechanism, lines: the one asked for, or chosen, question by question. remarks: further sentences.
    every_query, paper: simultaneous error bound for all unions of cells if every cell is measured, from the exact noise
    and by theorem 5.2 of TR-2010-003. threshold: noisy counts under it are not published by sparse-cells. delta: what
    the mechanism would spend besides epsilon. examples: errors of questions in plain words. doubled: what twice the
    epsilon would buy. warnings: tables that the workload makes useless. stated: whether a workload was given; tilted:
    whether everything else is served besides it. rho: of the budget, where it was stated so.
    over_time: errors over several periods of a series with running totals. exact: what the schema's invariants name.
    """

    dataset: str
    mechanism: str
    epsilon: Fraction | None
    error: float | None
    confidence: float
    cells: int
    expected_rows: int | None
    choice: Choice | None
    outlooks: tuple[Outlook, ...]
    remarks: tuple[str, ...] = ()
    threshold: int | None = None
    every_query: float | None = None
    paper: float | None = None
    delta: Fraction = Fraction(0)
    examples: tuple[Line, ...] = ()
    doubled: Doubled | None = None
    warnings: tuple[str, ...] = ()
    stated: bool = False
    tilted: bool = False
    rho: Fraction | None = None
    over_time: tuple[OverTime, ...] = ()
    exact: str = ""

    @property
    def lines(self) -> tuple[Line, ...]:
        """Errors of the questions under the mechanism asked for or chosen."""
        return next(found.lines for found in self.outlooks if found.mechanism == self.mechanism)

    @property
    def cost(self) -> Cost | None:
        """Cost of the planned release: as stated, or the least that keeps within the wanted error, if that is known."""
        epsilon = self.epsilon if self.error is None else _chosen(self).epsilon
        return None if epsilon is None else Cost(epsilon, self.delta)

    def __repr__(self) -> str:
        return as_text(self)


@dataclass(frozen=True)
class Comparison:
    """Table of texts; left: the columns that are left-aligned."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    left: tuple[int, ...]


MORE_LATER = (
    "If you may want more later, give a delta now: releases with one add up in rho, and `sfumato combine` fuses them "
    "into one as good as if all had been spent at once."
)


def report(plan: Plan) -> Iterator[str | Comparison]:
    """Sentences and tables of a plan, in order: what was asked first, and what is behind it afterwards."""
    compared = len(plan.outlooks) > 1
    if plan.exact:
        yield (
            f"EXACT COUNTS of {plan.exact} would be published too, protected by nothing: a release needs "
            f"{EVEN_THOUGH}. Errors are told as if they were not."
        )
    yield from _in_short(plan)
    if compared:
        yield from _comparison(plan) if plan.error is None else _epsilons(plan)
    if promised := _chosen(plan).promises:
        yield f"Mechanism {plan.mechanism}, what is known before any data is read:"
        yield Comparison(("what", "value", "unit"), tuple((one.what, one.shown, one.unit) for one in promised), (0, 2))
    detailed = bool(plan.lines) and not plan.stated and (compared or plan.choice is None or not plan.examples)
    if detailed:
        yield f"Question by question, by mechanism {plan.mechanism}:"
        yield _questions(plan)
    yield from _running(plan)
    yield from _footnotes(plan)
    yield from plan.warnings
    yield from plan.remarks
    if plan.choice is not None and (compared or plan.error is not None):
        yield f"What it cannot know: {plan.choice.unknown}"
    if plan.error is None and plan.cost is not None:
        groups = group_privacy(plan.cost.epsilon, delta=plan.delta, rho=plan.cost.budget.rho)
        yield in_words(groups, exact=bool(plan.exact))
        if not plan.delta and not _chosen(plan).promises:
            yield MORE_LATER
    others = plan.choice is not None and plan.rho is None and not compared and plan.cells <= MOST_DENSE
    more = " --all compares every mechanism." if others else ""
    yield f"No data was read and nothing was spent.{more}"


def explained(cost: Cost, unit: PrivacyUnit, doubled: Doubled | None = None) -> Iterator[str | Comparison]:
    """Sentences and tables on what a guarantee means: beliefs, odds of a guess, and what twice the epsilon changes."""
    epsilon, delta, rho = cost.epsilon, cost.delta, cost.budget.rho
    whom = "one row is" if unit.column is None else f"the rows of one {unit.column} are"
    yield (
        f"What epsilon {in_short(epsilon)} means. Somebody knows the whole table but for one thing, whether {whom} in "
        "it, and sees all that is published. How sure they can be that it is so:"
    )
    rows = [(f"{before * 100:g} %", *map(as_chance, beliefs_after(before, epsilon, delta))) for before in PRIORS]
    yield Comparison(("sure before", "after, at least", "after, at most"), tuple(rows), ())
    if delta:
        yield f"With a delta of {float(delta):.2g} that holds but for a chance of {2 * float(delta):.2g}."
    first, *others = odds_of(epsilon, delta=delta, rho=rho)
    families = ", ".join(f"{one.of_hundred} for {one.people}" for one in others)
    yield (
        f"From even odds a guess is right at most {first.of_hundred} times of 100, where a coin is right 50 times; "
        f"about a family left out together: {families}."
    )
    if unit.column is None:
        yield "The promise is about single rows: somebody with several rows is like a family of as many."
    else:
        counted = "one is" if unit.contributions == 1 else f"{unit.contributions:,} are"
        yield f"All rows of one {unit.column} are covered together, of which at most {counted} counted."
    if doubled is not None:
        both = [(epsilon, doubled.before), (2 * epsilon, doubled.after)]
        shown = []
        for each, error in both:
            one, *_ = odds_of(each, delta=delta, rho=Cost(each, delta).budget.rho)
            shown.append((in_short(each), f"{one.of_hundred} of 100", f"{_short(error)} rows"))
        yield "A guess from even odds, beside the error that it buys:"
        yield Comparison(("epsilon", "right at most", f"error of {doubled.question}"), tuple(shown), ())
    yield "How to choose: docs/choosing-epsilon.md."


def meaning(cost: Cost) -> dict[str, object]:
    """JSON-ready mapping of what a guarantee means: beliefs before and after, right guesses of a hundred at most."""
    beliefs = [(before, *beliefs_after(before, cost.epsilon, cost.delta)) for before in PRIORS]
    odds = odds_of(cost.epsilon, delta=cost.delta, rho=cost.budget.rho)
    return {
        "beliefs": [dict(zip(("before", "at_least", "at_most"), each, strict=True)) for each in beliefs],
        "but_for_a_chance_of": 2 * float(cost.delta),
        "right_guesses": [{"together": one.people, "at_most": one.right} for one in odds],
    }


def _in_short(plan: Plan) -> Iterator[str | Comparison]:
    """Mechanism, expected errors of example questions, and what twice the epsilon would buy."""
    delta = f", delta {readable(plan.delta)} (Gaussian noise)" if plan.delta else ""
    if plan.error is not None:
        wanted = f"an error of at most {plan.error:,g} rows, {plan.confidence * 100:g} % sure"
        yield f"{plan.dataset}: {plan.cells:,} cells, {wanted}{delta}"
        why = f": {plan.choice.why}" if plan.choice is not None else ""
        yield f"All of the questions below need epsilon {_epsilon(_chosen(plan))}, by {plan.mechanism}{why}."
        if plan.stated and plan.lines:
            yield f"Your statements, by mechanism {plan.mechanism}:"
            yield _questions(plan)
        return
    spent = f"epsilon {readable(plan.epsilon or Fraction(0))}"
    if plan.rho is not None:
        spent = f"rho {readable(plan.rho)}, which is epsilon {in_short(plan.epsilon or Fraction(0))}"
    yield f"{plan.dataset}: {plan.cells:,} cells, {spent}{delta}"
    if plan.choice is not None:
        yield f"auto would take {plan.choice.name}: {plan.choice.why}."
    if plan.doubled is not None and plan.epsilon is not None:
        yield _doubling(plan.doubled, plan.epsilon)
    if plan.stated and plan.lines:
        yield f"Your statements, by mechanism {plan.mechanism}:"
        yield _questions(plan)
    if plan.examples:
        share = f", and as a share of the {plan.expected_rows:,} rows expected" if plan.expected_rows else ""
        besides = "Other questions: expected" if plan.stated else "Expected"
        yield f"{besides} error by {plan.mechanism}, how far off an answer typically is{share}:"
        yield _examples(plan)
        if not plan.expected_rows:
            yield "State expected_rows in the schema to see these errors as shares of the table."


def _running(plan: Plan) -> Iterator[str | Comparison]:
    """Table of errors over time: of running totals and of single periods, beside each period measured anew."""
    if not plan.over_time:
        return
    yield (
        f"Noise is spread over {plan.over_time[-1].periods:,} periods, and the errors above are those of the last of "
        "them. Standard error of the count of one cell, in rows:"
    )
    headers = ("periods", "their total", "if each were anew", "the last one alone", "if each were anew")
    rows = [
        (f"{one.periods:,}", *(_short(each) for each in (one.total, one.anew, one.single, one.single_anew)))
        for one in plan.over_time
    ]
    yield Comparison(headers, tuple(rows), ())


def _doubling(doubled: Doubled, epsilon: Fraction) -> str:
    times = doubled.before / max(doubled.after, 1e-9)
    bought = f"from {_short(doubled.before)} to {_short(doubled.after)} rows, {times:.2g} times less"
    return f"Doubling epsilon to {in_short(2 * epsilon)} would bring the error of {doubled.question} {bought}."


def _examples(plan: Plan) -> Comparison:
    """Example questions with their errors, and shares of the expected rows where errors are in rows."""
    rows = []
    for line in plan.examples:
        share = ""
        if plan.expected_rows and line.unit == "rows" and isfinite(line.stderr):
            share = as_percent(line.stderr / plan.expected_rows)
        question = line.query + (" *" if line.guess else "")
        rows.append((question, _short(line.stderr), line.unit, share)[: 4 if plan.expected_rows else 3])
    headers = ("question", "expected error", "unit", "share of all rows")[: 4 if plan.expected_rows else 3]
    return Comparison(headers, tuple(rows), (0, 2))


def as_percent(share: float) -> str:
    """Share in per cent, to two significant digits.

    >>> as_percent(0.01234), as_percent(1.5), as_percent(0.0000002)
    ('1.2 %', '150 %', 'under 0.001 %')
    """
    if share < 1e-5:
        return "under 0.001 %"
    percent = 100.0 * share
    return f"{percent:,.0f} %" if percent >= 10 else f"{percent:.2g} %"


def as_text(plan: Plan) -> str:
    """Plan as lines of text."""
    lines: list[str] = []
    for part in report(plan):
        lines += (
            [printable(part)] if isinstance(part, str) else ["", *aligned([part.headers, *part.rows], part.left), ""]
        )
    return "\n".join(lines)


def _comparison(plan: Plan) -> Iterator[str | Comparison]:
    """Table of expected errors, mechanisms by the questions that distinguish them."""
    priced = sorted((found for found in plan.outlooks if found.lines), key=lambda found: found.overall)
    chosen = _telling(priced)
    names = dict(zip(chosen, ascii_uppercase, strict=False))
    figures = [
        (found.mechanism, *(_range(found.lines[place]) for place in chosen), _overall(found), found.how)
        for found in priced
    ]
    yield "Expected error, root mean square, mechanism by question; overall: as the workload weighs them."
    yield Comparison(("mechanism", *names.values(), "overall", "how"), tuple(figures), (0, len(chosen) + 2))
    questions = priced[0].lines
    yield Comparison(
        ("", "question", "unit"), tuple((names[p], questions[p].query, questions[p].unit) for p in chosen), (0, 1, 2)
    )
    if any(found.how == "simulated" for found in priced):
        guess = f"{ROWS_PER_CELL} rows a cell, guessed: no expected_rows"
        rows = f"{plan.expected_rows:,} rows" if plan.expected_rows else guess
        yield (
            f"simulated: it depends on the data; a-b is its range over public synthetic shapes ({rows}), "
            "never over your table."
        )
    if any(found.how == "foretold" for found in priced):
        yield f"foretold: it depends on the data; by formula, {_foretold_rows(plan)} (docs/planning.md)."
    yield from _left_out(plan)


def _epsilons(plan: Plan) -> Iterator[str | Comparison]:
    priced = sorted((one for one in plan.outlooks if one.epsilon is not None), key=lambda one: one.epsilon or 0)
    rows = [(one.mechanism, _epsilon(one), one.how) for one in priced]
    yield Comparison(("mechanism", "smallest epsilon", "how"), tuple(rows), (0, 2))
    if any(one.about for one in priced):
        yield "about: tried on public synthetic shapes, the unkindest of which keeps within the error; no promise."
    yield from _left_out(plan)


def _left_out(plan: Plan) -> Iterator[str]:
    """Reasons why mechanisms were not priced, or only in part, grouped by reason."""
    notes: dict[str, list[str]] = {}
    for one in plan.outlooks:
        if one.note:
            notes.setdefault(one.note.removeprefix(f"{one.mechanism} "), []).append(one.mechanism)
    for note, names in notes.items():
        yield f"{', '.join(names)}: {note}."


def _questions(plan: Plan) -> Comparison:
    rows = []
    for line in plan.lines:
        # No more decimals than the bound itself deserves: the error of a nearly empty cell can be tiny.
        scale = max(line.stderr, line.within / 10) if isfinite(line.stderr + line.within) else 1.0
        row = (line.query + (" *" if line.guess else ""), _range(line), _number(line.within, scale), line.unit)
        rows.append(row if line.epsilon is None else (*row, readable(line.epsilon)))
    headers = ("question", "expected error", f"within, {plan.confidence * 100:g} % sure", "unit")
    by_line = any(line.epsilon is not None for line in plan.lines)
    return Comparison((*headers, "smallest epsilon") if by_line else headers, tuple(rows), (0, 3))


def _footnotes(plan: Plan) -> Iterator[str]:
    """Footnotes: dependence on the data, threshold, simultaneous bound."""
    if any(line.guess for line in (*plan.examples, *plan.lines)):
        if _chosen(plan).how == "foretold":
            yield f"* depends on the data; by formula, {_foretold_rows(plan)}."
        elif _chosen(plan).how == "simulated":
            yield "* depends on the data; shown for public synthetic shapes."
        else:
            spread = f"{plan.expected_rows:,} rows" if plan.expected_rows else "an unknown number of rows"
            yield f"* depends on the data; shown for {spread} spread evenly over the cells."
    if plan.threshold is not None:
        yield f"Cells with a noisy count under {plan.threshold:,} are not published; they are known in sum only."
    if plan.every_query is not None and plan.paper is not None:
        yield (
            f"If every cell is measured, every union of cells at once is off by at most {plan.every_query:,.0f} rows, "
            f"{plan.confidence * 100:g} % sure (theorem 5.2 of TR-2010-003 promises {plan.paper:,.0f})."
        )


def _foretold_rows(plan: Plan) -> str:
    """Number of rows that a forecast by formula assumes, in words."""
    if plan.expected_rows:
        return f"for {plan.expected_rows:,} rows that lie as tables usually do"
    return "from a nearly empty table to a full one, as no expected_rows are stated"


def _telling(priced: Sequence[Outlook]) -> list[int]:
    """Indices of the questions on which mechanisms differ most, in order; questions with the same figures come last."""
    exact = [found for found in priced if found.how == "exact"] or priced

    def errors(number: int) -> list[float]:
        return [found.lines[number].stderr for found in exact]

    def spread(number: int) -> float:
        finite = [error for error in errors(number) if isfinite(error)]
        return max(finite, default=0.0) / max(min(finite, default=inf), 1e-9)

    ranked = sorted(range(len(priced[0].lines)), key=spread, reverse=True)
    stories = {tuple(_short(error) for error in errors(place)): place for place in reversed(ranked)}
    first = [place for place in ranked if place in stories.values()]
    return sorted([*first, *(place for place in ranked if place not in first)][:MOST_COMPARED])


def _chosen(plan: Plan) -> Outlook:
    return next(found for found in plan.outlooks if found.mechanism == plan.mechanism)


def _epsilon(outlook: Outlook) -> str:
    if outlook.epsilon is None:
        return "unknown"
    return f"about {readable(outlook.epsilon)}" if outlook.about else readable(outlook.epsilon)


def _overall(outlook: Outlook) -> str:
    if outlook.how in ("simulated", "foretold"):
        return _from_to(outlook.best, outlook.worst)
    return _short(outlook.overall)


def _range(line: Line) -> str:
    if line.best is not None and line.worst is not None:
        return _from_to(line.best, line.worst)
    return _short(line.stderr)


def _from_to(best: float, worst: float) -> str:
    ends = _short(best), _short(worst)
    return ends[0] if ends[0] == ends[1] else "-".join(ends)


def _short(value: float) -> str:
    if not isfinite(value):
        return "unknown"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _number(value: float, stderr: float) -> str:
    """Number printed with the decimals that its standard error deserves."""
    return f"{value:,.{decimals_for(stderr)}f}" if isfinite(value) else "unknown"
