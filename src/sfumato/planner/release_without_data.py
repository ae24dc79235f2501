"""A public stand-in for a release that does not exist yet.

It has the noise that the release would have, and in place of the private counts a table that is spread evenly. Counts
and sums have errors that do not depend on the data, so for them the stand-in is exact; for averages and shares it shows
what to expect if rows were spread evenly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from sfumato.answers.fit import Fit
from sfumato.kernel.budget import Budget
from sfumato.measurement import Measurement
from sfumato.models.base.measure_and_fit import designs, every_cell
from sfumato.models.base.mechanism import Mechanism
from sfumato.models.linear.fit import LinearFit
from sfumato.queries import Identity, Total
from sfumato.queries.strategy import Strategy
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
