"""Parquet files as a source: names and types from their footers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.formats.arrow_values import harmless
from sfumato.kernel.reading.formats.origin import SOURCE, mounted_columns, shown_files

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
        names = self._names()
        self.mount(connection, ())
        # DuckDB ignores case and renames the second of "Age" and "age"; the order stays.
        return [replace(column, name=name) for name, column in zip(names, mounted_columns(connection), strict=True)]

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make them readable as one table."""
        from sqlglot import exp

        options = {
            "hive_partitioning": exp.false(),
            # For privacy: a file's statistics leave out NaN, and DuckDB then takes it that there is none, so that what
            # one row means would depend on the others in its row group.
            "can_have_nan": exp.true(),
        }
        settings = [exp.EQ(this=exp.var(name), expression=value) for name, value in options.items()]
        reader = exp.Anonymous(this="read_parquet", expressions=[self._paths(), *settings])
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS FROM {reader.sql(dialect='duckdb')}")

    def mount_slowly(self, connection: Any, used: Sequence[Column]) -> None:
        """The same through Arrow, value by value where need be; what DuckDB's reader can read means the same here.

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
            connection.execute(f"DROP VIEW {SOURCE}")
            connection.register(SOURCE, pa.RecordBatchReader.from_batches(first.schema, chain([first], stream)))

    def _names(self) -> list[str]:
        """The columns of the files; files that differ are refused, for making them equal could fail on a value.

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
    """Everything that is said of the columns of a file, whatever their order."""
    found = []
    for at in range(len(schema.names)):
        leaf = schema.column(at)
        sizes = (leaf.length, leaf.precision, leaf.scale, leaf.max_definition_level, leaf.max_repetition_level)
        found.append(f"{leaf.path} {leaf.physical_type} {leaf.logical_type} {sizes}")
    return sorted(found)


def find_parquet(paths: tuple[Path, ...]) -> ParquetFiles:
    """The files as one table."""
    odd = next((path for path in paths if "\\" in path.as_posix() and _PATTERN.search(path.as_posix())), None)
    if odd is not None:
        raise TableError(f"{odd} has a backslash beside one of * ? [ in its path; rename the file or folder")
    return ParquetFiles(paths)


def _literally(path: Path) -> str:
    """A path as a pattern that matches only itself, for the engine would expand it."""
    return _PATTERN.sub(r"[\g<0>]", path.as_posix())
