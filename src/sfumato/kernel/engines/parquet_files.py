"""Parquet files as a source: names and types from their footers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.kernel.engines import Column
from sfumato.kernel.engines.arrow_values import harmless
from sfumato.kernel.engines.origin import SOURCE, mounted_columns, shown_files

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

_PATTERN = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class ParquetFiles:
    """Parquet files of the same columns and types, read as one table."""

    paths: tuple[Path, ...]

    @property
    def shown(self) -> str:
        """What a message calls them."""
        return shown_files(self.paths)

    def describe(self, connection: Any) -> list[Column]:
        """Their columns."""
        names = self._names(connection)
        self.mount(connection, ())
        # DuckDB ignores case and renames the second of "Age" and "age"; the order stays.
        return [replace(column, name=name) for name, column in zip(names, mounted_columns(connection), strict=True)]

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make them readable as one table."""
        from sqlglot import exp

        plain = exp.EQ(this=exp.var("hive_partitioning"), expression=exp.false())
        reader = exp.Anonymous(this="read_parquet", expressions=[self._paths(), plain])
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS FROM {reader.sql(dialect='duckdb')}")

    def mount_slowly(self, connection: Any, used: Sequence[Column]) -> None:
        """The same through Arrow, value by value where need be.

        DuckDB's reader stops at text that is not UTF-8 and at times beyond its range. For privacy no value may stop a
        reading, so then all is read again with such values missing.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        def read() -> Iterator[pa.RecordBatch]:
            for path in self.paths:
                with pq.ParquetFile(path) as file:
                    for batch in file.iter_batches(columns=[column.name for column in used], use_threads=False):
                        columns = [harmless(batch.column(column.name)) for column in used]
                        yield pa.record_batch(columns, names=[column.reference for column in used])

        stream = read()
        first = next(stream, None)  # a file that stopped DuckDB's reader has at least one row
        if first is not None:
            connection.execute(f"DROP VIEW {SOURCE}")
            connection.register(SOURCE, pa.RecordBatchReader.from_batches(first.schema, chain([first], stream)))

    def _names(self, connection: Any) -> list[str]:
        """The columns of the files; files that differ are refused, for making them equal could fail on a value."""
        from sqlglot import exp

        call = exp.Anonymous(this="parquet_schema", expressions=[self._paths()]).sql(dialect="duckdb")
        parts = "name, num_children, type, type_length, converted_type, logical_type, scale, precision"
        schemas: dict[str, list[tuple[Any, ...]]] = {}
        for file, *field in connection.sql(f"SELECT file_name, {parts} FROM {call}").fetchall():
            schemas.setdefault(file, []).append(tuple(field))
        first, *others = (schema[1:] for schema in schemas.values())  # without the root
        if any(sorted(map(repr, other)) != sorted(map(repr, first)) for other in others):
            raise TableError(f"{self.shown} do not all have the same columns and types; make them equal")
        names, inner = [], 0
        for name, children, *_ in first:  # depth first: a field is of the top if no field is still open
            if inner == 0:
                names.append(str(name))
            else:
                inner -= 1
            inner += children or 0
        if others and len({name.lower() for name in names}) < len(names):
            # DuckDB finds the columns of several files by name and takes "A" and "a" for one name.
            raise TableError(
                f"{self.shown} have columns whose names differ only in case; rename them, or join the files"
            )
        return names

    def _paths(self) -> exp.Expression:
        from sqlglot import exp

        return exp.Array(expressions=[exp.Literal.string(_literally(path)) for path in self.paths])


def find_parquet(paths: tuple[Path, ...]) -> ParquetFiles:
    """The files as one table."""
    odd = next((path for path in paths if "\\" in path.as_posix() and _PATTERN.search(path.as_posix())), None)
    if odd is not None:
        raise TableError(f"{odd} has a backslash beside one of * ? [ in its path; rename the file or folder")
    return ParquetFiles(paths)


def _literally(path: Path) -> str:
    """A path as a pattern that matches only itself, for the engine would expand it."""
    return _PATTERN.sub(r"[\g<0>]", path.as_posix())
