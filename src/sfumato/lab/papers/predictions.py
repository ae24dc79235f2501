"""Predictions of a published model in one form for all models: four columns beside the rows' own.

predicted: the value of the target. probability: the share of rows judged alike for which that is right, in the table
that was released, and the ends of its interval; null where nothing is known.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING

from sfumato.answers.fieller import Interval
from sfumato.errors import QueryError

if TYPE_CHECKING:
    import pyarrow as pa

Share = tuple[float | None, float | None, float | None]  # a probability and the ends of its interval
COLUMNS = ("predicted", "probability", "probability_low", "probability_high")


def share_of(found: Interval) -> Share:
    """An interval as what is said of a row."""
    return found.value, found.low, found.high


def with_predictions(rows: pa.Table, predicted: Sequence[object], shares: Sequence[Share | None]) -> pa.Table:
    """The rows with these columns; a table that has one of them already is refused."""
    import pyarrow as pa

    if taken := [name for name in COLUMNS if name in rows.column_names]:
        raise QueryError(f"the rows have a column {taken[0]!r} already, which the model's is called; rename yours")
    told = [[_known(None if one is None else one[end]) for one in shares] for end in range(3)]
    rows = rows.append_column(COLUMNS[0], pa.array(predicted))
    for name, column in zip(COLUMNS[1:], told, strict=True):
        rows = rows.append_column(name, pa.array(column, pa.float64()))
    return rows


def _known(number: float | None) -> float | None:
    return number if number is not None and isfinite(number) else None
