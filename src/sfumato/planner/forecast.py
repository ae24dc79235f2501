"""Forecast the error of a mechanism at a budget: exact for data-independent noise, else by simulation or formula.

Every mechanism has one forecast, used by both a plan and `auto`. One over marginals has a formula of its own. An
adaptive one is simulated on public tables, with few cells and a stated number of rows. With more cells that takes too
long, and without a number of rows there is nothing to simulate. Then the forecast is its error on a full table, which
follows from the workload, times a factor that depends on rows per cell (tabulated from benchmarks/choosing.py), or that
factor's mean over all fullnesses if no rows are stated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from fractions import Fraction
from math import inf, isfinite, sqrt
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain.predicates import Predicate
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget, Cost
from sfumato.kernel.charge import noise_for
from sfumato.least_squares.expected_error import MOST_INVERTED
from sfumato.models.base.mechanism import Mechanism
from sfumato.planner.marginal_errors import expected_blocks, table
from sfumato.queries import Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema

if TYPE_CHECKING:  # a choice prices strategies and lists no questions
    from sfumato.models.base.mechanism import ErrorIfFull, Figure, Foresight
    from sfumato.planner.questions import Item, Line
    from sfumato.planner.simulate import Trials

# By mechanism, budget, and the most work that was allowed.
Tried = dict[tuple[str, Budget, "int | None"], "Trials"]
How = Literal["exact", "simulated", "foretold", "promised", "not priced"]

MOST_TRIED = 2**9  # cells up to which one that adapts is tried, in half a second; beyond, it is foretold
FULLNESS = (0.01, 0.1, 1.0, 10.0, 100.0, 1000.0)  # rows times epsilon per cell
# What sfumato has of its error on a full table, for each of these: geometric means over benchmarks/choosing.py.
GAINS_OF_FEW = (0.17, 0.32, 0.59, 0.79, 0.79, 0.83)  # one and two attributes
GAINS_OF_MANY = (0.053, 0.11, 0.29, 0.51, 0.61, 0.61)  # three and more
MOST_OPTIMISED = 2**10  # cells of one attribute beyond which optimising takes longer than a plan should
MOST_KINDS = 256  # and kinds of query, likewise
MOST_COMBINED = 2**20  # and cells in all
TYPICAL = ("smooth", "rough")  # shapes on which one that is tried is tried again, at twice the epsilon
MOST_WORK = 2**25  # numbers changed, half a second or so, after which others are tried on no further shape
MOST_QUERIES = 2**12  # of a workload, beyond which nobody would have each of them measured
MOST_ANSWERED = 2**22  # queries times cells, beyond which it takes long to say what these would tell of each other


@dataclass(frozen=True)
class Outlook:
    """Forecast of one mechanism at one budget.

    overall: root mean square error over the weighted workload, in rows; best, worst: on the best and the worst
    synthetic shape, or with the fewest and the most rows where none are stated. asked: error over what a user named, if
    the workload is tilted. note: why it was not priced, or what figures rest on. lines: errors of single
    questions. epsilon: the smallest that keeps all lines within a wanted error; about: whether found by simulation.
    promises: guarantees of a mechanism with a purpose of its own, in place of lines.
    """

    mechanism: str
    how: How
    lines: tuple[Line, ...] = ()
    overall: float = inf
    best: float = inf
    worst: float = inf
    note: str = ""
    epsilon: Fraction | None = None
    about: bool = False
    promises: tuple[Figure, ...] = ()
    asked: float = inf

    @property
    def named(self) -> float:
        """Error over the queries that a user named, or over the whole workload if it has no others."""
        return self.asked if isfinite(self.asked) else self.overall


@dataclass(frozen=True, eq=False)
class Question:
    """Inputs of a plan, without budget and mechanism.

    strategies, trials: caches of strategies and simulations, as either takes time. delta: what a release may spend
    besides its epsilon, if its noise is Gaussian.
    """

    schema: Schema
    items: tuple[Item, ...]
    workload: Workload
    confidence: float = 0.95
    runs: int = 1
    strategies: dict[tuple[str, bool], Strategy] = field(default_factory=dict)
    delta: Fraction = Fraction(0)
    trials: Tried = field(default_factory=dict)

    def budget(self, mechanism: Mechanism, epsilon: Fraction) -> Budget:
        """Budget that a mechanism would spend; without Gaussian noise it has no use for a delta."""
        return Cost(epsilon, self.delta if mechanism.gaussian else Fraction(0)).budget


def outlook(
    mechanism: Mechanism, question: Question, budget: Budget, *, bounds: bool = True, patient: bool = True
) -> Outlook:
    """Forecast of a mechanism; one that cannot be priced says why.

    bounds: also how far off the worst answers are at most, which takes longer. patient: price it even if that is slow.
    """
    schema, name = question.schema, mechanism.name
    if (served := mechanism.serves(question.workload)) is not None and served is not question.workload:
        question = replace(question, workload=served)
    refused = mechanism.why_not(schema, question.workload)
    if refused is None and not patient:
        refused = takes_long(mechanism, question)
    if refused is not None:
        return Outlook(name, "not priced", note=refused)
    strategy = strategy_of(mechanism, question, budget)
    if strategy is not None:
        return _exact(mechanism, question, budget, strategy, bounds=bounds)
    if mechanism.forecast.foretold is not None:
        return _by_formula(mechanism, question, budget, mechanism.forecast.foretold(schema, budget, question.workload))
    if mechanism.adaptive and not may_try(schema):
        return _foretold(mechanism, question, budget)
    return _tried(mechanism, question, budget, None if patient or mechanism.adaptive else MOST_WORK)


def may_try(schema: Schema) -> bool:
    """Whether an adaptive mechanism is simulated; otherwise its forecast is by formula."""
    return schema.expected_rows is not None and schema.domain.size <= MOST_TRIED


def noise_of_one_query(schema: Schema, budget: Budget) -> float:
    """Standard error of one counting query that spends the count's whole budget."""
    share, contributions = budget.split(*schema.weights.values())[0], schema.most_of_a_unit
    return sqrt(noise_for(share, contributions, l1=Fraction(1), l2_squared=Fraction(1)).variance)


