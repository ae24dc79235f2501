"""Smallest epsilon that keeps answers within an error (the problem of APEx, SIGMOD 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf, isfinite, log10, sqrt

from sfumato.errors import QueryError
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.forecast import Outlook, Question, outlook, strategy_of
from sfumato.planner.marginal_errors import stand_in
from sfumato.planner.price import Line, price, worst_of
from sfumato.planner.questions import Item
from sfumato.planner.usefulness import epsilon_for
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.cube import Cube

MOST = 1000  # epsilon, beyond which nobody is protected and noise is too small to be told from rounding
CORRECTIONS = 6  # of the guess that errors fall in proportion to epsilon
TRIALS = 4  # of mechanisms that have to be tried out, each of which takes a second or so
FARTHEST = 16.0  # times the last epsilon is the next one at most; errors of less than a row are no guide
CLOSE = 1.3  # times what was too little is near enough to the least


def least_epsilon(
    mechanism: Mechanism,
    question: Question,
    error: float,
    *,
    line_by_line: bool,
    most: float = MOST,
    at_one: Outlook | None = None,
) -> Outlook:
    """Outlook of a mechanism at the smallest epsilon that keeps every question within `error`, at the confidence.

    line_by_line: also the smallest for each question by itself, which takes longer. most: where trials end. at_one: its
    outlook at an epsilon of 1, if that is known.
    """
    at_one = at_one or outlook(mechanism, question, question.budget(mechanism, Fraction(1)), patient=line_by_line)
    if at_one.how == "not priced":
        return at_one
    try:
        if at_one.how in ("simulated", "foretold"):
            return _about(mechanism, question, error, at_one, most)
        return _exactly(mechanism, question, error, at_one, line_by_line=line_by_line)
    except QueryError as problem:
        return replace(at_one, how="not priced", lines=(), note=str(problem))


def _exactly(mechanism: Mechanism, question: Question, error: float, at_one: Outlook, *, line_by_line: bool) -> Outlook:
    """Smallest epsilon by search on the exact noise distribution; bisection where cells are published as measured."""
    strategy = strategy_of(mechanism, question, question.budget(mechanism, Fraction(1)))
    assert strategy is not None  # noqa: S101 (priced exactly)
    cube = _cube(mechanism, question, strategy, Fraction(1), counts=True)
    find = epsilon_for if mechanism.as_measured else near_epsilon

    def smallest(item: Item) -> Fraction:
        hardest = worst_of(item, cube)  # at one epsilon it is so at every other, but for the steps of whole numbers

        def within(epsilon: Fraction) -> float:
            return _line(mechanism, question, hardest, strategy, epsilon).within

        return find(within, error)

    if line_by_line:
        least = [smallest(item) for item in question.items]
        lines = [
            replace(_line(mechanism, question, item, strategy, epsilon), epsilon=epsilon)
            for item, epsilon in zip(question.items, least, strict=True)
        ]
        return replace(at_one, lines=tuple(lines), epsilon=max(least))
    hardest = max(range(len(at_one.lines)), key=lambda place: at_one.lines[place].within)
    return replace(at_one, lines=(), epsilon=smallest(question.items[hardest]))


def near_epsilon(within: Callable[[Fraction], float], error: float) -> Fraction:
    """Smallest epsilon to about three digits, for errors nearly proportional to 1 / epsilon.

    What is returned was tried, so it does keep the error.

    >>> near_epsilon(lambda epsilon: 1 / float(epsilon), 3)
    Fraction(167, 500)
    """
    epsilon = Fraction(1)
    for _ in range(CORRECTIONS):
        width = within(epsilon)
        if not isfinite(width) or (wanted := float(epsilon) * max(width, error / 1e3) / error) > MOST:
            raise _out_of_reach(error)
        settled = abs(wanted / float(epsilon) - 1) < 1e-3
        epsilon = rounded_up(wanted, 3)
        if settled:
            break
    step = epsilon / 500
    while within(epsilon) > error:
        epsilon, step = rounded_up(float(epsilon + step), 4), 2 * step
        if epsilon > MOST:
            raise _out_of_reach(error)
    return epsilon


def _line(mechanism: Mechanism, question: Question, item: Item, strategy: Strategy, epsilon: Fraction) -> Line:
    cube = _cube(mechanism, question, strategy, epsilon, counts=item.block is not None)
    line = price(item, cube, question.confidence)
    return line if isfinite(line.within) else replace(line, within=inf)


def _cube(mechanism: Mechanism, question: Question, strategy: Strategy, epsilon: Fraction, *, counts: bool) -> Cube:
    """Stand-in at an epsilon; counts: with its share of the budget for counts alone, which takes less time."""
    schema, budget = question.schema, question.budget(mechanism, epsilon)
    if counts and schema.measures:
        schema, budget = schema.model_copy(update={"measures": {}}), budget.split(*schema.weights.values())[0]
    return stand_in(mechanism, schema, budget, strategy)


def _about(mechanism: Mechanism, question: Question, error: float, at_one: Outlook, most: float) -> Outlook:
    """Smallest epsilon by simulation on the public shapes; the result was simulated and keeps the error there."""
    epsilon, forecast = Fraction(1), at_one
    too_little, enough, kept = 0.0, inf, None
    for trial in range(TRIALS):
        if trial:
            forecast = outlook(mechanism, question, question.budget(mechanism, epsilon), patient=False)
        off = max((line.within for line in forecast.lines), default=inf) / error
        if off <= 1:
            enough, kept = float(epsilon), replace(forecast, epsilon=epsilon, about=True)
        else:
            too_little = float(epsilon)
        if enough <= CLOSE * too_little or too_little >= most:
            break
        wanted = min(float(epsilon) * min(max(off, 1 / FARTHEST), FARTHEST), most)
        if not too_little < wanted < enough / 1.1:  # so that rounding up does not lead back to what was tried
            wanted = sqrt(max(too_little, enough / FARTHEST) * enough)
        epsilon = rounded_up(wanted, 2)
    if kept is None:
        raise QueryError(f"no epsilon up to {too_little:,g} was found to keep it within {error:,g}")
    return kept


def _out_of_reach(error: float) -> QueryError:
    return QueryError(f"no epsilon up to {MOST} keeps it within {error:,g}")


def rounded_up(number: float, digits: int) -> Fraction:
    """Round a number up to some significant digits.

    >>> rounded_up(0.1234, 2), rounded_up(51.2, 2)
    (Fraction(13, 100), Fraction(52, 1))
    """
    last = Fraction(10) ** (floor(log10(number)) + 1 - digits)
    return ceil(Fraction(str(number)) / last) * last
