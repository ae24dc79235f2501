"""Columnar sources: frames in memory (pandas, polars, Arrow), Arrow files (Feather) and Parquet files.

polars and Arrow columns have the types that the frame declares. The types of pandas columns come from their values: one
missing value makes floats of whole numbers, one text makes objects of them. So a pandas frame is read as the CSV file
that it could be written to: every value as text, by itself, and whole floats as whole numbers. Persons are told apart
by the type and the value of each object: the number 1 and the text 1 are two.

Arrow files have names and types in their schema, and values as Arrow in memory has them. Parquet files have names and
types in their footers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.formats.files import shown_files
from sfumato.kernel.reading.formats.origin import SOURCE, as_text, harmless, identity_of, mounted_columns, text_of

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

# What works out its rows only when it is read, so that one row can depend on others or fail.
LAZY = {"LazyFrame", "RecordBatchReader", "Dataset", "DuckDBPyRelation"}


@dataclass(frozen=True)
class Frame:
    """Data frame of pandas, polars, Arrow or DuckDB, as a source."""

    frame: Any = field(repr=False)  # for privacy: its repr shows rows
    library: str
    kind: str
    _read: list[bool] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """Name of the frame for messages."""
        return f"the {self.library} {self.kind}" if self.kind in LAZY else f"the {self.library} frame"

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the frame."""
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

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the used columns with DuckDB."""
        mounted = self._columns([int(column.reference[1:]) for column in used])
        for column in used:
            if column.who is not None:  # of pandas only
                people = _people_from_pandas(self.frame.iloc[:, int(column.reference[1:])])
                mounted = mounted.append_column(column.who, people)
        connection.register(name, mounted)

    def _empty(self) -> pa.Table:
        """Empty Arrow table with the frame's names and types."""
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
            stream = self.frame.scanner(columns=fields).to_reader()
            return _renamed(stream.schema, stream, range(len(places)), names)
        if self.library == "pyarrow":
            if self._read:
                raise TableError("this RecordBatchReader was read already and is used up; pass a new one, or a Table")
            self._read.append(True)
        stream = self.frame if self.library == "pyarrow" else self.frame.to_arrow_reader()
        return _renamed(stream.schema, stream, places, names)


def find_frame(table: object) -> Frame | None:
    """Wrap an object as a frame if it is one, without importing any library; else None."""
    known = {"DataFrame", "Table", "RecordBatch"} | LAZY
    for kind in type(table).__mro__:
        library = kind.__module__.split(".")[0].lstrip("_")
        if kind.__name__ in known and library in ("pandas", "polars", "pyarrow", "duckdb"):
            return Frame(table, library, kind.__name__)
    return None


def _renamed(types: pa.Schema, batches: Iterable[pa.RecordBatch], places: Sequence[int], names: list[str]) -> Any:
    """Record-batch reader of some columns of a stream, renamed, with unreadable values made missing."""
    import pyarrow as pa

    empty = [harmless(pa.array([], types.field(at).type)) for at in places]
    schema = pa.schema([pa.field(name, part.type) for name, part in zip(names, empty, strict=True)])
    found = (pa.record_batch([harmless(batch.column(at)) for at in places], schema=schema) for batch in batches)
    return pa.RecordBatchReader.from_batches(schema, found)


def _is_float(kind: Any) -> bool:
    """Whether a pandas column holds floats, in which two large whole numbers may have become one."""
    return getattr(kind, "kind", "") == "f"


def _from_pandas(column: Any) -> Any:
    """Text of every value of a pandas column, as Arrow."""
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
    """Identities of the values of a pandas column (`identity_of`), whatever its dtype."""
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


@dataclass(frozen=True)
class ArrowFiles:
    """Arrow files of the same columns and types, read as one table."""

    paths: tuple[Path, ...]

    @property
    def shown(self) -> str:
        """Names of the files for messages."""
        return shown_files(self.paths)

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the files."""
        first, *others = (_reader(path).schema.remove_metadata() for path in self.paths)
        if any(not other.equals(first) for other in others):
            raise TableError(f"{self.shown} do not all have the same columns and types; make them equal")
        return Frame(first.empty_table(), "pyarrow", "Table").describe(connection)

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the used columns with DuckDB."""
        places, names = [int(column.reference[1:]) for column in used], [column.reference for column in used]
        types = _reader(self.paths[0]).schema
        connection.register(name, _renamed(types, self._batches(), places, names))

    def _batches(self) -> Iterator[pa.RecordBatch]:
        for reader in map(_reader, self.paths):
            yield from map(reader.get_batch, range(reader.num_record_batches))