def share_of_full(schema: Schema, budget: Budget) -> tuple[float, float, float]:
    """Ratio of an adaptive mechanism's error to that on a full table: expected, least, greatest.

    Interpolated by fullness: rows per cell over the scale of the noise of one query. If no rows are stated, the
    geometric mean over all fullnesses is expected; of the table for one and two attributes even if there are more, as
    the other would promise most where nothing says that a table is sparse.
    """
    gains = np.log(GAINS_OF_FEW if len(schema.domain.shape) < 3 else GAINS_OF_MANY)
    if schema.expected_rows is None:
        return float(np.exp(np.log(GAINS_OF_FEW).mean())), float(np.exp(gains.min())), float(np.exp(gains.max()))
    noise = max(noise_of_one_query(schema, budget), 1e-9) / sqrt(2.0)
    fullness = max(1, schema.expected_rows) / schema.possible_cells / noise
    share = float(np.exp(np.interp(np.log(fullness), np.log(FULLNESS), gains)))
    return share, share, share


def takes_long(mechanism: Mechanism, question: Question) -> str | None:
    """Reason why a mechanism is priced only when asked for by name; None if it is quick."""
    domain, queries = question.schema.domain, question.workload.queries.rows
    cells, kinds, name = domain.size, len(question.workload.blocks), mechanism.name
    linked = question.schema.structure is not None and cells > MOST_INVERTED  # priced by iteration, row by row
    if mechanism.forecast.optimised and (
        max(domain.shape) > MOST_OPTIMISED or cells > MOST_COMBINED or kinds > MOST_KINDS or linked
    ):
        return f"takes long to optimise for {cells:,} cells and {kinds} kinds of query; plan it with --mechanism {name}"
    if mechanism.answers == "its workload":
        if queries > MOST_QUERIES:
            return f"adds noise to each of {queries:,} queries; give the ones that matter with --workload"
        if queries * cells > MOST_ANSWERED:
            return f"takes long to price for {queries:,} queries over {cells:,} cells; plan it with --mechanism {name}"
    return None


