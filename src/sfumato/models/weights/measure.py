"""Multiplicative weights over cells: MWEM and PMW, which learn from the queries that an estimate answers worst.

Update (Hardt, Ligett, McSherry, NIPS 2012, figure 1): for a query row a with noisy answer y and an estimate x of total
N, x_c <- x_c exp(a_c (y - a . x) / 2N), renormalised to N, with several passes over all answers. The paper's entries
lie between -1 and 1; rows with larger ones are divided by their largest. Answers that no table of this total could give
are clipped to the nearest possible one.

No noise tells the error of the estimate where no query was measured; so a tenth of the budget measures the misfit over
the workload and by kind of query, and intervals are calibrated to it.

MWEM (Hardt, Ligett, McSherry, A simple and practical algorithm for differentially private data release, NIPS 2012):
queries chosen by the exponential mechanism. Corrected: the paper takes the number of rows as known; here it is
measured. The complement of a measured query adds no sensitivity, so it is measured along with it at no cost. The paper
publishes the mean of all rounds' estimates; with its own improvement, several passes over all answers, the last
estimate is better and is what is published.

PMW (Hardt, Rothblum, A multiplicative weights mechanism for privacy-preserving data analysis, FOCS 2010): queries
chosen by the sparse vector technique. Corrected: they take the number of rows as known; here it is measured. Queries
come from the workload, in its order, since a release is made once; where no misfit exceeds the threshold any more, it
is halved and the queries are gone through again, so that the whole budget is of use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from math import ceil, gcd, isqrt, log
from typing import Any

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Partition
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import Misfit
from sfumato.measurement import Laplace, Measurement
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.base.mechanism import Forecast, Holds, Lab, Limit, Mechanism, Work
from sfumato.models.calibration.first_stage import Counted, counted_beside_shape
from sfumato.models.calibration.fit import EMPTY, TWO_RANGES, MeasuredShape
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.calibration.model_error import allow_for_noise, deviation_of_shape
from sfumato.models.linear.fit import LinearFit
from sfumato.models.weights.fit import ScaledShape
from sfumato.queries import Identity, Queries, Selected, Stack, Weighted, Workload, default_workload
from sfumato.queries.workload import GOLDEN
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

WRITTEN_OUT = 2**24  # entries of all rows together, up to which they are kept between passes


def multiplicative_weights(estimate: Floats, queries: Queries, answers: Floats, *, passes: int = 20) -> Floats:
    """Multiplicative-weights estimate after `passes` passes over all rows: x * exp(row (answer - row x) / (2 total)).

    estimate: starting values, (cells,). answers: (rows,). The total is unchanged, and a cell that is 0 stays 0.

    >>> from sfumato.queries import Ranges
    >>> moved = multiplicative_weights(np.full(4, 25.0), Ranges(4, [0], [1]), np.array([80.0]), passes=99)
    >>> moved.round(1).tolist()
    [40.0, 40.0, 10.0, 10.0]
    """
    cells, targets = np.array(estimate, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    total = float(cells.sum())
    if cells.shape != (queries.columns,) or not (cells >= 0).all() or not 0 < total < np.inf:
        raise QueryError(f"multiplicative weights need {queries.columns} cells, none below 0 and not all of them 0")
    if targets.shape != (queries.rows,) or not np.isfinite(targets).all():
        raise QueryError(f"multiplicative weights need a finite answer for each of the {queries.rows} rows")
    written = queries.dense() if queries.rows * queries.columns <= WRITTEN_OUT else None
    for _ in range(passes):
        for index in range(queries.rows):
            row = queries.row(index) if written is None else written[index]
            cells = _moved(cells, total, row, targets[index])
    return cells


def _moved(cells: Floats, total: float, row: np.ndarray, answer: float) -> Floats:
    """One multiplicative-weights update of cells (cells,) towards a noisy answer."""
    largest = float(np.abs(row).max())
    if largest == 0.0:
        return cells
    possible = min(max(answer, total * float(row.min())), total * float(row.max()))
    pull = (possible - float(row @ cells)) / (2.0 * total * largest**2)
    moved = cells * np.exp(pull * row)
    return np.asarray(moved * (total / moved.sum()))


MOST_CHECKED = 2**16  # queries over which the finished estimate's error is measured
MOST_CELLS = 2**22
MOST_MOVES = 2**27  # cells moved in all: over large domains there are fewer rounds
A_STEP, AN_ANSWER = 3000, 8  # work of one small step besides its cells, and of one answer, in numbers changed


@dataclass(frozen=True)
class Learning:
    """Settings of multiplicative weights; chosen by judgement, but for the number of rounds.

    shares: of the count's budget, for the total, for the rounds, for measuring the error of the result.
    rounds: more touch more queries, each with more noise. None: sqrt(rows * epsilon) / 4 by the noisy total, since more
    rows show more structure above the noise. The rule was found by simulation on synthetic distributions, where
    anything from half to double of it costs little.
    fewest, most: bounds on the number of rounds.
    passes: over all answers so far, after each round; more fit closer and take longer.
    """

    shares: tuple[int, int, int] = (1, 8, 1)
    rounds: int | None = None
    fewest: int = 4
    most: int = 64
    passes: int = 4


def sampled(workload: Workload, most: int) -> Queries:
    """Deterministic sample of about `most` queries of a workload, by each block's share; reads no data.

    Rows are taken in steps of the golden section, a low-discrepancy sequence.

    >>> from sfumato.queries import AllRanges
    >>> sampled(Workload(("ranges",), (AllRanges(100),)), 50).rows
    50
    """
    rooms = np.maximum(1, np.floor(most * workload.shares + 1e-9).astype(np.int64)).tolist()
    parts = [_spaced(block, room) for block, room in zip(workload.blocks, rooms, strict=True)]
    return parts[0] if len(parts) == 1 else Stack(*parts)


def _spaced(block: Queries, room: int) -> Queries:
    """Golden-section sample of `room` distinct rows of a block."""
    if block.rows <= room:
        return block
    step = max(1, round(GOLDEN * block.rows))
    while gcd(step, block.rows) > 1:  # so that no row is taken twice
        step += 1
    # In Python's integers: the products of a large block leave 64 bits.
    return block[np.array(sorted(step * index % block.rows for index in range(room)), dtype=np.int64)]


def measure_total(curator: Curator, budget: Budget) -> LinearFit:
    """Noisy number of rows, as a least-squares fit over one bucket that holds all cells."""
    everything = Partition(curator.domain, np.zeros(curator.domain.size, dtype=np.int64))
    return LinearFit.of_answers(curator.reduce(everything).measure(Identity(1), budget))


def even_start(total: LinearFit, cells: int, possible: Flags | None = None) -> Floats:
    """Uniform starting estimate of the noisy total, which is taken as at least its noise and one row, (cells,).

    possible: flags of the cells that are no structural zeros, (cells,), which alone hold rows; None: all.
    """
    there = np.ones(cells) if possible is None else possible.astype(np.float64)
    rows = max(float(total.estimate[0]), total.measurement.noise.variance**0.5, 1.0)
    return np.asarray(there * (rows / there.sum()), dtype=np.float64)


def rounds_for(rows: float, budget: Budget, contributions: int, cells: int, how: Learning) -> int:
    """Number of rounds for a table of about `rows` rows: sqrt(rows * epsilon) / 4 within bounds."""
    if how.rounds is not None:
        return how.rounds
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    strength = max(0.0, rows) * float(budget.epsilon) / contributions
    return max(1, min(max(how.fewest, isqrt(int(strength)) // 4), how.most, isqrt(MOST_MOVES // cells)))


def shaping_work(most: int, how: Learning) -> Work:
    """Cost of multiplicative weights with at most `most` candidate queries, in numbers changed in memory.

    Every round answers all candidates and passes several times over the answers so far, a query and its complement a
    round.
    """

    def work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
        cells, share = schema.domain.size, budget.split(*schema.weights.values())[0]
        rounds = rounds_for(rows, share, schema.most_of_a_unit, cells, how)
        return (rounds + 1) * (rounds * how.passes * (A_STEP + cells) + AN_ANSWER * _answers(sampled(workload, most)))

    return work


def _answers(asked: Queries) -> int:
    """Number of answers computed: a selection from a family is answered by answering the whole family."""
    if isinstance(asked, Stack):
        return sum(_answers(block) for block in asked.blocks)
    return asked.queries.rows if isinstance(asked, Selected) else asked.rows


def with_rest(row: Codes) -> Queries:
    """Query and its complement. Together every cell has the same column sum, so the complement costs no budget.

    row: (cells,). The complement of a query that touches no cell is the total: something is measured in any case.
    """
    complement = max(1, int(np.abs(row).max())) - np.abs(row)
    return Weighted(np.stack([row, complement] if complement.any() else [row]))


def misfit_of(queries: Queries, estimate: Floats) -> Misfit:
    """Misfit scores |truth - estimate| of queries, the estimate's answers rounded to whole rows; estimate: (cells,)."""
    return Misfit(queries, np.rint(queries @ estimate).astype(np.int64))


