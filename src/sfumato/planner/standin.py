"""A public stand-in for a release that does not exist yet.

It has the noise that the release would have, and in place of the private counts a table that is spread evenly. Counts
and sums have errors that do not depend on the data, so for them the stand-in is exact; for averages and shares it shows
what to expect if rows were spread evenly.
"""

from __future__ import annotations

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.measurement import Measurement
from sfumato.mechanisms.cells import is_sparse, planned_noises, shares_of, threshold
from sfumato.queries import Identity, Total
from sfumato.releases.cube import Cube
from sfumato.schema import Schema


def stand_in(schema: Schema, budget: Budget, mechanism: str) -> Cube:
    """The cube that a mechanism would publish of a table whose `expected_rows` are spread evenly."""
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
            each = np.full(size, in_all // size, dtype=np.int64)
            each[: in_all % size] += 1
            cells.append(Measurement(of, Identity(size), each, (on_cells,)))
    return Cube(schema, tuple(cells), tuple(totals))
