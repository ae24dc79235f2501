"""Cells: Laplace noise on every cell, y_c = x_c + Z_c, published as it is.

Xiao, Xiong, Yuan, TR-2010-003, sections 4 and 5. The paper perturbs probability mass and so treats the number of rows
as public; here integer counts carry integer noise and the number of rows stays private.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.arrays import MOST_DENSE, MOST_RUNNING
from sfumato.errors import BudgetError, MechanismError
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import with_missing
from sfumato.models.base.measure_and_fit import every_cell
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

if TYPE_CHECKING:
    from sfumato.releases.contents.sparse_cube import SparseCube


def cells(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube | SparseCube:
    """Publish a noisy count, and a noisy sum of every measure, for every cell.

    budget: split by weight over the count and the measures. A row of data lies in one cell, so every cell gets the
    whole of the share (parallel composition). A domain too large to lay out is published in the sparse form.
    """
    if curator.domain.size > MOST_DENSE:
        from sfumato.models.cells.sparse_cells import sparse_cells

        return sparse_cells(curator, schema, budget)
    queries = Identity(curator.domain.size)
    shares = zip(curator.statistics, budget.split(*schema.weights.values()), strict=True)
    measurements = (curator.measure(queries, share, of=of) for of, share in shares)
    return Cube.of_cells(schema, [each for measured in measurements for each in with_missing(measured)])


def running_cells(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Publish every cell of one part of a series with noise that takes back a share of earlier parts' noise.

    Fichtenberger, Henzinger, Upadhyay, ICML 2023: running totals by the square root of the prefix matrix.
    """
    from sfumato.answers.along_time import RunningCells

    measured, trail = curator.measure_running(budget, [*schema.weights.values()])
    return Cube(schema, tuple(RunningCells(each, trail) for each in measured))


MECHANISM = Mechanism(
    name="cells",
    summary="noise on every cell",
    paper="Xiao, Xiong, Yuan 2010",
    run=cells,
    holds=Holds(most_cells=None, zeros=True),
    forecast=Forecast(strategy=every_cell),
)


def for_running(schema: Schema, name: str, *, pure: bool) -> Mechanism:
    """Mechanism of a series with running totals, which is cells with Gaussian noise.

    name: of the mechanism that was asked for; pure: whether no delta was.
    """
    if name not in ("auto", MECHANISM.name):
        raise MechanismError(
            f"running: true spreads the noise of single cells over time, which {name} does not measure; leave out "
            "--mechanism, or running"
        )
    if pure:
        raise BudgetError("running: true needs Gaussian noise; add a delta, such as --delta 1e-9", kind="budget")
    if schema.domain.size > MOST_RUNNING:
        raise MechanismError(
            f"running: true keeps the noise of every cell, of {MOST_RUNNING:,} at most, and there are "
            f"{schema.domain.size:,}; give fewer attributes or coarser bins, or leave running out"
        )
    return replace(MECHANISM, gaussian=True, run=running_cells)