def learn(estimate: Floats, seen: Sequence[Measurement], how: Learning) -> Floats:
    """Multiplicative-weights estimate from all measurements so far, (cells,)."""
    answers = np.concatenate([measured.answers for measured in seen])
    queries = Stack(*(measured.queries for measured in seen))
    return multiplicative_weights(estimate, queries, answers.astype(np.float64), passes=how.passes)


def shaped_fit(
    curator: Curator,
    total: LinearFit,
    estimate: Floats,
    workload: Workload,
    budget: Budget,
    whole: Budget,
    counted: Counted,
    possible: Flags | None = None,
) -> MeasuredShape:
    """Fit a total times a distribution, update it with one-way marginals (GLS), and calibrate its error privately.

    estimate: (cells,). Half of `budget` measures the mean misfit of the workload's queries, half its variation by kind
    of query. whole: budget of all of the count's measurements. counted: first-stage marginals, if any. possible: flags
    of the cells that are no structural zeros, (cells,).
    """
    for_workload, for_kinds = budget.split(1, 1)
    queries = sampled(workload, MOST_CHECKED)
    fit = ScaledShape.like(total, estimate)
    measured = curator.measure_misfit(misfit_of(queries, fit.estimate), for_workload)
    noise = measured.noise
    assert isinstance(noise, Laplace)  # noqa: S101 (pure epsilon only)
    mean, scale = float(measured.answers[0]) / queries.rows, float(noise.scale) / queries.rows
    spread = deviation_of_shape(allow_for_noise(mean, scale), *fit.variances(queries))
    brought = counted.bring_all(fit.with_spread(spread, measured))
    known = counted.first.known | {TWO_RANGES}  # blocks were counted
    scales, misfits = measure_errors(curator, brought, for_kinds, whole, known, seen=False)
    # The mean over a kind says little of its largest question, where rows are heaped: none is claimed to be better
    # known than the workload's queries are.
    factors = np.where(scales.kinds == EMPTY, scales.factors, np.maximum(scales.factors, 1.0))
    return MeasuredShape.of_brought(brought, curator.domain, replace(scales, factors=factors), misfits, possible)


