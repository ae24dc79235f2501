"""Multiplicative weights: an estimate moved towards noisy answers, each cell by a factor.

Hardt, Ligett, McSherry, NIPS 2012, figure 1, with the passes over all answers of its section 3. The paper's queries
have entries between -1 and 1; rows with larger ones are divided by their largest. Answers that no table of this total
could give pull no harder than the nearest that one could.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError
from sfumato.queries import Queries

WRITTEN_OUT = 2**24  # entries of all rows together, up to which they are kept between passes


def multiplicative_weights(estimate: Floats, queries: Queries, answers: Floats, *, passes: int = 20) -> Floats:
    """The estimate after going through all rows so many times: x * exp(row (answer - row x) / (2 total)).

    The total stays what it was, and a cell that is 0 stays 0.

    >>> from sfumato.queries import Ranges
    >>> moved = multiplicative_weights(np.full(4, 25.0), Ranges(4, [0], [1]), np.array([80.0]), passes=99)
    >>> moved.round(1).tolist()
    [40.0, 40.0, 10.0, 10.0]
    """
    cells, wanted = np.array(estimate, dtype=np.float64), np.asarray(answers, dtype=np.float64)
    total = float(cells.sum())
    if cells.shape != (queries.columns,) or not (cells >= 0).all() or not 0 < total < np.inf:
        raise QueryError(f"multiplicative weights need {queries.columns} cells, none below 0 and not all of them 0")
    if wanted.shape != (queries.rows,) or not np.isfinite(wanted).all():
        raise QueryError(f"multiplicative weights need a finite answer for each of the {queries.rows} rows")
    written = queries.dense() if queries.rows * queries.columns <= WRITTEN_OUT else None
    for _ in range(passes):
        for place in range(queries.rows):
            row = queries.row(place) if written is None else written[place]
            cells = _moved(cells, total, row, wanted[place])
    return cells


def _moved(cells: Floats, total: float, row: np.ndarray, answer: float) -> Floats:
    largest = float(np.abs(row).max())
    if largest == 0.0:
        return cells
    possible = min(max(answer, total * float(row.min())), total * float(row.max()))
    pull = (possible - float(row @ cells)) / (2.0 * total * largest**2)
    moved = cells * np.exp(pull * row)
    return np.asarray(moved * (total / moved.sum()))