def strategy_of(mechanism: Mechanism, question: Question, budget: Budget) -> Strategy | None:
    """Strategy of a mechanism, cached; None where it depends on the data."""
    if mechanism.forecast.strategy is None:
        return None
    key = mechanism.name, budget.is_pure
    if key not in question.strategies:
        question.strategies[key] = mechanism.forecast.strategy(question.schema, question.workload, key[1])
    return question.strategies[key]


def expected_error(mechanism: Mechanism, question: Question, budget: Budget) -> Outlook | None:
    """Forecast over the weighted workload, without lines for single questions; None if it depends on the data."""
    strategy = strategy_of(mechanism, question, budget)
    if strategy is None:
        return None
    errors = expected_blocks(strategy, question.schema, budget, question.workload.blocks)
    overall, asked = question.workload.overall(errors), _of_named(question.workload, errors)
    return Outlook(mechanism.name, "exact", (), overall, overall, overall, asked=asked)


def _exact(mechanism: Mechanism, question: Question, budget: Budget, strategy: Strategy, *, bounds: bool) -> Outlook:
    """Exact forecast of a strategy; single questions are priced on a stand-in of the release (marginal_errors.py)."""
    from sfumato.planner.marginal_errors import stand_in
    from sfumato.planner.questions import price

    cube = stand_in(mechanism, question.schema, budget, strategy)
    blocks = list(question.workload.blocks)
    extra = [item.block for item in question.items if item.block is not None and item.block not in blocks]
    errors = expected_blocks(strategy, question.schema, budget, blocks + extra)
    computed = {id(block): float(error) for block, error in zip(blocks + extra, errors, strict=True)}
    lines = [price(item, cube, question.confidence, computed.get(id(item.block)), bounds) for item in question.items]
    overall = question.workload.overall(errors[: len(blocks)])
    note = "" if isfinite(overall) else "it does not determine every count that is asked for"
    asked = _of_named(question.workload, errors)
    return Outlook(mechanism.name, "exact", tuple(lines), overall, overall, overall, note, asked=asked)


def _of_named(workload: Workload, errors: Floats) -> float:
    """Error over the named part of a tilted workload, from errors of all its blocks, (blocks and more,)."""
    named = workload.asked
    return named.overall(errors[: len(named.blocks)])


def _by_formula(mechanism: Mechanism, question: Question, budget: Budget, foresight: Foresight) -> Outlook:
    """Forecast of a mechanism over marginals; statements that its formula does not cover are asked of one trial."""
    errors = np.array([foresight.of_block(block) for block in question.workload.blocks])
    lines = list(formula_lines(foresight, question.items, question.schema, question.confidence))
    for place, item in enumerate(question.items):
        if not isfinite(lines[place].stderr):
            tried = _tried(mechanism, replace(question, items=(item,)), budget, 0)
            lines[place] = tried.lines[0] if tried.lines else lines[place]
    overall, asked = question.workload.overall(errors), _of_named(question.workload, errors)
    return Outlook(mechanism.name, "foretold", tuple(lines), overall, overall, overall, asked=asked)


def formula_lines(foresight: Foresight, items: Sequence[Item], schema: Schema, confidence: float) -> tuple[Line, ...]:
    """Errors of questions by a formula over marginals; inf for statements that are neither counts nor totals."""
    from sfumato.planner.questions import Line

    wide = NormalDist().inv_cdf((1 + confidence) / 2)
    lines = []
    for item in items:
        total, error = _total_of(item), inf
        if item.block is not None:
            error = foresight.of_block(item.block)
        elif total is not None and total[0] in foresight.of_sums:
            measure, off = schema.summed[total[0]], foresight.of_sums[total[0]]
            middle = float(measure.lower + measure.upper) / 2.0 * foresight.by_kind["all rows"]
            error = off / max(schema.expected_rows or 1, 1) if total[1] else sqrt(off**2 + middle**2)
        lines.append(Line(item.query, error, wide * error, item.unit, True))
    return tuple(lines)