def shape_refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Reason why a workload has no multiplicative-weights fit, or None."""
    if workload is not None and not workload.queries.integral:
        return "the workload has weights that are not whole numbers; hierarchical and matrix take any weights"
    return None


Rounds = Callable[[Curator, Queries, Floats, Sequence[Budget]], tuple[Floats, Fraction]]


def _learned(
    curator: Curator,
    schema: Schema,
    budget: Budget,
    workload: Workload | None,
    settings: Learning,
    most: int,
    rounds: Rounds,
) -> Cube:
    """Publish a multiplicative-weights fit to the queries that `rounds` finds among at most `most`.

    budget: split by weight over the count and the measures, which get noise on every cell. The count's share goes to
    one-way marginals where these pay, to the total, to measuring the error of the result, and the rest evenly to the
    rounds. What these leave unspent measures the error as well.
    """
    workload = workload or default_workload(schema.domain)
    queries = sampled(workload, most)
    for_count, *for_measures = budget.split(*schema.weights.values())
    possible = schema.possible
    counted, for_learning = counted_beside_shape(curator, for_count, possible)
    for_total, for_rounds, for_misfit = for_learning.split(*settings.shares)
    total = measure_total(curator, for_total)
    x_hat, k = even_start(total, curator.domain.size, possible), curator.charge.contributions
    number = rounds_for(float(total.estimate[0]), for_count, k, curator.domain.size, settings)
    x_hat, unspent = rounds(curator, queries, x_hat, for_rounds.evenly(number))
    for_misfit = Budget.pure((for_misfit.epsilon or 0) + unspent)
    count = shaped_fit(curator, total, x_hat, workload, for_misfit, for_count, counted, possible)
    return Cube(schema, fits=(count, *plain_cells(curator, for_measures)))


def _mechanism(name: str, summary: str, paper: str, run: Any, most: int, settings: Learning, limit: float) -> Mechanism:
    """Mechanism that learns from at most `most` queries. limit: known coverage of cells' intervals on sparse tables."""
    return Mechanism(
        name=name,
        summary=summary,
        paper=paper,
        run=run,
        refuses=shape_refuses,
        holds=Holds(most_cells=MOST_CELLS, zeros=True),
        forecast=Forecast(checks_itself=True, work=shaping_work(most, settings)),
        lab=Lab(known_limits=(Limit("sparse", "cell", limit),)),
    )


