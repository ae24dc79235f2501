"""A public stand-in for a release that does not exist yet.

It has the noise that the release would have, and in place of the private counts a table that is spread evenly. Counts
and sums have errors that do not depend on the data, so for them the stand-in is exact; for averages and shares it shows
what to expect if rows were spread evenly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.inference.fits.base import Fit
from sfumato.inference.fits.linear import LinearFit
from sfumato.kernel.budget import Budget
from sfumato.measurement import Measurement
from sfumato.mechanisms._measure_and_fit import designs
from sfumato.mechanisms.cells import is_sparse, planned_noises, shares_of, threshold
from sfumato.queries import Identity, Total
from sfumato.queries.strategy import Strategy
from sfumato.releases.contents.content import Content
from sfumato.releases.contents.cube import Cube
from sfumato.releases.contents.sparse_cube import SparseCube
from sfumato.schema import Schema


def stand_in(schema: Schema, budget: Budget, mechanism: str) -> Content:
    """The cube that cells or sparse-cells would publish of a table whose `expected_rows` are spread evenly."""
    size, rows = schema.domain.size, schema.expected_rows or 0
    sparse = is_sparse(schema, mechanism)
    cells, totals = [], []
    for of, (on_total, on_cells) in planned_noises(schema, budget, sparse=sparse).items():
        in_all = rows if of == "count" else 0
        if sparse:
            if of == "count":
                ((_, for_cells), *_) = shares_of(budget, 1 + len(schema.measures), sparse=True)
                above = threshold(size, for_cells, schema.privacy_unit.contributions)
                nothing = np.zeros(0, dtype=np.int64)
                cells.append(Measurement(of, Identity(size), nothing, (on_cells,), above=above, cells=nothing))
            totals.append(Measurement(of, Total(size), np.array([in_all]), (on_total,)))
        else:
            cells.append(Measurement(of, Identity(size), _evenly(in_all, size), (on_cells,)))
    return SparseCube(schema, tuple(cells), tuple(totals)) if sparse else Cube.of_cells(schema, cells)


def linear_stand_in(schema: Schema, budget: Budget, strategy: Strategy) -> Cube:
    """The same for a linear mechanism: its noise, its fit, an even table."""
    return Cube(schema, fits=tuple(_even_fits(schema, budget, strategy).values()))


def with_measures(schema: Schema, budget: Budget, count: Fit) -> Cube:
    """A cube whose count was simulated, and whose measures, which all such mechanisms ask cell by cell, stand in."""
    plain = Strategy(Identity(schema.domain.size))
    fits = _even_fits(schema, budget, plain) if schema.measures else {}
    return Cube(schema, fits=(count, *(fits[of] for of in schema.measures)))


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
