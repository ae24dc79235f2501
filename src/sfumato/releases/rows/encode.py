"""From values to cells: rows that somebody brings to a published model. They are the reader's own, and stay so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError, TableError

if TYPE_CHECKING:
    import pyarrow as pa

NOWHERE = -1  # the code of a value that the schema does not list


def read_rows(rows: Any) -> pa.Table:
    """Rows of a .csv or .parquet file, of a pandas, polars or Arrow frame, or a list of dicts."""
    import pyarrow as pa

    if isinstance(rows, str | Path):
        return _read_file(Path(rows))
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, list):
        return pa.Table.from_pylist(rows)
    if hasattr(rows, "__arrow_c_stream__"):
        return pa.table(rows)
    raise QueryError("rows to judge are a path (csv, parquet), a frame or a list of dicts")


def codes_in(rows: pa.Table, domain: Domain, names: Sequence[str]) -> dict[str, Codes]:
    """The cell of every row along some attributes; `NOWHERE` for values that are not listed or cannot be read."""
    lacking = [name for name in names if name not in rows.column_names]
    if lacking:
        raise QueryError(f"the rows have no column {lacking[0]!r}; the model needs {', '.join(names)}")
    return {name: _codes(rows.column(name), domain[name]) for name in names}


def _codes(column: Any, axis: Axis) -> Codes:
    coded = column.combine_chunks().dictionary_encode()
    cells = np.array([_cell(value, axis) for value in coded.dictionary.to_pylist()] + [_cell(None, axis)])
    places = coded.indices.fill_null(len(cells) - 1).to_numpy(zero_copy_only=False)
    return np.asarray(cells[places], dtype=np.int64)


def _cell(value: object, axis: Axis) -> int:
    if value is None:
        return axis.places if axis.missing else NOWHERE
    try:
        number = axis.read(value)
    except QueryError:
        return NOWHERE
    place = int(np.searchsorted(axis.edges, number, side="right")) - 1
    if axis.closed and number == axis.edges[-1]:
        place -= 1
    return place if 0 <= place < axis.places else NOWHERE


def _read_file(path: Path) -> pa.Table:
    import pyarrow as pa
    from pyarrow import csv, parquet

    try:
        if path.suffix.lower() == ".csv":
            return csv.read_csv(path)
        if path.suffix.lower() == ".parquet":
            return parquet.read_table(path)
    except (OSError, pa.ArrowInvalid):
        raise TableError(f"cannot read {path}; is it a csv or parquet file?") from None
    raise TableError(f"rows to judge are read from .csv or .parquet, not {path.name}")
