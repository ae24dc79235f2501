"""Quantiles: the exponential mechanism on ranks, many at once, from the middle outwards; see docs/quantiles.md.

After Xiao, Xiong, Yuan, TR-2010-003, section 7, whose algorithm for the largest value is not private: a row that is
read early changes what all later rows do. Here the score of a value is minus the distance of its rank from the wanted.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import expm1, log, prod

import numpy as np

from sfumato.answers.noise_sum import upper_quantile
from sfumato.arrays import MOST_DENSE
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.lines import Lines
from sfumato.lab.papers.forms import small_table, whole_up_to
from sfumato.lab.papers.quantiles.content import Line, Quantiles
from sfumato.lab.papers.quantiles.quantile_line import Choice, choices, errors_of, runs_between
from sfumato.measurement import Laplace
from sfumato.models.base.mechanism import Figure, Forecast, Holds, Lab, Mechanism, Promises, sure
from sfumato.queries import Workload
from sfumato.schema import Schema

ROUNDS = 60  # of an iteration that gains a factor of 3 and more in each
FIVE = tuple(Fraction(k, 4) for k in range(5))


@dataclass(frozen=True)
class Options:
    """of: ordered attributes; all of them if none is named. by: attributes whose values have quantiles of their own.

    pieces: into how many each value or bin is cut.
    """

    of: tuple[str, ...] = ()
    quantiles: tuple[Fraction, ...] = FIVE
    by: tuple[str, ...] = ()
    pieces: int | None = None


@dataclass(frozen=True)
class Settings:
    """Shares of the budget: choose, for choices; count, for counts between them (their errors); total, for the rows of
    a line.

    pieces: of one value or bin. finest: the largest denominator of a quantile.
    """

    choose: int = 95
    count: int = 4
    total: int = 1
    pieces: int = 2**16
    finest: int = 1000
    most_quantiles: int = 1000


PLAIN, SETTINGS = Options(), Settings()


def quantiles(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, options: Options = PLAIN
) -> Quantiles:
    """Choose every quantile of every line by the exponential mechanism, then count the rows between them."""
    of = options.of or _ordered(schema, options.by)
    wanted = choices(options.quantiles)
    shares = budget.evenly(len(of))
    lines = [_line(curator, schema, share, name, wanted, options) for name, share in zip(of, shares, strict=True)]
    epsilon = _parts(shares[0])[0].amount
    return Quantiles(schema, options.by, tuple(sorted(set(options.quantiles))), epsilon, tuple(lines))


def _line(
    curator: Curator, schema: Schema, budget: Budget, of: str, wanted: Sequence[Choice], options: Options
) -> Line:
    pieces = options.pieces or SETTINGS.pieces
    lines = curator.lines([*options.by, of], budget, pieces=pieces)
    to_choose, to_count, to_total = _parts(budget)

    cuts = [_cuts(lines, line, wanted, to_choose) for line in range(lines.number)]
    total = lines.count([np.array([0, lines.length])] * lines.number, to_total)
    scale = float(lines.contributions / to_count.amount)
    guessed = zip(cuts, total.answers.tolist(), strict=True)
    counted = lines.count([runs_between(found, lines.length, rows, scale) for found, rows in guessed], to_count)
    return Line(of, pieces, np.array([[found[q] for q in sorted(found)] for found in cuts]), total, counted)


def _parts(budget: Budget) -> tuple[Budget, Budget, Budget]:
    choose, count, total = budget.split(SETTINGS.choose, SETTINGS.count, SETTINGS.total)
    return choose, count, total


def _cuts(lines: Lines, line: int, wanted: Sequence[Choice], budget: Budget) -> dict[Fraction, int]:
    """Choose the quantiles of one line; the position of each among the pieces."""
    cuts: dict[Fraction, int] = {}
    for one in wanted:
        first = 0 if one.above == 0 else cuts[one.above]
        end = lines.length if one.below == 1 else cuts[one.below]
        piece = first
        if end - first > 1:
            piece = lines.cut(line, one.within, Budget.pure(budget.amount * one.share), first=first, end=end)
        # The piece that was chosen belongs to those before the cut; of the least value, to those after it.
        cuts[one.quantile] = min(end, piece + (one.quantile > 0))
    return cuts


def _ordered(schema: Schema, by: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(axis.name for axis in schema.domain if axis.ordered and axis.name not in by)


def refuses(schema: Schema, workload: Workload | None, options: Options = PLAIN) -> str | None:
    """Reason why a schema or options do not fit `quantiles`, or None."""
    return _wrong_attributes(schema, options) or _wrong_quantiles(options) or _too_many(schema, options)


def _wrong_attributes(schema: Schema, options: Options) -> str | None:
    named = (*options.of, *options.by)
    if missing := next((name for name in named if name not in schema.domain), None):
        return f"there is no attribute {missing!r}; there are {', '.join(schema.domain.names)}"
    if twice := next((name for name in named if named.count(name) > 1), None):
        return f"{twice} is named twice in of and by; name it once"
    of = options.of or _ordered(schema, options.by)
    if unordered := next((name for name in of if not schema.domain[name].ordered), None):
        return f"{unordered} has no order; quantiles are of an integer, a number or a date"
    return None if of else "no attribute has an order; quantiles are of an integer, a number or a date"


def _wrong_quantiles(options: Options) -> str | None:
    if not options.quantiles or len(options.quantiles) > SETTINGS.most_quantiles:
        return f"it takes 1 to {SETTINGS.most_quantiles} quantiles, not {len(options.quantiles)}"
    if outside := next((q for q in options.quantiles if not 0 <= q <= 1), None):
        return f"a quantile lies between 0 and 1, not {float(outside):g}"
    if fine := next((q for q in options.quantiles if q.denominator > SETTINGS.finest), None):
        return f"a quantile has at most three decimals, such as 0.999; {float(fine):g} has more"
    return None


def _too_many(schema: Schema, options: Options) -> str | None:
    pieces = 1 if options.pieces is None else options.pieces
    if pieces < 1 or pieces & (pieces - 1) or pieces > SETTINGS.pieces:
        return f"pieces is 1, 2, 4, 8, ... up to {SETTINGS.pieces:,}, not {options.pieces}"
    cells = max(
        prod(schema.domain[name].size for name in (*options.by, one))
        for one in options.of or _ordered(schema, options.by)
    )
    if cells > MOST_DENSE:
        return f"lines of {cells:.3g} values are too many to lay out; take fewer groups, or wider bins"
    return None


def _promises(
    schema: Schema, budget: Budget, confidence: float, workload: Workload | None, options: Options = PLAIN
) -> Promises:
    of, groups = options.of or _ordered(schema, options.by), prod(schema.domain[name].size for name in options.by)
    longest = max(schema.domain[name].places for name in of)
    wanted = choices(options.quantiles)
    scale = schema.privacy_unit.contributions / _parts(budget.evenly(len(of))[0])[0].amount
    scales = {one.quantile: scale * one.spread / one.share for one in wanted}
    errors, figures = (
        errors_of(wanted),
        [Figure("attributes, times groups that have quantiles of their own", len(of) * groups, "lines")],
    )
    for quantile in sorted(scales):
        if quantile in (0, 1):
            end, beyond = ("least", "below") if quantile == 0 else ("greatest", "above")
            off = float(scales[quantile]) * _beyond(longest, confidence) + 1.0
            figures.append(
                Figure(f"{end} value: rows {beyond} it, at most, {sure(confidence)}, whatever the table", off)
            )
        else:
            terms = [(weight, Laplace(scales[each]), 1) for each, weight in errors[quantile].items()]
            off = upper_quantile(terms, (1.0 + confidence) / 2.0)
            figures.append(Figure(f"quantile {float(quantile):g}: its rank is within, {sure(confidence)}", off))
    return Promises(
        tuple(figures), ("Ranks are promised where rows lie densely; where many share a value, that value is found.",)
    )


def _beyond(values: int, confidence: float) -> float:
    """Bound on the rows beyond a chosen least or greatest value, in scales of the choice.

    The value that is right holds c rows, dealt out over its pieces, so that one of its pieces has a weight of
    (1 - exp(-c)) / c on average. A piece of another value has c rows beyond it at least, and if it has more than x a
    weight below exp(-x). So all of these have a chance of at most values * exp(-x) * c / (1 - exp(-c)), which is
    largest for c = x; one row more for those that are not dealt evenly.
    """
    found = start = log(values / (1.0 - confidence)) + 1.0
    for _ in range(ROUNDS):
        found = start - 1.0 + log(found / -expm1(-found))
    return found


EXAMPLE = small_table("small", age=whole_up_to(3), sex={"type": "category", "values": ["F", "M"]})


MECHANISM = Mechanism(
    name="quantiles",
    summary="median, least and greatest value and any quantiles, all at once and by group, by rank",
    run=quantiles,
    paper="TR-2010-003, section 7, corrected; Kaplan, Schnapp, Stemmer 2022",
    refuses=refuses,
    answers="its own questions",
    options=Options,
    holds=Holds(by_margins=True),
    forecast=Forecast(for_auto=False, promises=_promises),
    lab=Lab(example=EXAMPLE, tried_with={"of": "age", "by": "sex", "quantiles": "0,0.5,0.75", "pieces": "2"}),
)