def _total_of(item: Item) -> tuple[str, bool] | None:
    """Measure whose sum or average over all rows a statement asks for, and whether it is the average; else None."""
    if item.select is None or item.select.group_by or len(item.select.aggregates) != 1:
        return None
    (column,) = item.select.aggregates
    if column.kind not in ("sum", "average") or len(column.numerator) != 1:
        return None
    (amount,) = column.numerator
    plain = amount.of is not None and amount.predicate == Predicate.everything()
    return (amount.of, column.kind == "average") if plain and amount.of is not None else None


def _foretold(mechanism: Mechanism, question: Question, budget: Budget) -> Outlook:
    """Forecast of an adaptive mechanism from its error on a full table; lines are scaled from a simulation, if any."""
    schema, full = question.schema, mechanism.forecast.error_if_full
    assert full is not None  # noqa: S101 (it adapts)
    error = full(schema, question.workload, budget)
    middle, least, most = (share * error for share in share_of_full(schema, budget))
    forecast = Outlook(mechanism.name, "foretold", (), middle, least, most)
    if question.workload.named:
        named = full(schema, question.workload, budget, of=question.workload.asked)
        forecast = replace(forecast, asked=middle / max(error, 1e-9) * named)
    else:
        forecast = replace(forecast, asked=middle)
    if not question.items:
        return forecast
    tried = _tried(mechanism, question, budget, None)
    if tried.how != "simulated":
        return replace(forecast, lines=_if_full(mechanism, question, budget, full, middle / max(error, 1e-9)))
    times = middle / tried.overall
    lines = tuple(
        line if item.block is None else line.times(times)
        for item, line in zip(question.items, tried.lines, strict=True)
    )
    if schema.expected_rows is not None:
        least, most = times * tried.best, times * tried.worst
    return replace(forecast, lines=lines, best=least, worst=most)


def _if_full(
    mechanism: Mechanism, question: Question, budget: Budget, full: ErrorIfFull, share: float
) -> tuple[Line, ...]:
    """Lines by formula where there are too many cells to simulate: `share` of the errors on a full table.

    Single values gain more from what is empty than sums of many. By how much is tried on a thinned table, where the
    simulated errors of the same kinds of query are compared with those of the formula.
    """
    from sfumato.planner.questions import Line

    schema, wide = question.schema, NormalDist().inv_cdf((1 + question.confidence) / 2)
    times = _times_formula(mechanism, question, budget, full)
    lines = []
    for item in question.items:
        error = inf
        if item.block is not None:
            of = Workload((item.query,), (item.block,))
            error = share * times.get(item.query, 1.0) * full(schema, question.workload, budget, of=of)
        lines.append(Line(item.query, error, wide * error, item.unit, True))
    return tuple(lines)


def _times_formula(mechanism: Mechanism, question: Question, budget: Budget, full: ErrorIfFull) -> dict[str, float]:
    """Ratio of simulated error to that by formula on a thinned table, by question; single queries are left out."""
    from sfumato.planner.simulate import thinned, thinned_queries

    schema, small = question.schema, thinned(question.schema)
    domains = schema.domain, small.domain
    blocks = {item: thinned_queries(item.block, *domains) for item in question.items if item.block is not None}
    items = {item: replace(item, block=block) for item, block in blocks.items() if block is not None and block.rows > 1}
    served = [thinned_queries(block, *domains) for block in question.workload.blocks]
    workload = default_workload(small.domain)
    if None not in served:
        workload = replace(question.workload, blocks=tuple(block for block in served if block is not None))
    share, tables = budget.split(*schema.weights.values())[0], tuple(items.values())
    tried = _tried(mechanism, Question(small, tables, workload, question.confidence, question.runs), share, None)
    if tried.how != "simulated":
        return {}
    of_full = share_of_full(small, share)[0]
    by_formula = [
        of_full * full(small, workload, share, of=Workload((each.query,), (each.block,)))
        for each in tables
        if each.block is not None
    ]
    pairs = zip(items, tried.lines, by_formula, strict=True)
    return {item.query: line.stderr / error for item, line, error in pairs if error > 0.0}


