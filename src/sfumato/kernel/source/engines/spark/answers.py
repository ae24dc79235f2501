"""What a statement gives, as Arrow: of Spark 4 as it is, of Spark 3.5 row by row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 100_000  # rows that are turned into Arrow at a time


def as_arrow(frame: Any) -> pa.Table:
    """What a statement gives; nothing else of a table leaves Spark."""
    if hasattr(frame, "toArrow"):
        return frame.toArrow()
    import pyarrow as pa

    kinds = {"bigint": pa.int64(), "int": pa.int32(), "string": pa.string()}
    schema = pa.schema([pa.field(part.name, kinds[part.dataType.simpleString()]) for part in frame.schema.fields])
    batches, rows = [], list[Any]()

    def pack() -> None:
        columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
        batches.append(pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema))
        rows.clear()

    for row in frame.toLocalIterator(prefetchPartitions=True):
        rows.append(row)
        if len(rows) == CHUNK:
            pack()
    pack()
    return pa.Table.from_batches(batches, schema)
