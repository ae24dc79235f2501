"""Multiplicative weights: an estimate moved towards noisy answers, each cell by a factor.

Hardt, Ligett, McSherry, NIPS 2012, figure 1, with the passes over all answers of its section 3. The paper's queries
have entries between -1 and 1; rows with larger ones are divided by their largest. Answers that no table of this total
could give pull no harder than the nearest that one could.

What mwem and pmw share: a measured total, a shape learned query by query, and an error that is itself measured.

The shape is fitted to what was measured, and no noise tells whether it is right elsewhere. So the last tenth of the
budget measures how far the finished estimate lies from the truth, over the workload and by kind of question; intervals
come from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd, isqrt

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Partition
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import Misfit
from sfumato.measurement import Laplace, Measurement
from sfumato.models.base.mechanism import Work
from sfumato.models.calibration.families import MeasuredShape
from sfumato.models.calibration.first_stage import Counted
from sfumato.models.calibration.fit import EMPTY
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.calibration.model_error import allow_for_noise, deviation_of_shape
from sfumato.models.linear.fit import LinearFit
from sfumato.models.weights.fit import ScaledShape
from sfumato.queries import Identity, Queries, Selected, Stack, Weighted, Workload
from sfumato.queries.workload import GOLDEN
from sfumato.schema import Schema

WRITTEN_OUT = 2**24  # entries of all rows together, up to which they are kept between passes


def multiplicative_weights(estimate: Floats, queries: Queries, answers: Floats, *, passes: int = 20) -> Floats:
    """The estimate after going through all rows so many times: x * exp(row (answer - row x) / (2 total)).

    The total stays what it was, and a cell that is 0 stays 0.

    >>> from sfumato.queries import Ranges
    >>> moved = multiplicative_weights(np.full(4, 25.0), Ranges(4, [0], [1]), np.array([80.0]), passes=99)
    >>> moved.round(1).tolist()
    [40.0, 40.0, 10.0, 10.0]
    """
    cells, wanted = np.array(estimate, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    total = float(cells.sum())
    if cells.shape != (queries.columns,) or not (cells >= 0).all() or not 0 < total < np.inf:
        raise QueryError(f"multiplicative weights need {queries.columns} cells, none below 0 and not all of them 0")
    if wanted.shape != (queries.rows,) or not np.isfinite(wanted).all():
        raise QueryError(f"multiplicative weights need a finite answer for each of the {queries.rows} rows")
    written = queries.dense() if queries.rows * queries.columns <= WRITTEN_OUT else None
    for _ in range(passes):
        for place in range(queries.rows):
            row = queries.row(place) if written is None else written[place]
            cells = _moved(cells, total, row, wanted[place])
    return cells


def _moved(cells: Floats, total: float, row: np.ndarray, answer: float) -> Floats:
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
    """How a shape is learned; chosen by judgement, but for the number of rounds.

    shares: of the count's budget, for the total, for the rounds, for measuring how wrong the result is.
    rounds: more touch more queries, each with more noise. None: as many as the noisy total is worth, a quarter of the
    root of rows times epsilon, since more rows show more structure above the noise. The rule was found by simulation on
    synthetic shapes, where anything from half to double of it costs little. fewest, most: rounds, whatever the total.
    passes: over everything measured so far, after each round; more fit it closer and take longer.
    """

    shares: tuple[int, int, int] = (1, 8, 1)
    rounds: int | None = None
    fewest: int = 4
    most: int = 64
    passes: int = 4


def sampled(workload: Workload, most: int) -> Queries:
    """At most about so many queries of a workload, blocks alike: a public choice, and the same every time.

    Rows are taken in steps of the golden section, which fall in with no pattern of a block.

    >>> from sfumato.queries import AllRanges
    >>> sampled(Workload(("ranges",), (AllRanges(100),)), 50).rows
    50
    """
    room = max(1, most // len(workload.blocks))
    parts = [_spaced(block, room) for block in workload.blocks]
    return parts[0] if len(parts) == 1 else Stack(*parts)


def _spaced(block: Queries, room: int) -> Queries:
    if block.rows <= room:
        return block
    step = max(1, round(GOLDEN * block.rows))
    while gcd(step, block.rows) > 1:  # so that no row is taken twice
        step += 1
    # In Python's integers: the products of a large block leave 64 bits.
    return block[np.array(sorted(step * place % block.rows for place in range(room)), dtype=np.int64)]


def measure_total(curator: Curator, budget: Budget) -> LinearFit:
    """The number of rows, as a fit over one region that holds all cells."""
    everything = Partition(curator.domain, np.zeros(curator.domain.size, dtype=np.int64))
    return LinearFit.of_answers(curator.reduce(everything).measure(Identity(1), budget))


def even_start(total: LinearFit, cells: int) -> Floats:
    """The noisy total spread evenly; never less than its noise and one row, for nothing at all has no shape."""
    return np.full(cells, max(float(total.estimate[0]), total.measurement.noise.variance**0.5, 1.0) / cells)


def rounds_for(rows: float, budget: Budget, contributions: int, cells: int, how: Learning) -> int:
    """How many queries are worth their share, of a table of about so many rows."""
    if how.rounds is not None:
        return how.rounds
    assert budget.epsilon is not None  # noqa: S101 (pure epsilon only)
    strength = max(0.0, rows) * float(budget.epsilon) / contributions
    return max(1, min(max(how.fewest, isqrt(int(strength)) // 4), how.most, isqrt(MOST_MOVES // cells)))


def shaping_work(most: int, how: Learning) -> Work:
    """About how many numbers in memory are changed in learning a shape from at most so many queries.

    Every round asks all queries and goes several times through what was measured so far, a query and its rest a round.
    """

    def work(schema: Schema, workload: Workload, budget: Budget, rows: int) -> int:
        cells, share = schema.domain.size, budget.split(*schema.weights.values())[0]
        rounds = rounds_for(rows, share, schema.privacy_unit.contributions, cells, how)
        return (rounds + 1) * (rounds * how.passes * (A_STEP + cells) + AN_ANSWER * _answers(sampled(workload, most)))

    return work


def _answers(asked: Queries) -> int:
    """How many answers are worked out: some rows of a family with no shorter way are had by answering all of them."""
    if isinstance(asked, Stack):
        return sum(_answers(block) for block in asked.blocks)
    return asked.queries.rows if isinstance(asked, Selected) else asked.rows


def with_rest(row: Codes) -> Queries:
    """A query and its complement. Together they touch every cell alike, so the second costs nothing.

    The complement of a query that touches no cell is the total: whichever is chosen, something is measured.
    """
    rest = max(1, int(np.abs(row).max())) - np.abs(row)
    return Weighted(np.stack([row, rest] if rest.any() else [row]))


def misfit_of(queries: Queries, estimate: Floats) -> Misfit:
    """How far the truth lies from what an estimate answers, rounded to whole rows."""
    return Misfit(queries, np.rint(queries @ estimate).astype(np.int64))


def learn(estimate: Floats, seen: Sequence[Measurement], how: Learning) -> Floats:
    """The estimate moved towards everything measured so far."""
    answers = np.concatenate([measured.answers for measured in seen])
    asked = Stack(*(measured.queries for measured in seen))
    return multiplicative_weights(estimate, asked, answers.astype(np.float64), passes=how.passes)


def shaped_fit(
    curator: Curator,
    total: LinearFit,
    estimate: Floats,
    workload: Workload,
    budget: Budget,
    whole: Budget,
    counted: Counted,
) -> MeasuredShape:
    """The total times the estimate's shape, brought to margins, with errors of the size that is now measured.

    Half of the budget for it tells the mean misfit of the workload's queries, half by how much kinds of question differ
    from that. whole: what all of the count's measurements had. counted: margins that were measured first, if any.
    """
    for_workload, for_kinds = budget.split(1, 1)
    asked = sampled(workload, MOST_CHECKED)
    fit = ScaledShape.like(total, estimate)
    measured = curator.measure_misfit(misfit_of(asked, fit.estimate), for_workload)
    noise = measured.noise
    assert isinstance(noise, Laplace)  # noqa: S101 (pure epsilon only)
    mean, scale = float(measured.answers[0]) / asked.rows, float(noise.scale) / asked.rows
    spread = deviation_of_shape(allow_for_noise(mean, scale), *fit.variances(asked))
    brought = counted.bring_all(fit.with_spread(spread, measured))
    known = counted.first.known
    scales, misfits = measure_errors(curator, brought, for_kinds, whole, known, seen=False)
    # The mean over a kind says little of its largest question, where rows are heaped: none is claimed to be better
    # known than the workload's queries are.
    factors = np.where(scales.kinds == EMPTY, scales.factors, np.maximum(scales.factors, 1.0))
    return MeasuredShape.of_brought(brought, curator.domain, replace(scales, factors=factors), misfits)


def shape_refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Why no shape can be learned for a schema and a workload, or None."""
    if workload is not None and not workload.queries.integral:
        return "the workload has weights that are not whole numbers; hierarchical and matrix take any weights"
    return None
