"""NOT PRIVATE: the reading audit run on each broken reader and on the real one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from sfumato.kernel.reading.engines.duckdb import DuckDB, over_origin
from sfumato.kernel.reading.formats.columnar import Frame, ParquetFiles
from sfumato.kernel.reading.formats.csv_files import CsvFiles
from sfumato.kernel.reading.formats.databases import Database, Sqlite
from sfumato.kernel.reading.formats.excel_files import ExcelFiles
from sfumato.kernel.reading.formats.json_lines import JsonLines
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.mutants.readers import (
    AnyEncoding,
    Check,
    CollatedDuckDB,
    EngineReadsCsv,
    FirstNames,
    GuessedLineStarts,
    MarkOfTheFirst,
    NamedNaN,
    ObjectsByText,
    OneCellStopsAll,
    OneLineStopsAll,
    OverflowingRank,
    StatisticsTrusted,
    TypedPandas,
    UnknownDecimals,
    ValuesByText,
)
from sfumato.lab.audit.reading.attack import attack_source
from sfumato.lab.audit.reading.database_sources import ALIKE, sqlite_source
from sfumato.lab.audit.reading.record_tables import json_source, markup_source
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.sources import (
    case_of,
    csv_source,
    duckdb_table,
    long_csv_source,
    pandas_source,
    parquet_file,
    typed_source,
)
from sfumato.lab.audit.reading.tables import OBJECTS, AwkwardTable, Case, Make, awkward_table
from sfumato.schema import Schema
from sfumato.schema.dialect import Dialect

PAIRS = 150  # in which each of these must be caught


def attacked(make: Make, pairs: int = PAIRS) -> Check:
    """Whether the reading audit complains about a source."""

    def check() -> str | None:
        found = attack_source("a source", make, pairs, patient=False)
        return None if found.sound else found.complaints[0]

    return check


def joined_under_a_collation(collation: str) -> Check:
    """NOT PRIVATE: values are joined to their list, so that a row reaches every cell of a spelling like its own."""

    def check() -> str | None:
        import duckdb

        spellings = ["ab", "aB", "Ab", "AB"]
        listed = ", ".join(f"('{text}', {place})" for place, text in enumerate(spellings))
        statement = (
            f"SELECT COUNT(*) FROM (SELECT CAST('ab' AS VARCHAR) {collation} AS v) AS rows "
            f"JOIN (VALUES {listed}) AS list(entry, code) ON rows.v = list.entry"
        )
        with duckdb.connect() as connection:
            ((reached,),) = connection.sql(statement).fetchall()
        return None if reached <= 1 else f"one row reaches {reached} cells"

    return check


def rank_moves(score: Rank) -> Check:
    """Whether one row moves a score by its sensitivity at most, where products with the ranks reach 64 bits too."""

    def check() -> str | None:
        a, b = score.quantile.as_integer_ratio()
        for rows in (6, 2**40, 2**63 // b, 2**63 // a, 2**63 // max(a, b - a)):
            counts = np.array([0, rows // 2, 0, rows - rows // 2], dtype=np.int64)
            before = score.scores(counts)
            for cell in range(len(counts)):
                after = score.scores(counts + (np.arange(len(counts)) == cell))
                moved = max(abs(int(x) - int(y)) for x, y in zip(after, before, strict=True))
                if moved > score.sensitivity:
                    return f"one row in {rows} moves a score by {moved}, {score.sensitivity} is the most"
        return None

    return check


def float_people(frame: type[Frame]) -> Make:
    """Arrow tables whose identifiers are floats."""

    def make(random: Random, folder: Path) -> Case:
        table = awkward_table(random)
        unit = table.schema.privacy_unit.column
        while unit is None or table.types[unit] != "float64":
            table = awkward_table(random)
            unit = table.schema.privacy_unit.column

        def opening(rows: Sequence[Row]) -> Table:
            origin = frame(table.arrow(rows), "pyarrow", "Table")
            object.__setattr__(origin, "unit", unit)
            return Table(over_origin(origin))

        return case_of(table, opening)

    return make


def wide_decimals(frame: type[Frame]) -> Make:
    """Arrow tables whose numbers are decimals of 256 bits."""

    def make(random: Random, folder: Path) -> Case:
        import pyarrow as pa

        table = _table({"n": {"type": "integer", "lower": -2, "upper": 2}}, [{"n": place % 5} for place in range(8)])

        def opening(rows: Sequence[Row]) -> Table:
            numbers = pa.array([row["n"] for row in rows], pa.int64()).cast(pa.decimal256(50, 2))
            return Table(over_origin(frame(pa.table({"n": numbers}), "pyarrow", "Table")))

        return case_of(table, opening)

    return make


def limited_view(*, allow_views: bool) -> Make:
    """NOT PRIVATE: a view is read like a table, although a LIMIT in it makes every row depend on the others."""

    def make(random: Random, folder: Path) -> Case:
        import duckdb

        rows = [{"n": place % 3} for place in range(9)]
        table = _table({"n": {"type": "integer", "lower": 0, "upper": 2}}, rows)
        path = folder / "view.duckdb"

        def opening(rows: Sequence[Row]) -> Table:
            path.unlink(missing_ok=True)
            with duckdb.connect(path) as connection:
                connection.register("given", table.arrow(rows))
                # A window that lets everybody in only if there is an even number of rows.
                connection.execute(
                    "CREATE TABLE t AS FROM given; "
                    "CREATE VIEW v AS SELECT n FROM (SELECT n, COUNT(*) OVER () AS rows FROM t) WHERE rows % 2 = 0"
                )
            return Table(over_origin(Database(path, "v")), allow_views)

        return case_of(table, opening)

    return make


def names_in_two_cases(files: type[ParquetFiles]) -> Make:
    """Two files with the columns A and a, in another order."""

    def make(random: Random, folder: Path) -> Case:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [{"A": 0, "a": 4} for _ in range(4)]
        table = _table({"A": {"type": "integer", "lower": 0, "upper": 4}}, rows)

        def opening(rows: Sequence[Row]) -> Table:
            whole = pa.table({name: pa.array([row[name] for row in rows], pa.int64()) for name in ("A", "a")})
            paths = folder / "one.parquet", folder / "two.parquet"
            pq.write_table(whole, paths[0])
            pq.write_table(whole.select(["a", "A"]), paths[1])
            return Table(over_origin(files(paths)))

        return replace(case_of(table, opening), rows=lambda parts: [*parts, *parts])

    return make


def people_in_utf16(files: type[Sqlite]) -> Make:
    """SQLite files in UTF-16, where one person's name is half of a character and another's is what stands for it."""

    def make(random: Random, folder: Path) -> Case:
        path, names = folder / "16.sqlite", {1: "00d8", 2: "fdff", 3: "6100"}  # in the order of bytes of x86
        rows = [{"n": place % 2, "who": place % 3 + 1} for place in range(6)]
        unit = {"column": "who", "contributions": 1}
        table = _table({"n": {"type": "integer", "lower": 0, "upper": 1}}, rows, unit)

        def opening(some: Sequence[Row]) -> Table:
            path.unlink(missing_ok=True)
            with closing(sqlite3.connect(path)) as file, file:
                file.execute("PRAGMA encoding = 'UTF-16le'")
                file.execute("CREATE TABLE t (n, who)")
                for row in some:
                    file.execute(f"INSERT INTO t VALUES (?, CAST(x'{names[row['who']]}' AS TEXT))", [row["n"]])  # type: ignore[index]
            return Table(over_origin(files(path, "t")))

        return replace(case_of(table, opening), typed=False)

    return make


def _table(attributes: dict[str, Any], rows: list[dict[str, int]], unit: Any = "row") -> AwkwardTable:
    schema = Schema.from_dict({"dataset": "reading", "privacy_unit": unit, "attributes": attributes})
    return AwkwardTable(schema, tuple(rows), dict.fromkeys(rows[0], "int64"))


def opened_as(frame: type[Frame]) -> Callable[[Any], Table]:
    """Open a pandas frame by a reader of one's own."""
    return lambda table: Table(over_origin(frame(table, "pandas", "DataFrame")))


