"""Which rows are meant by an index, a slice, a list or a mask."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.queries.checks import LARGEST, Array, listable


def row_numbers(wanted: int | slice | Sequence[int] | Array, rows: int, what: str) -> Codes:
    """Row numbers from 0, as NumPy would read them: negative ones count from the end, a mask marks rows.

    >>> row_numbers(slice(None, None, -2), 5, "q").tolist(), row_numbers([-1, 0], 5, "q").tolist()
    ([4, 2, 0], [4, 0])
    """
    if isinstance(wanted, slice):
        chosen = range(rows)[wanted]
        count = max(0, -((chosen.start - chosen.stop) // chosen.step))
        listable(count, f"a selection from {what}", "select fewer rows")
        if count and max(chosen[0], chosen[-1]) > LARGEST:
            raise QueryError(f"rows of {what} beyond 2^62 cannot be selected; select earlier ones")
        index = np.arange(count, dtype=np.int64) * chosen.step + chosen.start
    else:
        index = _listed(wanted, rows, what)
    if index.size == 0:
        raise QueryError(f"no rows selected from {what}; select at least one of its {rows}")
    return index


def _listed(wanted: object, rows: int, what: str) -> Codes:
    try:
        index = np.atleast_1d(np.asarray(wanted))
    except ValueError:
        index = np.empty(0, dtype=object)
    if index.dtype == np.bool_ and index.shape == (rows,):
        return np.flatnonzero(index).astype(np.int64)
    if index.ndim != 1 or (index.size and not np.can_cast(index.dtype, np.int64)) or index.dtype == np.bool_:
        raise QueryError(f"rows of {what} are selected by int64 numbers, a slice or a mask of its {rows} rows")
    if index.size and not -rows <= int(index.min()) <= int(index.max()) < rows:
        raise QueryError(f"{what} has rows 0 to {rows - 1}; some of the rows selected are not among them")
    index = index.astype(np.int64)
    if index.size == 0 or index.min() >= 0:
        return index
    if rows > LARGEST:
        raise QueryError(f"rows of {what} beyond 2^62 cannot be selected; select earlier ones")
    return np.where(index < 0, index + rows, index)
