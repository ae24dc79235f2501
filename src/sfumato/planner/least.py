"""The other way round: the smallest epsilon that keeps answers within an error (the question of APEx, SIGMOD 2019)."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, inf, isfinite, log10

from sfumato.errors import QueryError, SfumatoError
from sfumato.kernel.budget import Budget
from sfumato.mechanisms import Mechanism
from sfumato.planner.expect import Outlook, Question, cube_without_data, outlook, strategy_of
from sfumato.planner.items import Item
from sfumato.planner.price import Line, price
from sfumato.planner.usefulness import epsilon_for
from sfumato.strategies.strategy import Strategy

MOST = 1000  # epsilon, beyond which nobody is protected and noise is too small to be told from rounding
ROUNDS = 3  # of trial and correction, for mechanisms that have to be tried out


def least_epsilon(mechanism: Mechanism, question: Question, error: float, *, line_by_line: bool) -> Outlook:
    """A mechanism at the smallest epsilon that keeps every question within `error`, with the plan's confidence.

    line_by_line: also the smallest for each question by itself, which takes longer.
    """
    at_one = outlook(mechanism, question, Budget.pure(1), patient=line_by_line)
    if at_one.how == "not priced":
        return at_one
    try:
        if at_one.how == "simulated":
            return _about(mechanism, question, error, at_one)
        return _exactly(mechanism, question, error, at_one, line_by_line=line_by_line)
    except QueryError as problem:
        return replace(at_one, how="not priced", lines=(), note=str(problem))


def _exactly(mechanism: Mechanism, question: Question, error: float, at_one: Outlook, *, line_by_line: bool) -> Outlook:
    """By bisection on the exact law of the noise."""
    strategy = strategy_of(mechanism, question.schema, question.workload, Budget.pure(1))

    def smallest(item: Item) -> Fraction:
        def within(epsilon: Fraction) -> float:
            if mechanism.strategy is not None and epsilon > MOST:
                raise _out_of_reach(error)
            return _line(mechanism, question, item, strategy, epsilon).within

        return epsilon_for(within, error)

    if line_by_line:
        least = [smallest(item) for item in question.items]
        lines = [
            replace(_line(mechanism, question, item, strategy, epsilon), epsilon=epsilon)
            for item, epsilon in zip(question.items, least, strict=True)
        ]
        return replace(at_one, lines=tuple(lines), epsilon=max(least))
    # The question that is hardest at one epsilon is so at every other, but for the steps of whole numbers.
    hardest = max(range(len(at_one.lines)), key=lambda place: at_one.lines[place].within)
    return replace(at_one, lines=(), epsilon=smallest(question.items[hardest]))


def _line(mechanism: Mechanism, question: Question, item: Item, strategy: Strategy | None, epsilon: Fraction) -> Line:
    cube = cube_without_data(mechanism, question.schema, Budget.pure(epsilon), strategy)
    found = price(item, cube, question.confidence)
    return found if isfinite(found.within) else replace(found, within=inf)


def _about(mechanism: Mechanism, question: Question, error: float, at_one: Outlook) -> Outlook:
    """By trial on the public shapes, each time with the epsilon that the last trial points to."""
    epsilon, found = Fraction(1), at_one
    for _ in range(ROUNDS):
        off = max(line.within for line in found.lines) / error
        if not isfinite(off):
            break
        epsilon = two_digits(float(epsilon) * max(off, 1e-3))
        if epsilon > MOST:
            raise _out_of_reach(error)
        try:
            found = outlook(mechanism, question, Budget.pure(epsilon))
        except SfumatoError as problem:
            return replace(at_one, how="not priced", lines=(), note=str(problem))
    return replace(found, epsilon=epsilon, about=True)


def _out_of_reach(error: float) -> QueryError:
    return QueryError(f"no epsilon up to {MOST} keeps it within {error:,g}")


def two_digits(number: float) -> Fraction:
    """A number rounded up to two significant digits.

    >>> two_digits(0.1234), two_digits(51.2)
    (Fraction(13, 100), Fraction(52, 1))
    """
    last = Fraction(10) ** (floor(log10(number)) - 1)
    return ceil(Fraction(str(number)) / last) * last