# -- mwem


@dataclass(frozen=True)
class Candidates(Learning):
    """Settings of MWEM, chosen by judgement.

    most_candidates: queries that the exponential mechanism chooses from; more are closer to the whole workload and
    slower.
    """

    most_candidates: int = 2**16


CANDIDATES = Candidates()


def mwem(
    curator: Curator,
    schema: Schema,
    budget: Budget,
    workload: Workload | None = None,
    *,
    settings: Candidates = CANDIDATES,
) -> Cube:
    """Publish a multiplicative-weights fit, round by round, to the query with the largest misfit."""

    def rounds(curator: Curator, queries: Queries, x_hat: Floats, shares: Sequence[Budget]) -> tuple[Floats, Fraction]:
        seen: list[Measurement] = []
        for share in shares:
            to_select, to_measure = share.split(1, 1)
            worst = curator.select(misfit_of(queries, x_hat), to_select)
            seen.append(curator.measure(with_rest(queries.row(worst)), to_measure))
            x_hat = learn(x_hat, seen, settings)
        return x_hat, Fraction(0)

    return _learned(curator, schema, budget, workload, settings, settings.most_candidates, rounds)


MWEM = _mechanism(
    "mwem",
    "learns a table from the queries it answers worst",
    "Hardt, Ligett, McSherry 2012",
    mwem,
    CANDIDATES.most_candidates,
    CANDIDATES,
    0.20,
)


# -- pmw


@dataclass(frozen=True)
class Stream(Learning):
    """Settings of PMW, chosen by judgement.

    most_queries: number of queries in the stream; each adds noise to the search, so fewer are found more surely.
    patience: first threshold, in noise scales of the search times the log of the number of queries; a higher one
    corrects fewer queries at first, and is halved later.
    """

    most_queries: int = 2**12
    patience: int = 4


STREAM = Stream()


def pmw(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Stream = STREAM
) -> Cube:
    """Publish a multiplicative-weights fit to the queries whose misfit exceeds a threshold.

    Half of each round's budget finds the next query above the threshold (sparse vector), half measures it.
    """

    def rounds(curator: Curator, queries: Queries, x_hat: Floats, shares: Sequence[Budget]) -> tuple[Floats, Fraction]:
        to_find, to_measure = shares[0].split(1, 1)
        threshold = search_noise(to_find, queries.rows, curator.charge.contributions, settings)
        seen: list[Measurement] = []
        start, unspent = 0, Fraction(0)
        for _ in shares:
            bad = curator.first_above(misfit_of(queries, x_hat), threshold, to_find, start=start)
            if bad is None:
                threshold, start = max(1, threshold // 2), 0
                unspent += to_measure.epsilon or 0
                continue
            seen.append(curator.measure(with_rest(queries.row(bad)), to_measure))
            x_hat = learn(x_hat, seen, settings)
            start = bad + 1
        return x_hat, unspent

    return _learned(curator, schema, budget, workload, settings, settings.most_queries, rounds)


def search_noise(budget: Budget, queries: int, contributions: int, settings: Stream = STREAM) -> int:
    """Starting threshold of the search for a misfit: patience * contributions / epsilon * log(queries).

    That is the order of the largest noise of so many comparisons.
    """
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    return ceil(settings.patience * contributions / float(budget.epsilon) * log(max(2, queries)))


PMW = _mechanism(
    "pmw", "corrects a table where it is off", "Hardt, Rothblum 2010", pmw, STREAM.most_queries, STREAM, 0.61
)
