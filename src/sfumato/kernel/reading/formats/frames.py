"""Frames in memory (pandas, polars, Arrow), as Arrow columns named by their place.

polars and Arrow columns have the types that the frame declares. The types of pandas columns come from their values: one
missing value makes floats of whole numbers, one text makes objects of them. So a pandas frame is read as the CSV file
that it could be written to: every value as text, by itself, and whole floats as whole numbers. Persons are told apart
by the type and the value of each object: the number 1 and the text 1 are two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.formats.arrow_values import as_text, harmless, identity_of, text_of
from sfumato.kernel.reading.formats.origin import SOURCE, mounted_columns

if TYPE_CHECKING:
    import pyarrow as pa

# What works out its rows only when it is read, so that one row can depend on others or fail.
LAZY = {"LazyFrame", "RecordBatchReader", "Dataset", "DuckDBPyRelation"}


@dataclass(frozen=True)
class Frame:
    """A frame of one of the known libraries."""

    frame: Any = field(repr=False)  # for privacy: its repr shows rows
    library: str
    kind: str
    _read: list[bool] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """What a message calls it."""
        return f"the {self.library} {self.kind}" if self.kind in LAZY else f"the {self.library} frame"

    def describe(self, connection: Any) -> list[Column]:
        """Its columns."""
        if self.library == "pandas":
            return [
                Column(
                    str(name), None, f"c{place}", inexact=_is_float(self.frame.dtypes.iloc[place]), who=f"who{place}"
                )
                for place, name in enumerate(self.frame.columns)
            ]
        empty = self._empty()
        found = []
        for place, name in enumerate(empty.column_names):
            try:
                connection.register(SOURCE, empty.select([place]))
                kind = mounted_columns(connection)[0].type
            except Exception:  # a type that DuckDB does not know, which matters only if the schema uses it
                kind = f"Arrow {str(empty.schema.field(place).type).split('<')[0].split('(')[0]}"
            found.append(Column(str(name), kind, f"c{place}", derived=self.kind in LAZY))
        return found

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the used columns readable."""
        mounted = self._columns([int(column.reference[1:]) for column in used])
        for column in used:
            if column.who is not None:  # of pandas only
                people = _people_from_pandas(self.frame.iloc[:, int(column.reference[1:])])
                mounted = mounted.append_column(column.who, people)
        connection.register(SOURCE, mounted)

    def _empty(self) -> pa.Table:
        """The frame without its rows: names and types."""
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
            return pa.table([harmless(self.frame.column(place)) for place in places], names=names)
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
    known = {"DataFrame", "Table", "RecordBatch"} | LAZY
    for kind in type(table).__mro__:
        library = kind.__module__.split(".")[0].lstrip("_")
        if kind.__name__ in known and library in ("pandas", "polars", "pyarrow", "duckdb"):
            return Frame(table, library, kind.__name__)
    return None


def _renamed(stream: Any, places: Sequence[int], names: list[str]) -> Any:
    import pyarrow as pa

    empty = [harmless(pa.array([], stream.schema.field(at).type)) for at in places]
    schema = pa.schema([pa.field(name, part.type) for name, part in zip(names, empty, strict=True)])
    batches = (pa.record_batch([harmless(batch.column(at)) for at in places], schema=schema) for batch in stream)
    return pa.RecordBatchReader.from_batches(schema, batches)


def _is_float(kind: Any) -> bool:
    """Whether a pandas column holds floats, in which two large whole numbers may have become one."""
    return getattr(kind, "kind", "") == "f"


def _from_pandas(column: Any) -> Any:
    """A pandas column as text."""
    import pyarrow as pa

    if type(column.dtype).__name__ == "CategoricalDtype":
        listed = [text_of(value) for value in column.cat.categories]
        return pa.DictionaryArray.from_arrays(
            pa.array(column.cat.codes.to_numpy(), mask=column.isna().to_numpy()), pa.array(listed, pa.string())
        )
    if _is_arrow(column.dtype):
        native = pa.array(column.array, from_pandas=True)
        chunks = native.chunks if isinstance(native, pa.ChunkedArray) else [native]
        return pa.chunked_array([as_text(chunk) for chunk in chunks], pa.string())
    if column.dtype.kind in "biufM" and type(column.dtype).__name__ != "SparseDtype":
        return as_text(pa.array(column, from_pandas=True))
    missing = column.isna().to_numpy()
    return pa.array([None if gone else text_of(v) for v, gone in zip(column, missing, strict=True)], pa.string())


def _people_from_pandas(column: Any) -> Any:
    """The persons that the values of a pandas column name, as `identity_of` has them, whatever the column's type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, missing = column.dtype, column.isna().to_numpy()
    if type(kind).__name__ == "CategoricalDtype":
        listed = pa.array([identity_of(value) for value in kind.categories], pa.binary())
        return listed.take(pa.array(column.cat.codes.to_numpy(), mask=missing))
    if type(kind).__name__ != "SparseDtype" and kind.kind in "iu":
        word = b"whole "
    elif getattr(kind, "storage", None) == "pyarrow":
        word = b"text "
    else:
        return pa.array(
            [None if gone else identity_of(v) for v, gone in zip(column, missing, strict=True)], pa.binary()
        )
    return pc.binary_join_element_wise(pa.scalar(word), _from_pandas(column).cast(pa.binary()), pa.scalar(b""))


def _is_arrow(kind: Any) -> bool:
    return type(kind).__name__ == "ArrowDtype" or getattr(kind, "storage", None) == "pyarrow"
