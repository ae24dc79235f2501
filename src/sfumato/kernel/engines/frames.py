"""Frames in memory (pandas, polars, Arrow), as Arrow columns named by their place.

Types come from the frame, never from its values: pandas columns of Python objects are text, whatever they hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.kernel.engines import Column
from sfumato.kernel.engines.origin import SOURCE, mounted_columns

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Frame:
    """A frame of one of the known libraries."""

    frame: Any = field(repr=False)  # for privacy: its repr shows rows
    library: str
    _read: list[bool] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """What a message calls it."""
        return f"the {self.library} frame"

    def describe(self, connection: Any) -> list[Column]:
        """Its columns."""
        empty = self._empty()
        found = []
        for place, name in enumerate(empty.column_names):
            try:
                connection.register(SOURCE, empty.select([place]))
                kind = mounted_columns(connection)[0].type
            except Exception:  # a type that DuckDB does not know, which matters only if the schema uses it
                kind = str(empty.schema.field(place).type).split("<")[0].split("(")[0]
            found.append(Column(str(name), kind, f"c{place}"))
        return found

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the used columns readable."""
        connection.register(SOURCE, self._columns([int(column.reference[1:]) for column in used]))

    def _empty(self) -> pa.Table:
        """The frame without its rows: names and types."""
        import pyarrow as pa

        if self.library == "pandas":
            start = self.frame.iloc[:0]
            return pa.table(
                [_from_pandas(start.iloc[:, place]) for place in range(start.shape[1])],
                names=[str(name) for name in start.columns],
            )
        if self.library == "polars":
            return self.frame.head(0).lazy().collect().to_arrow()
        if self.library == "duckdb":
            return self.frame.limit(0).to_arrow_table()
        return self.frame.schema.empty_table()

    def _columns(self, places: Sequence[int]) -> Any:
        """The columns at these places, renamed c0, c1, ..., as something that DuckDB can scan."""
        import pyarrow as pa

        names = [f"c{place}" for place in places]
        if self.library == "pandas":
            return pa.table([_from_pandas(self.frame.iloc[:, place]) for place in places], names=names)
        if self.library == "polars":
            wanted = [self.frame.lazy().collect_schema().names()[place] for place in places]
            return self.frame.lazy().select(wanted).collect().to_arrow().rename_columns(names)
        if isinstance(self.frame, pa.Table | pa.RecordBatch):
            return pa.table([self.frame.column(place) for place in places], names=names)
        if hasattr(self.frame, "scanner"):  # a dataset
            fields = [self.frame.schema.field(place).name for place in places]
            return _renamed(self.frame.scanner(columns=fields).to_reader(), range(len(places)), names)
        if self.library == "pyarrow":
            if self._read:
                raise TableError("this RecordBatchReader was read already and is used up; pass a new one, or a Table")
            self._read.append(True)
        stream = self.frame if self.library == "pyarrow" else self.frame.to_arrow_reader()
        return _renamed(stream, places, names)


def find_frame(table: object) -> Frame | None:
    """The frame that an object is, if it is one; no library is imported to find out."""
    known = {"DataFrame", "LazyFrame", "Table", "RecordBatch", "RecordBatchReader", "Dataset", "DuckDBPyRelation"}
    for kind in type(table).__mro__:
        library = kind.__module__.split(".")[0].lstrip("_")
        if kind.__name__ in known and library in ("pandas", "polars", "pyarrow", "duckdb"):
            return Frame(table, library)
    return None


def _renamed(stream: Any, places: Sequence[int], names: list[str]) -> Any:
    import pyarrow as pa

    schema = pa.schema([pa.field(name, stream.schema.field(at).type) for name, at in zip(names, places, strict=True)])
    batches = (pa.record_batch([batch.column(place) for place in places], schema=schema) for batch in stream)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _from_pandas(column: Any) -> Any:
    import pyarrow as pa

    arrow_text = getattr(column.dtype, "storage", None) in ("pyarrow", "pyarrow_numpy")
    if arrow_text or type(column.dtype).__name__ == "ArrowDtype":
        return pa.array(column.array, from_pandas=True)
    if column.dtype.kind in "biufM" and type(column.dtype).__name__ not in ("CategoricalDtype", "SparseDtype"):
        return pa.array(column, from_pandas=True)
    missing = column.isna().to_numpy()
    return pa.array([None if gone else _text(value) for value, gone in zip(column, missing, strict=True)], pa.string())


def _text(value: object) -> str | None:
    """An object as text; for privacy, one that has no text (a lone surrogate, a failing __str__) must not stop."""
    try:
        return str(value).encode("utf-8", "replace").decode("utf-8")
    except Exception:
        return None
