"""Cells: Laplace noise on every cell, y_c = x_c + Z_c, published as it is.

Xiao, Xiong, Yuan, TR-2010-003, sections 4 and 5. The paper perturbs probability mass and so treats the number of rows
as public; here integer counts carry integer noise and the number of rows stays private.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.arrays import MOST_DENSE
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


MECHANISM = Mechanism(
    name="cells",
    summary="noise on every cell",
    paper="Xiao, Xiong, Yuan 2010",
    run=cells,
    holds=Holds(most_cells=None, zeros=True),
    forecast=Forecast(strategy=every_cell),
)
