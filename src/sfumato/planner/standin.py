"""A public stand-in for a release that does not exist yet.

It has the noise that the release would have, and in place of the private counts a table that is spread evenly. Counts
and sums have errors that do not depend on the data, so for them the stand-in is exact; for averages and shares it shows
what to expect if rows were spread evenly.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.measurement import Measurement, Noise
from sfumato.mechanisms.cells import MOST_DENSE, shares_of, threshold
from sfumato.queries import Identity, Total
from sfumato.releases.cube import Cube
from sfumato.schema import Schema


def stand_in(schema: Schema, budget: Budget, mechanism: str) -> Cube:
    """The cube that a mechanism would publish of a table whose `expected_rows` are spread evenly."""
    size, rows = schema.domain.size, schema.expected_rows or 0
    sparse = mechanism == "sparse-cells" or size > MOST_DENSE
    statistics = ("count", *schema.measures)
    cells, totals = [], []
    for of, (for_total, for_cells) in zip(statistics, shares_of(budget, len(statistics), sparse=sparse), strict=True):
        in_all = rows if of == "count" else 0
        if sparse:
            noise = _noise(schema, of, for_cells)
            if of == "count":
                above = threshold(size, for_cells, schema.privacy_unit.contributions)
                nothing = np.zeros(0, dtype=np.int64)
                cells.append(Measurement(of, Identity(size), nothing, (noise,), above=above, cells=nothing))
            totals.append(Measurement(of, Total(size), np.array([in_all]), (_noise(schema, of, for_total),)))
        else:
            each = np.full(size, in_all // size, dtype=np.int64)
            each[: in_all % size] += 1
            cells.append(Measurement(of, Identity(size), each, (_noise(schema, of, for_cells),)))
    return Cube(schema, tuple(cells), tuple(totals))


def _noise(schema: Schema, of: str, budget: Budget) -> Noise:
    unit = Fraction(1 if of == "count" else schema.measures[of].half_units)
    return noise_for(budget, schema.privacy_unit.contributions, l1=unit, l2_squared=unit**2)
