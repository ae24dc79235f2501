"""A public stand-in for a release that does not exist yet.

It has the noise that the release would have, and in place of the private counts a table that is spread evenly. Counts
and sums have errors that do not depend on the data, so for them the stand-in is exact; for averages and shares it shows
what to expect if rows were spread evenly.

The error of a strategy on blocks of queries, at a budget: that of the noise as it is drawn.

What errors to expect of counts of one, two and three attributes: public, from the strategy or from the release.

Counts that a plan or a reader meets most: the number of all rows, and the rows with given values of some attributes. A
mechanism whose noise alone decides is priced; any other release is asked itself, a few questions that stand for all.

A release that could say nothing is refused before anything is spent, unless it is meant.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """The cube that the sparse form would publish of a table whose `expected_rows` all lie under the threshold."""
    from sfumato.models.cells.sparse_cells import planned_noises, planned_threshold
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
    """The cube of a mechanism that asks this strategy, in the form that it publishes."""
    cube = linear_stand_in(schema, budget, strategy)
    return Cube.of_cells(schema, [fit.measurements[0] for fit in cube.fits]) if mechanism.as_measured else cube


def linear_stand_in(schema: Schema, budget: Budget, strategy: Strategy) -> Cube:
    """The cube of a linear mechanism that fits what it measures: its noise, its fit, an even table."""
    return Cube(schema, fits=tuple(_even_fits(schema, budget, strategy).values()))


def with_measures(schema: Schema, budget: Budget, count: Fit) -> Cube:
    """A cube whose count was simulated, and whose measures, which all such mechanisms ask cell by cell, stand in."""
    fits = _even_fits(schema, budget, every_cell(schema)) if schema.measures else {}
    return Cube(schema, fits=(count, *list(fits.values())[1:]))


def _even_fits(schema: Schema, budget: Budget, strategy: Strategy) -> dict[str, Fit]:
    fits: dict[str, Fit] = {}
    for of, design in designs(strategy, schema, budget).items():
        table = _evenly((schema.expected_rows or 0) if of == "count" else 0, schema.domain.size)
        answers = np.asarray(design.queries @ table, dtype=np.int64)
        measured = Measurement(of, design.queries, answers, design.noises, design.which)
        fits[of] = LinearFit(measured, table.astype(np.float64))
    return fits


def _evenly(rows: int, size: int) -> NDArray[np.int64]:
    each = np.full(size, rows // size, dtype=np.int64)
    each[: rows % size] += 1
    return each


FEW = 2**20  # numbers, up to which every query is solved for by itself


def expected_blocks(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    """The root mean square error of every block, in rows; infinite where the strategy does not determine it.

    Query by query if they are few, as the statements of a file are; otherwise by closed forms over whole families.
    """
    rows = sum(block.rows for block in blocks)
    if rows * max(schema.domain.size, strategy.queries.rows) <= FEW:
        return _query_by_query(strategy, schema, budget, blocks)
    return _family_by_family(strategy, schema, budget, blocks)


def _query_by_query(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    (count, *_) = linear_stand_in(schema, budget, strategy).fits
    written = np.concatenate([np.asarray(block.dense(), dtype=np.float64) for block in blocks])
    errors = count.errors(written.T)
    squares = (errors.weights**2 * errors.design.variances[:, None]).sum(axis=0)
    squares[errors.unknown] = np.inf
    ends = np.cumsum([block.rows for block in blocks])[:-1]
    return np.sqrt([float(part.mean()) for part in np.split(squares, ends)])


def _family_by_family(strategy: Strategy, schema: Schema, budget: Budget, blocks: Sequence[Queries]) -> Floats:
    from sfumato.least_squares.expected_error import expected_errors

    share = budget.split(*schema.weights.values())[0]
    whole = whole_noise(strategy, share, schema.privacy_unit.contributions)
    workload = Workload(tuple(str(place) for place in range(len(blocks))), tuple(blocks))
    at_one = expected_errors(strategy, workload, budget.is_pure)
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
    """The standard error of counts by kind, in rows; kinds of which nothing is known are left out.

    content: what was published, for mechanisms whose error depends on more than the noise.
    """
    kinds = range(min(len(schema.domain.axes), 3) + 1)
    if mechanism.forecast.strategy is not None and workload is not None and mechanism.answers == "everything":
        strategy = mechanism.forecast.strategy(schema, workload, budget.is_pure)
        chosen = [(kind, _block(schema, axes)) for kind in kinds for axes in some_sets(schema.domain, kind, PRICED)]
        squares = expected_blocks(strategy, schema, budget, [block for _, block in chosen]) ** 2
        found = {
            kind: [square for (own, _), square in zip(chosen, squares, strict=True) if own == kind] for kind in kinds
        }
    elif content is not None:
        few = 1 if schema.domain.size > MANY_CELLS and not mechanism.holds.by_margins else ASKED
        found = {kind: [_asked(content, axes, few) for axes in some_sets(schema.domain, kind, few)] for kind in kinds}
    else:
        return {}
    errors = {WORDS[kind]: sqrt(float(np.mean(squares))) for kind, squares in found.items()}
    return {name: error for name, error in errors.items() if isfinite(error)}


def _block(schema: Schema, axes: tuple[Axis, ...]) -> Queries:
    """The counts of all combinations of values."""
    domain = schema.domain
    return over(domain, {axis.name: Identity(axis.size) for axis in axes}) if axes else Total(domain.size)


def _asked(content: Content, axes: tuple[Axis, ...], few: int) -> float:
    """The mean squared error that a release states for a few combinations of values."""
    from sfumato.releases.description import ask_for_counts

    return float(np.mean([count.stderr**2 for count in ask_for_counts(content, axes, few)]))


def one_way_errors(schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget) -> dict[str, float]:
    """For each attribute the standard error of the count of one of its values, before anything is measured, in rows.

    Nothing for mechanisms of which that cannot be said.
    """
    if mechanism.forecast.foretold is not None:
        return dict(mechanism.forecast.foretold(schema, budget).one_way)
    if workload is None or mechanism.answers != "everything":
        return {}
    axes = list(schema.domain)
    blocks = [_block(schema, (axis,)) for axis in axes]
    if mechanism.forecast.strategy is not None:
        strategy = mechanism.forecast.strategy(schema, workload, budget.is_pure)
        errors = expected_blocks(strategy, schema, budget, blocks).tolist()
    elif mechanism.forecast.error_if_full is not None:
        full = mechanism.forecast.error_if_full
        errors = [
            full(schema, Workload((axis.name,), (block,)), budget) for axis, block in zip(axes, blocks, strict=True)
        ]
    else:
        return {}
    return {axis.name: error for axis, error in zip(axes, errors, strict=True)}


WHAT_TO_DO = "give more epsilon, fewer attributes or wider bins, or --even-if-useless to go on"


def refuse_useless(schema: Schema, mechanism: Mechanism, workload: Workload | None, budget: Budget) -> None:
    """Refuse where even the counts of single values would be noise, as far as the stated number of rows tells.

    That is where for every attribute the standard error exceeds the rows of a typical value; and, for cells that are
    published above a threshold, where not even one cell per value could reach it. Reads no data.
    """
    rows = schema.expected_rows
    if rows is None:
        return
    sizes = {axis.name: axis.size for axis in schema.domain}
    if mechanism.is_sparse(schema):
        from sfumato.models.cells.sparse_cells import planned_threshold

        least, threshold = min(sizes.values()), planned_threshold(schema, budget)
        if rows < threshold * least:
            raise BudgetError(
                f"this release would be useless: only cells with {threshold:,} rows or more are published, and "
                f"{rows:,} rows cannot fill {least:,} of them; {WHAT_TO_DO}",
                kind="budget",
            )
        return
    errors = one_way_errors(schema, mechanism, workload, budget)
    if errors and all(error > rows / sizes[name] for name, error in errors.items()):
        name = min(errors, key=lambda name: errors[name] * sizes[name])
        raise BudgetError(
            f"this release would be useless: even the rows with one value of {name}, about {rows / sizes[name]:,.3g} "
            f"of {rows:,}, would be off by {as_rows(errors[name])}; {WHAT_TO_DO}",
            kind="budget",
        )