def one_way_forecast(mechanism: Mechanism, schema: Schema, workload: Workload, budget: Budget) -> dict[str, float]:
    """Forecast error of one value of each attribute, as a plan shows it; empty where nothing is priced."""
    from sfumato.planner.questions import Item

    items = {axis.name: Item(axis.name, "rows", table(schema, (axis,))) for axis in schema.domain}
    lines = outlook(mechanism, Question(schema, tuple(items.values()), workload), budget).lines
    return {line.query: line.stderr for line in lines}


def error_at_twice(mechanism: Mechanism, question: Question, budget: Budget, twice: Budget, before: Outlook) -> float:
    """Error over the workload at the budget `twice`. before: the forecast at `budget`.

    A simulated forecast is multiplied by the ratio of the simulated errors at both on two public shapes (TYPICAL).
    """
    if before.how != "simulated":
        return outlook(mechanism, replace(question, items=()), twice, bounds=False).overall
    from sfumato.planner.simulate import geometric_mean, root_mean_square, try_out

    blocks, overall = question.workload.blocks, question.workload.overall

    def middle(trials: Trials) -> float:
        errors = [{shape: root_mean_square(off) for shape, off in trials.errors(block).items()} for block in blocks]
        return geometric_mean([overall(np.array([each[shape] for each in errors])) for shape in TYPICAL])

    try:
        then = try_out(mechanism, question.schema, twice, question.workload, question.runs, shapes=TYPICAL)
        once = next(each for facts, each in question.trials.items() if facts[:2] == (mechanism.name, budget))
    except SfumatoError:
        return inf
    return before.overall * middle(then) / middle(once) if set(TYPICAL) <= set(once.by_shape) else inf


def _tried(mechanism: Mechanism, question: Question, budget: Budget, most: int | None) -> Outlook:
    """Forecast by simulation on the public shapes, cached, where there are not too many cells."""
    from sfumato.planner.simulate import (
        MOST_SIMULATED,
        SHAPES,
        geometric_mean,
        root_mean_square,
        simulated_line,
        try_out,
    )

    if question.schema.domain.size > MOST_SIMULATED:
        note = f"the error depends on the data, and is tried out on at most {MOST_SIMULATED:,} cells"
        return Outlook(mechanism.name, "not priced", note=note)
    facts = mechanism.name, budget, most
    try:
        trials = question.trials.get(facts)
        if trials is None:
            trials = try_out(mechanism, question.schema, budget, question.workload, question.runs, most)
            question.trials[facts] = trials
    except SfumatoError as problem:
        return Outlook(mechanism.name, "not priced", note=str(problem))
    shapes: dict[str, list[float]] = {shape: [] for shape in trials.by_shape}
    for block in question.workload.blocks:
        for shape, errors in trials.errors(block).items():
            shapes[shape].append(root_mean_square(errors))
    overall = [question.workload.overall(np.array(blocks)) for blocks in shapes.values()]
    asked = geometric_mean([_of_named(question.workload, np.array(blocks)) for blocks in shapes.values()])
    lines = [simulated_line(item, trials, question.schema, budget, question.confidence) for item in question.items]
    note = "" if len(shapes) == len(SHAPES) else f"it is slow, so it was tried on some shapes only: {', '.join(shapes)}"
    middle = geometric_mean(overall)
    return Outlook(mechanism.name, "simulated", tuple(lines), middle, min(overall), max(overall), note, asked=asked)
