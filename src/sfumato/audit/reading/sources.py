"""Every source that the product can read, as a way of bringing an awkward table into it.

An engine or a format that is added later is attacked as soon as it has a line in SOURCES.
"""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from sfumato.audit.reading.csv_tables import AwkwardFile, awkward_file
from sfumato.audit.reading.reference import Row, unit_of
from sfumato.audit.reading.tables import POOLS, AwkwardTable, awkward_schema, awkward_table
from sfumato.kernel.engines.csv_files import CsvFiles, find_csv
from sfumato.kernel.engines.duckdb import over_origin
from sfumato.kernel.source import Table, open_table
from sfumato.schema import Schema

BLOCKS = (5, 16, 64, 2**23)  # into which a CSV file is cut; nothing may depend on it
FLOATS = "float64"


@dataclass(frozen=True)
class Case:
    """A table that can be opened whole or without some of its parts, a part being a row or the bytes of a record."""

    schema: Schema
    parts: tuple[Any, ...]
    unit: Callable[[Any], Hashable]
    open: Callable[[Sequence[Any]], Table]
    rows: Callable[[Sequence[Any]], Sequence[Row]]
    typed: bool = True


Make = Callable[[Random, Path], Case]
Bring = Callable[[AwkwardTable, Sequence[Row], Path], Table]


def _typed(bring: Bring, *, typed: bool = True) -> Make:
    """Tables of declared types, brought somewhere. typed: false where they are read as text."""

    def make(random: Random, folder: Path) -> Case:
        table = awkward_table(random)
        return case_of(table, lambda rows: bring(table, rows, folder), typed=typed)

    return make


def case_of(table: AwkwardTable, opening: Callable[[Sequence[Row]], Table], *, typed: bool = True) -> Case:
    """A table whose parts are its rows."""
    column = table.schema.privacy_unit.column
    return Case(
        table.schema,
        table.rows,
        (lambda row: unit_of(row[column])) if column is not None else (lambda row: None),
        opening,
        lambda rows: rows,
        typed,
    )


def _parquet(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pyarrow.parquet as pq

    path = folder / "t.parquet"
    pq.write_table(table.arrow(rows), path, row_group_size=3)
    return open_table(path)


def _parquet_files(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pyarrow.parquet as pq

    whole = table.arrow(rows)
    turned = whole.select(list(reversed(whole.column_names)))  # columns are found by name, not by place
    pq.write_table(whole.slice(0, 3), folder / "p0.parquet")
    pq.write_table(turned.slice(3), folder / "p1.parquet")
    return open_table(folder / "p*.parquet")


def _duckdb(collation: str) -> Bring:
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
        return open_table(f"duckdb:///{path}", name="t")

    return bring


def _polars(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import polars as pl

    return open_table(pl.from_arrow(table.arrow(rows)))


def _pandas_of_arrow(table: AwkwardTable, rows: Sequence[Row], folder: Path) -> Table:
    import pandas as pd

    return open_table(table.arrow(rows).to_pandas(types_mapper=pd.ArrowDtype))


def _pandas(random: Random, folder: Path) -> Case:
    """Values of any types in one column, so that the column's own type changes with the rows that are there.

    Identifiers are text or whole numbers of which none is missing: floats are refused as identifiers, by their type.
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
    rows = tuple(
        {
            name: None if name != names["who"] and random.random() < 0.1 else random.choice(pool)
            for name, pool in pools.items()
        }
        for _ in range(random.randint(4, 14))
    )
    table = AwkwardTable(schema, rows, types)
    columns = list(types)
    return case_of(
        table,
        lambda some: open_table(pd.DataFrame([tuple(row.values()) for row in some], columns=columns)),
        typed=False,
    )


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


def _csv(separator: str, ending: str, pack: Callable[[bytes], bytes]) -> Make:
    def make(random: Random, folder: Path) -> Case:
        found, block, path = awkward_file(random, separator), random.choice(BLOCKS), folder / f"t{ending}"

        def opening(data: bytes) -> Table:
            path.write_bytes(pack(data))
            files = find_csv((path,), separator)
            return Table(over_origin(CsvFiles(files.paths, files.header, separator, block)))

        return csv_case(found, opening)

    return make


def _in_two_parts(data: bytes) -> bytes:
    return gzip.compress(data[: len(data) // 2], mtime=0) + gzip.compress(data[len(data) // 2 :], mtime=0)


def _zstd(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.compress(data, "zstd", asbytes=True))


SOURCES: dict[str, Make] = {
    "CSV": _csv(",", ".csv", bytes),
    "CSV, tabs": _csv("\t", ".tsv", bytes),
    "CSV, gzip": _csv(",", ".csv.gz", _in_two_parts),
    "CSV, bzip2": _csv(",", ".csv.bz2", bz2.compress),
    "CSV, zstandard": _csv(",", ".csv.zst", _zstd),
    "Parquet": _typed(_parquet),
    "Parquet, several files": _typed(_parquet_files),
    "DuckDB": _typed(_duckdb("")),
    "DuckDB, collation": _typed(_duckdb("NOCASE.NOACCENT")),
    "Arrow": _typed(lambda table, rows, folder: open_table(table.arrow(rows))),
    "Arrow, in pieces": _typed(_arrow_pieces),
    "polars": _typed(_polars),
    "pandas": _pandas,
    "pandas, Arrow types": _typed(_pandas_of_arrow, typed=False),
}