FINE = Fraction(3, 4)


Sides = tuple[object, Check, Check]  # what is broken, the check of it, and the same check of the real thing


def checks() -> dict[str, Sides]:
    """For each name: what is broken, the check of it, and the same check of the real thing."""
    return {name: found for name, found in _CHECKS.items() if name not in _NEEDS or find_spec(_NEEDS[name])}


_NEEDS = {"pandas types": "pandas", "pandas objects by text": "pandas", "a cell that stops all": "openpyxl"}


def _reading(make: Callable[[Any], Make], broken: Any, real: Any, pairs: int = PAIRS, few: int = 20) -> Sides:
    """A broken reader and the real one, before the same source."""
    return broken, attacked(make(broken), pairs), attacked(make(real), min(few, pairs))


_CHECKS: dict[str, Sides] = {
    "ranks beyond 64 bits": (OverflowingRank, rank_moves(OverflowingRank(FINE)), rank_moves(Rank(FINE))),
    "CSV cut by guesses": _reading(lambda files: long_csv_source(files=files), GuessedLineStarts, CsvFiles, 3),
    "bare carriage returns": _reading(lambda files: csv_source(",", ".csv", files=files), EngineReadsCsv, CsvFiles),
    "the first row's mark": _reading(
        lambda files: csv_source(",", ".csv", files=files, dialect=Dialect(columns=("any",))), MarkOfTheFirst, CsvFiles
    ),
    "a line that stops all": _reading(json_source, OneLineStopsAll, JsonLines, 40),
    "a cell that stops all": _reading(markup_source, OneCellStopsAll, ExcelFiles, 10),
    "texts by collation": _reading(lambda engine: typed_source(duckdb_table("NOCASE", engine)), CollatedDuckDB, DuckDB),
    "lists joined": (
        joined_under_a_collation,
        joined_under_a_collation("COLLATE NOCASE"),
        joined_under_a_collation(""),
    ),
    "pandas types": (
        TypedPandas,
        attacked(pandas_source(opened_as(TypedPandas))),
        attacked(pandas_source(open_table), 20),
    ),
    "pandas objects by text": _reading(
        lambda frame: pandas_source(opened_as(frame), OBJECTS), ObjectsByText, Frame, PAIRS
    ),
    "SQLite values by text": _reading(lambda files: sqlite_source(files, ALIKE), ValuesByText, Sqlite, 40),
    "SQLite in UTF-16": _reading(people_in_utf16, AnyEncoding, Sqlite, 4),
    "somebody called NaN": _reading(float_people, NamedNaN, Frame),
    "views like tables": (
        limited_view,
        attacked(limited_view(allow_views=True), 5),
        attacked(limited_view(allow_views=False), 5),
    ),
    "types found out too late": _reading(wide_decimals, UnknownDecimals, Frame, 5),
    "columns A and a": _reading(names_in_two_cases, FirstNames, ParquetFiles, 4),
    "statistics believed": _reading(
        lambda files: typed_source(parquet_file(files)), StatisticsTrusted, ParquetFiles, 400
    ),
}
