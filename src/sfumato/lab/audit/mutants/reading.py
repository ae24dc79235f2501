"""NOT PRIVATE: broken readers of rows, with the checks that catch them.

What happens before any noise is drawn cannot be sampled. A check runs the broken thing, or the real one, on inputs that
bring a fault to light, and complains in words.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.kernel.reading.table import open_table
from sfumato.schema import Schema

Check = Callable[[], str | None]
Steps = Callable[[list[float]], int]  # the values of a measure -> their sum in steps

SCHEMA = Schema.from_dict(
    {
        "dataset": "mutants",
        "privacy_unit": "row",
        "attributes": {"x": {"type": "integer", "lower": 0, "upper": 1}},
        "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
    }
)


def sum_moves(steps_of: Steps) -> Check:
    """Whether one row, whatever its value, moves a sum by at most the steps that the schema's bounds allow."""

    def check() -> str | None:
        most = SCHEMA.measures["m"].half_units
        before = steps_of([10.0, 90.0])
        for value in (50.0, -1e9, 1e15, float("inf"), float("nan")):
            moved = abs(steps_of([10.0, 90.0, value]) - before)
            if moved > most:
                return f"a row of value {value} moves the sum by {moved} steps, {most} is the most"
        return None

    return check


def real_steps(values: list[float]) -> int:
    """The sum of a column in steps, as the product reads it from a table."""
    import pyarrow as pa

    table = pa.table({"x": pa.array([0] * len(values)), "m": pa.array(values, type=pa.float64())})
    return int(open_table(table).aggregate(SCHEMA, key=1).sums["m"].sum())


def unclipped_steps(values: list[float]) -> int:
    """NOT PRIVATE: values are summed as they are, with noise for the schema's bounds."""
    return sum(round(min(value, 1e300)) - 50 for value in values if value == value)  # noqa: PLR0124 (missing ones)


def nan_through_clip(values: list[float]) -> int:
    """NOT PRIVATE: clipping leaves NaN as it is, and a cast makes a huge number of it."""
    steps = np.clip(np.array(values), 0, 100) - 50
    # The cast of an Intel processor, written out: on ARM a cast makes 0 of NaN, which happens to do no harm.
    huge = np.iinfo(np.int64).min
    return int(np.where(np.isnan(steps), huge, np.nan_to_num(steps).astype(np.int64)).sum())
