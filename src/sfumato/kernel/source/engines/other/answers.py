"""What a statement gives, as Arrow: of ADBC as it is, of DB-API in batches of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 50_000  # rows that are turned into Arrow at a time


def as_arrow(cursor: Any) -> pa.Table:
    """The rows of a cursor that has run the statement."""
    import pyarrow as pa

    names = [part[0] for part in cursor.description]
    tables = [_packed(names, [])]
    while rows := cursor.fetchmany(CHUNK):
        tables.append(_packed(names, rows))
    texts = {name for table in tables for name in names if str(table.schema.field(name).type) == "string"}
    if texts:
        tables = [table for table in tables if table.num_rows] or tables
    return _placed(pa.concat_tables(tables))


def whole_numbers(found: pa.Table) -> pa.Table:
    """Arrow of whatever whole numbers a driver has, as those that the kernel asks for."""
    import pyarrow as pa

    columns = [
        column if pa.types.is_string(column.type) else column.cast(_kind(name))
        for name, column in zip(found.column_names, found.columns, strict=True)
    ]
    return _placed(pa.table(columns, names=found.column_names))


def _placed(found: pa.Table) -> pa.Table:
    """Rows that have a cell. A value that a server can hold and not work with must fall out, not stop a reading."""
    import pyarrow.compute as pc

    for name in found.column_names:
        if name == "cell" or name.startswith("word"):
            found = found.filter(pc.is_valid(found.column(name)))
    return found


def _packed(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table([_column(name, values) for name, values in zip(names, columns, strict=True)], names=list(names))


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    if any(isinstance(value, str | bytes) for value in values):
        return pa.array([value.decode() if isinstance(value, bytes) else value for value in values], pa.string())
    return pa.array([None if value is None else _whole(value) for value in values], _kind(name))


def _whole(value: Any) -> int:
    if int(value) != value:
        raise TypeError
    return int(value)


def _kind(name: str) -> Any:
    import pyarrow as pa

    return pa.int32() if name.startswith("word") else pa.int64()
