"""Expected errors of a strategy and of marginal counts before any data is read, at a budget.

The least-squares answer of a query is a weighted sum of the strategy's noisy answers, so its variance is the sum of
weight^2 * variance over the measured rows, with the variances of the discrete noise as drawn. `expected_blocks`
averages it over blocks of queries, query by query or in closed form. Counts of 0, 1, 2 and 3 attributes
(`errors_by_kind`) are priced so; a release whose error depends on the data is asked for a few of them instead.

A stand-in is a cube with the noise of the planned release and an evenly spread table in place of the private counts.
Errors of counts and sums do not depend on the data, so it is exact for them; for averages and shares it shows the error
for evenly spread rows.

`refuse_useless` refuses a release in which even one-way counts would be noise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import isfinite, sqrt
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fit import Fit
from sfumato.arrays import Floats
from sfumato.domain import Axis
from sfumato.errors import BudgetError
from sfumato.kernel.budget import Budget
from sfumato.measurement import Laplace, Measurement
from sfumato.models.base.measure_and_fit import designs, every_cell, whole_noise, with_weight
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.linear.fit import LinearFit
from sfumato.plain_text import as_rows
from sfumato.queries import Identity, Queries, Total, Workload
from sfumato.queries.kron import over
from sfumato.queries.strategy import Strategy
from sfumato.queries.workload import some_sets
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.releases.contents.sparse_cube import SparseCube


def sparse_stand_in(schema: Schema, budget: Budget) -> SparseCube:
    """Stand-in for a sparse cube of a table whose `expected_rows` all lie under the threshold."""
    from sfumato.models.cells.cells import planned_noises, planned_threshold
    from sfumato.releases.contents.sparse_cube import SparseCube

    size, nothing = schema.domain.size, np.zeros(0, dtype=np.int64)
    planned, above = planned_noises(schema, budget), planned_threshold(schema, budget)
    cells = Measurement("count", Identity(size), nothing, (planned["count"][1],), above=above, cells=nothing)
    rows = {"count": schema.expected_rows or 0}
    totals = (
        Measurement(of, Total(size), np.array([rows.get(of, 0)]), (on_total,)) for of, (on_total, _) in planned.items()
    )
    return SparseCube(schema, (cells,), tuple(totals))


def stand_in(mechanism: Mechanism, schema: Schema, budget: Budget, strategy: Strategy) -> Cube:
    """Stand-in for the cube of a linear mechanism with this strategy, in the form that it publishes."""
    cube = linear_stand_in(schema, budget, strategy)
    return Cube.of_cells(schema, [fit.measurements[0] for fit in cube.fits]) if mechanism.as_measured else cube


def linear_stand_in(schema: Schema, budget: Budget, strategy: Strategy) -> Cube:
    """Stand-in for the least-squares cube of a strategy, with an evenly spread table."""
    return Cube(schema, fits=tuple(_even_fits(schema, budget, strategy).values()))


def with_measures(schema: Schema, budget: Budget, count: Fit) -> Cube:
    """Cube of a simulated count and of stand-ins for the measures, with noise on every cell."""
    fits = _even_fits(schema, budget, every_cell(schema)) if schema.summed else {}
    return Cube(schema, fits=(count, *list(fits.values())[1:]))


def _even_fits(schema: Schema, budget: Budget, strategy: Strategy) -> dict[str, Fit]:
    """Fits of an evenly spread table with the noise of a strategy, by statistic."""
    fits: dict[str, Fit] = {}
    for of, design in designs(strategy, schema, budget).items():
        table = _evenly((schema.expected_rows or 0) if of == "count" else 0, schema.domain.size)
        answers = np.asarray(design.queries @ table, dtype=np.int64)
        measured = Measurement(of, design.queries, answers, design.noises, design.which)
        fits[of] = LinearFit(measured, table.astype(np.float64))
    return fits


def _evenly(rows: int, size: int) -> NDArray[np.int64]:
    """Spread rows evenly over cells: integer counts, (cells,)."""
    counts = np.full(size, rows // size, dtype=np.int64)
    counts[: rows % size] += 1
    return counts


FEW = 2**20  # numbers, up to which every query is solved for by itself


def expected_blocks(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    """Root mean square error of every block, in rows, (blocks,); inf where the strategy does not determine it.

    Query by query if they are few, as the statements of a file are; otherwise in closed form by families of queries.
    """
    rows = sum(block.rows for block in blocks)
    if rows * max(schema.domain.size, strategy.queries.rows) <= FEW:
        return query_by_query(strategy, schema, budget, blocks)
    return family_by_family(strategy, schema, budget, blocks)


def query_by_query(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    """Root mean square error of every block, (blocks,), from the exact variance of each query."""
    (count, *_) = linear_stand_in(schema, budget, strategy).shown
    written = np.concatenate([np.asarray(block.dense(), dtype=np.float64) for block in blocks])
    errors = count.errors(written.T)
    squares = (errors.weights**2 * errors.design.variances[:, None]).sum(axis=0)
    squares[errors.unknown] = np.inf
    ends = np.cumsum([block.rows for block in blocks])[:-1]
    return np.sqrt([float(part.mean()) for part in np.split(squares, ends)])


def family_by_family(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    """Root mean square error of every block, (blocks,), in closed form, corrected for discrete noise."""
    from sfumato.least_squares.expected_error import expected_errors

    share = budget.split(*schema.weights.values())[0]
    whole = whole_noise(strategy, share, schema.most_of_a_unit)
    workload = Workload(tuple(str(place) for place in range(len(blocks))), tuple(blocks))
    at_one = expected_errors(strategy, workload, budget.is_pure, schema.possible)
    # Those are for continuous noise at epsilon 1, with l1 / weight (or l2 / weight). A budget stretches it, and whole
    # numbers shrink it a little: by one factor if all rows have the same noise, on average otherwise.
    if isinstance(whole, Laplace):
        stretch = float(whole.scale / strategy.load(1))
    else:
        stretch = sqrt(whole.sigma_squared / strategy.load(2))
    noises = [with_weight(whole, weight) for weight in strategy.weights]
    shrink = np.array([noise.variance / noise.continuous_variance for noise in noises])
    return np.asarray(at_one * (stretch * sqrt(float(np.average(shrink, weights=strategy.shares)))))


WORDS = ("all rows", "one attribute", "two attributes", "three attributes")
PRICED = 12  # sets of attributes of each kind that stand for all
ASKED = 3  # of which a release is asked, and for as many values of each
MANY_CELLS = 2**20  # beyond which it is asked for one value of one set


def errors_by_kind(
    schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget, content: Content | None = None
) -> dict[str, float]:
    """Standard error of marginal counts by number of attributes, in rows; unknown ones are left out.

    content: what was published, for mechanisms whose error depends on more than the noise.
    """
    squared = squares_by_kind(schema, mechanism, workload, budget, content)
    errors = {WORDS[kind]: sqrt(float(np.mean(list(squares.values())))) for kind, squares in squared.items()}
    return {name: error for name, error in errors.items() if isfinite(error)}


Squares = dict[int, dict[tuple[Axis, ...], float]]  # by number of attributes, of sets of them


def squares_by_kind(
    schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget, content: Content | None = None
) -> Squares:
    """Mean squared error of the marginal counts of some sets of 0, 1, 2 and 3 attributes; empty where it is unknown."""
    kinds = range(min(len(schema.domain.axes), 3) + 1)
    by_noise = None if content is not None and schema.known else mechanism.forecast.strategy  # known counts err less
    if by_noise is not None and workload is not None and mechanism.answers == "everything":
        strategy = by_noise(schema, workload, budget.is_pure)
        chosen = [axes for kind in kinds for axes in some_sets(schema.domain, kind, PRICED)]
        squares = (expected_blocks(strategy, schema, budget, [table(schema, axes) for axes in chosen]) ** 2).tolist()
        found = {axes: square * schema.count_step**2 for axes, square in zip(chosen, squares, strict=True)}
        return {kind: {axes: square for axes, square in found.items() if len(axes) == kind} for kind in kinds}
    if content is not None:
        few = 1 if schema.domain.size > MANY_CELLS and not mechanism.holds.by_margins else ASKED
        sets = {kind: some_sets(schema.domain, kind, few) for kind in kinds}
        return {kind: {axes: _asked(content, axes, few) for axes in listed} for kind, listed in sets.items()}
    return {}


def table(schema: Schema, axes: tuple[Axis, ...]) -> Queries:
    """Marginal counts of some attributes, as queries (values, cells)."""
    domain = schema.domain
    return over(domain, {axis.name: Identity(axis.size) for axis in axes}) if axes else Total(domain.size)


def _asked(content: Content, axes: tuple[Axis, ...], few: int) -> float:
    """Mean squared error that a release states for a few marginal counts."""
    return float(np.mean([count.stderr**2 for count in content.some_counts(axes, few, compared=False)]))


def one_way_errors(schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget) -> dict[str, float]:
    """Expected standard error of one-way counts by attribute, in rows; empty where it cannot be forecast.

    Of an adaptive mechanism it is that on a full table: an upper bound of the forecast of plans.
    """
    if mechanism.forecast.foretold is not None:
        return dict(mechanism.forecast.foretold(schema, budget, workload).one_way)
    if workload is None or mechanism.answers != "everything":
        return {}
    axes = list(schema.domain)
    blocks = [table(schema, (axis,)) for axis in axes]
    if mechanism.forecast.strategy is not None:
        strategy = mechanism.forecast.strategy(schema, workload, budget.is_pure)
        errors = expected_blocks(strategy, schema, budget, blocks).tolist()
    elif mechanism.forecast.error_if_full is not None:
        full = mechanism.forecast.error_if_full
        named = [Workload((axis.name,), (block,)) for axis, block in zip(axes, blocks, strict=True)]
        errors = [full(schema, workload, budget, of=each) for each in named]
    else:
        return {}
    return {axis.name: error for axis, error in zip(axes, errors, strict=True)}


WHAT_TO_DO = "give more epsilon, fewer attributes or wider bins, or --even-if-useless to go on"


OneWay = Callable[[Mechanism, Schema, Workload, Budget], Mapping[str, float]]


def refuse_useless(
    schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget, forecast: OneWay
) -> None:
    """Raise a BudgetError where even one-way counts would be noise, for the stated number of rows.

    That is where for every attribute the standard error exceeds the rows of an average value; and, for cells published
    above a threshold, where not even one cell per value could reach it. Reads no data.
    forecast: of an adaptive mechanism, the errors that a plan shows (`one_way_forecast`); they take a trial, and are
    asked for only where a full table would be noise.
    """
    rows, schema = schema.expected_rows, schema.in_rows
    if rows is None:
        return
    sizes = {axis.name: axis.size for axis in schema.domain}
    if mechanism.is_sparse(schema):
        from sfumato.models.cells.cells import planned_threshold

        least, threshold = min(sizes.values()), planned_threshold(schema, budget)
        if rows < threshold * least:
            raise BudgetError(
                f"this release would be useless: only cells with {threshold:,} rows or more are published, and "
                f"{rows:,} rows cannot fill {least:,} of them; {WHAT_TO_DO}",
                kind="budget",
            )
        return

    def useless(errors: Mapping[str, float]) -> bool:
        return bool(errors) and all(error > rows / sizes[name] for name, error in errors.items())

    errors: Mapping[str, float] = one_way_errors(schema, mechanism, workload, budget)
    if useless(errors) and mechanism.adaptive and workload is not None:
        errors = forecast(mechanism, schema, workload, budget)
    if useless(errors):
        name = min(errors, key=lambda name: errors[name] * sizes[name])
        raise BudgetError(
            f"this release would be useless: even the rows with one value of {name}, about {rows / sizes[name]:,.3g} "
            f"of {rows:,}, would be off by {as_rows(errors[name])}; {WHAT_TO_DO}",
            kind="budget",
        )