def _reader(path: Path) -> Any:
    import pyarrow as pa

    return pa.ipc.open_file(pa.memory_map(str(path)))


_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files of the same columns and types, read as one table."""

    paths: tuple[Path, ...]

    @property
    def shown(self) -> str:
        """Names of the files for messages."""
        return shown_files(self.paths)

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the files."""
        names = self._names()
        self.mount(connection, ())
        # DuckDB ignores case and renames the second of "Age" and "age"; the order stays.
        return [replace(column, name=name) for name, column in zip(names, mounted_columns(connection), strict=True)]

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the files with DuckDB as one table."""
        from sqlglot import exp

        options = {
            "hive_partitioning": exp.false(),
            # For privacy: a file's statistics leave out NaN, and DuckDB then takes it that there is none, so that what
            # one row means would depend on the others in its row group.
            "can_have_nan": exp.true(),
        }
        settings = [exp.EQ(this=exp.var(name), expression=value) for name, value in options.items()]
        reader = exp.Anonymous(this="read_parquet", expressions=[self._paths(), *settings])
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {reader.sql(dialect='duckdb')}")

    def mount_slowly(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the files through Arrow, with unreadable values made missing; others mean the same as in DuckDB.

        DuckDB's reader stops at text that is not UTF-8 and at times beyond its range. For privacy no value may stop a
        reading, so then all is read again with such values missing.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        def read() -> Iterator[pa.RecordBatch]:
            for path in self.paths:
                with pq.ParquetFile(path, coerce_int96_timestamp_unit="us") as file:
                    for batch in file.iter_batches(columns=[column.name for column in used], use_threads=False):
                        columns = [harmless(batch.column(column.name)) for column in used]
                        yield pa.record_batch(columns, names=[column.reference for column in used])

        stream = read()
        first = next(stream, None)  # a file that stopped DuckDB's reader has at least one row
        if first is not None:
            connection.execute(f"DROP VIEW {name}")
            connection.register(name, pa.RecordBatchReader.from_batches(first.schema, chain([first], stream)))

    def _names(self) -> list[str]:
        """Column names of the files, from their footers; files that differ are refused, since a conversion could fail.

        From the footers themselves: the engine may list the columns of several files in any order.
        """
        import pyarrow.parquet as pq

        first, *others = (pq.ParquetFile(path).schema for path in self.paths)
        if any(_leaves(other) != _leaves(first) for other in others):
            raise TableError(f"{self.shown} do not all have the same columns and types; make them equal")
        names = [str(name) for name in first.to_arrow_schema().names]
        if others and len({name.lower() for name in names}) < len(names):
            # DuckDB finds the columns of several files by name and takes "A" and "a" for one name.
            raise TableError(f"{self.shown} have columns whose names differ only in case; rename all but one")
        return names

    def _paths(self) -> exp.Expression:
        from sqlglot import exp

        return exp.Array(expressions=[exp.Literal.string(_literally(path)) for path in self.paths])


def _leaves(schema: Any) -> list[str]:
    """The leaf columns of a Parquet schema with their types, sorted, so that their order does not matter."""
    found = []
    for at in range(len(schema.names)):
        leaf = schema.column(at)
        sizes = (leaf.length, leaf.precision, leaf.scale, leaf.max_definition_level, leaf.max_repetition_level)
        found.append(f"{leaf.path} {leaf.physical_type} {leaf.logical_type} {sizes}")
    return sorted(found)


def find_parquet(paths: tuple[Path, ...]) -> ParquetFiles:
    """Source of some Parquet files as one table."""
    odd = next((path for path in paths if "\\" in path.as_posix() and _PATTERN.search(path.as_posix())), None)
    if odd is not None:
        raise TableError(f"{odd} has a backslash beside one of * ? [ in its path; rename the file or folder")
    return ParquetFiles(paths)


def _literally(path: Path) -> str:
    """Glob pattern that matches only this path."""
    return _PATTERN.sub(r"[\g<0>]", path.as_posix())
