"""NOT PRIVATE: the reading audit run on each broken reader and on the real one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from sfumato.kernel.reading.engines.duckdb import DuckDB, over_origin
from sfumato.kernel.reading.formats.columnar import Frame, ParquetFiles
from sfumato.kernel.reading.formats.databases import Database, Sqlite
from sfumato.kernel.reading.formats.excel_files import ExcelFiles
from sfumato.kernel.reading.formats.text_files import CsvFiles, JsonLines, find_csv
from sfumato.kernel.reading.joining import LinkedTable
from sfumato.kernel.reading.table import Table, open_table
from sfumato.kernel.verbs.scores import Rank
from sfumato.lab.audit.mutants import readers
from sfumato.lab.audit.reading.attack import attack_source
from sfumato.lab.audit.reading.database_sources import ALIKE, sqlite_source
from sfumato.lab.audit.reading.linked_tables import as_frames, linked_source
from sfumato.lab.audit.reading.record_tables import json_source, markup_source
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.sources import (
    csv_source,
    duckdb_table,
    long_csv_source,
    pandas_source,
    parquet_file,
    typed_source,
)
from sfumato.lab.audit.reading.tables import OBJECTS, AwkwardTable, Case, Make, awkward_table, reading_schema
from sfumato.schema import Schema
from sfumato.schema.dialect import PLAIN, Dialect

Check = Callable[[], str | None]
PAIRS = 150  # in which each of these must be caught


def attacked(make: Make, pairs: int = PAIRS) -> str | None:
    """First complaint of the reading audit about a source, or None."""
    found = attack_source("a source", make, pairs, patient=False)
    return None if found.sound else found.complaints[0]


def joined_under_a_collation(collation: str) -> str | None:
    """NOT PRIVATE: values are joined to their list, so that one row matches all entries that a collation equates."""
    import duckdb

    listed = ", ".join(f"('{text}', {place})" for place, text in enumerate(["ab", "aB", "Ab", "AB"]))
    statement = (
        f"SELECT COUNT(*) FROM (SELECT CAST('ab' AS VARCHAR) {collation} AS v) AS rows "
        f"JOIN (VALUES {listed}) AS list(entry, code) ON rows.v = list.entry"
    )
    with duckdb.connect() as connection:
        ((reached,),) = connection.sql(statement).fetchall()
    return None if reached <= 1 else f"one row reaches {reached} cells"


def rank_moves(score: Rank) -> str | None:
    """Complaint if one row moves a rank score by more than its sensitivity, products near 64 bits included."""
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


def float_people(random: Random, folder: Path, frame: type[Frame]) -> Case:
    """Case of an Arrow table whose identifiers are floats."""

    def shows(one: AwkwardTable) -> bool:
        who = one.schema.privacy_unit.column or ""
        return one.types.get(who) == "float64" and any(row[who] != row[who] for row in one.rows)

    table = _drawn(random, shows)
    unit = table.schema.privacy_unit.column

    def opening(rows: Sequence[Row]) -> Table:
        origin = frame(table.arrow(rows), "pyarrow", "Table")
        object.__setattr__(origin, "unit", unit)
        return Table(over_origin(origin))

    return table.case(opening)


def _drawn(random: Random, shows: Callable[[AwkwardTable], bool]) -> AwkwardTable:
    """Awkward table in which a fault can show; others would only take time."""
    while not shows(table := awkward_table(random)):
        pass
    return table


def _has_nan(table: AwkwardTable) -> bool:
    floats = [name for name, kind in table.types.items() if kind.startswith("float")]
    return any(row[name] != row[name] for row in table.rows for name in floats)


def one_row_a_person(random: Random, folder: Path, table: type[Table], names: Sequence[str] = ()) -> Case:
    """Case of an Arrow table aggregated to one row per person. names: of the people, in place of those drawn."""

    def shows(one: AwkwardTable) -> bool:
        return one.schema.people is not None and one.types[one.schema.privacy_unit.column or ""] == "string"

    found = _drawn(random, shows)
    if names:
        unit = found.schema.privacy_unit.column or ""
        found = replace(found, rows=tuple({**row, unit: random.choice(names)} for row in found.rows))
    return found.case(lambda rows: table(over_origin(Frame(found.arrow(rows), "pyarrow", "Table"))))


def wide_decimals(random: Random, folder: Path, frame: type[Frame]) -> Case:
    """Case of an Arrow table whose numbers are 256-bit decimals."""
    import pyarrow as pa

    def opening(rows: Sequence[Row]) -> Table:
        numbers = pa.array([row["n"] for row in rows], pa.int64()).cast(pa.decimal256(50, 2))
        return Table(over_origin(frame(pa.table({"n": numbers}), "pyarrow", "Table")))

    return _table("n", -2, 2, [{"n": place % 5} for place in range(8)]).case(opening)


def made_columns(random: Random, folder: Path, kind: type[Table]) -> Case:
    """Case of a column that a `recode` rule makes, read by a given kind of table."""
    table = _table("made", 0, 9, [{"n": place} for place in (1, 2, 3, 9, 9, 9)])
    schema = replace_schema(table.schema, recode={"made": "n + 1"})
    return AwkwardTable(schema, table.rows, table.types).case(lambda rows: kind(open_table(table.arrow(rows)).engine))


def made_of_texts(random: Random, folder: Path, engine: type[DuckDB]) -> Case:
    """Case of a column that a `recode` rule makes of texts, one of which is no number."""
    table = _table("made", 0, 9, [{"n": place} for place in range(6)])
    rows = tuple({"n": "one" if row["n"] == 5 else str(row["n"])} for row in table.rows)
    schema = replace_schema(table.schema, recode={"made": "n + 1"})

    def opening(some: Sequence[Row]) -> Table:
        (folder / "texts.csv").write_text("n\n" + "".join(f"{row['n']}\n" for row in some))
        return Table(over_origin(find_csv((folder / "texts.csv",), PLAIN, ","), engine))

    return AwkwardTable(schema, rows, table.types).case(opening, typed=False)


def weighed_rows(random: Random, folder: Path, kind: type[Table]) -> Case:
    """Case of rows with weights beyond the schema's bounds, read by a given kind of table."""
    table = _table("n", 0, 1, [{"n": place % 2, "w": weight} for place, weight in enumerate((1, 3, 9, -2, 0, 1000))])
    schema = replace_schema(table.schema, weight={"column": "w", "upper": 3, "step": 1, "unweighted_share": 0})
    return AwkwardTable(schema, table.rows, table.types).case(lambda rows: kind(open_table(table.arrow(rows)).engine))


def replace_schema(schema: Schema, **parts: Any) -> Schema:
    """Schema with some of its top-level keys replaced."""
    return Schema.from_dict(schema.to_dict() | parts)


def limited_view(random: Random, folder: Path, allow_views: bool) -> Case:
    """NOT PRIVATE: a view is read like a table, although a LIMIT in it makes every row depend on the others."""
    import duckdb

    table, path = _table("n", 0, 2, [{"n": place % 3} for place in range(9)]), folder / "view.duckdb"

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

    return table.case(opening)


def names_in_two_cases(random: Random, folder: Path, files: type[ParquetFiles]) -> Case:
    """Case of two Parquet files with columns A and a in different orders."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    def opening(rows: Sequence[Row]) -> Table:
        whole = pa.table({name: pa.array([row[name] for row in rows], pa.int64()) for name in ("A", "a")})
        paths = folder / "one.parquet", folder / "two.parquet"
        pq.write_table(whole, paths[0])
        pq.write_table(whole.select(["a", "A"]), paths[1])
        return Table(over_origin(files(paths)))

    table = _table("A", 0, 4, [{"A": 0, "a": 4} for _ in range(4)])
    return replace(table.case(opening), rows=lambda parts: [*parts, *parts])


def people_in_utf16(random: Random, folder: Path, files: type[Sqlite]) -> Case:
    """Case of a UTF-16 SQLite file with one person named by a lone surrogate, another by its replacement character."""
    path, names = folder / "16.sqlite", {1: "00d8", 2: "fdff", 3: "6100"}  # in the order of bytes of x86
    rows = [{"n": place % 2, "who": place % 3 + 1} for place in range(6)]

    def opening(some: Sequence[Row]) -> Table:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as file, file:
            file.execute("PRAGMA encoding = 'UTF-16le'")
            file.execute("CREATE TABLE t (n, who)")
            for row in some:
                file.execute(f"INSERT INTO t VALUES (?, CAST(x'{names[row['who']]}' AS TEXT))", [row["n"]])  # type: ignore[index]
        return Table(over_origin(files(path, "t")))

    return _table("n", 0, 1, rows, {"column": "who", "contributions": 1}).case(opening, typed=False)


def _table(name: str, lower: int, upper: int, rows: list[dict[str, int]], unit: Any = "row") -> AwkwardTable:
    """Awkward table of integer rows, with a schema of one attribute."""
    schema = reading_schema({name: {"type": "integer", "lower": lower, "upper": upper}}, unit)
    return AwkwardTable(schema, tuple(rows), dict.fromkeys(rows[0], "int64"))


def pandas_objects(random: Random, folder: Path, frame: type[Frame]) -> Case:
    """Case of a pandas frame whose identifiers are objects, opened by a given reader class."""
    return pandas_source(random, folder, opened_as(frame), OBJECTS)


def opened_as(frame: type[Frame]) -> Callable[[Any], Table]:
    """Opener of pandas frames by a given reader class."""
    return lambda table: Table(over_origin(frame(table, "pandas", "DataFrame")))


Sides = tuple[object, Check, Check]  # what is broken, the check of it, and the same check of the real thing


def checks() -> dict[str, Sides]:
    """Checks by name: the broken thing, the check on it, and the same check on the real one."""
    return {name: found for name, found in _CHECKS.items() if name not in _NEEDS or find_spec(_NEEDS[name])}


_NEEDS = {"pandas types": "pandas", "pandas objects by text": "pandas", "a cell that stops all": "openpyxl"}


def _reading(
    make: Callable[[Random, Path, Any], Case], broken: Any, real: Any, pairs: int = PAIRS, *, made: object = None
) -> Sides:
    """Entry of `checks`: reading audits of a broken reader and of the real one. made: the fault, if not `broken`."""
    ours, theirs = (lambda random, folder, kind=kind: make(random, folder, kind) for kind in (broken, real))
    return made or broken, partial(attacked, ours, pairs), partial(attacked, theirs, min(20, pairs))


def _linked(broken: type[LinkedTable], **how: Any) -> Sides:
    """Entry of `checks`: reading audits of a broken `LinkedTable` and of the real one. how: for `linked_source`."""

    def make(random: Random, folder: Path, kind: type[LinkedTable]) -> Case:
        return linked_source(random, folder, as_frames, kind=kind, **how)

    return _reading(make, broken, LinkedTable, 40)


FINE = Fraction(3, 4)
_JOINED = [partial(joined_under_a_collation, collation) for collation in ("COLLATE NOCASE", "")]
_CHECKS: dict[str, Sides] = {
    "ranks beyond 64 bits": (
        readers.OverflowingRank,
        partial(rank_moves, readers.OverflowingRank(FINE)),
        partial(rank_moves, Rank(FINE)),
    ),
    "CSV cut by guesses": _reading(long_csv_source, readers.GuessedLineStarts, CsvFiles, 3),
    "bare carriage returns": _reading(csv_source, readers.EngineReadsCsv, CsvFiles),
    "the first row's mark": _reading(
        partial(csv_source, dialect=Dialect(columns=("any",))), readers.MarkOfTheFirst, CsvFiles
    ),
    "a line that stops all": _reading(json_source, readers.OneLineStopsAll, JsonLines, 40),
    "a cell that stops all": _reading(markup_source, readers.OneCellStopsAll, ExcelFiles, 10),
    "texts by collation": _reading(
        lambda random, folder, engine: typed_source(
            random, folder, partial(duckdb_table, collation="NOCASE", engine=engine)
        ),
        readers.CollatedDuckDB,
        DuckDB,
    ),
    "lists joined": (joined_under_a_collation, _JOINED[0], _JOINED[1]),
    "pandas types": _reading(pandas_source, opened_as(readers.TypedPandas), open_table, made=readers.TypedPandas),
    "pandas objects by text": _reading(pandas_objects, readers.ObjectsByText, Frame),
    "SQLite values by text": _reading(partial(sqlite_source, people=ALIKE), readers.ValuesByText, Sqlite, 40),
    "SQLite in UTF-16": _reading(people_in_utf16, readers.AnyEncoding, Sqlite, 4),
    "somebody called NaN": _reading(float_people, readers.NamedNaN, Frame),
    "people among everybody": _reading(one_row_a_person, readers.AmongEverybody, Table, 60),
    "people folded": _reading(partial(one_row_a_person, names=("ann", "Ann")), readers.PeopleFolded, Table, 20),
    "people by a value too": _reading(one_row_a_person, readers.OneOfManyRows, Table),
    "a rule that looks at other rows": _reading(made_columns, readers.CentredTable, Table, 6),
    "a rule that a value stops": _reading(made_of_texts, readers.BareCasts, DuckDB, 6),
    "weights without clipping": _reading(weighed_rows, readers.UnclippedWeights, Table, 6),
    "views like tables": _reading(limited_view, True, False, 5, made=limited_view),
    "types found out too late": _reading(wide_decimals, readers.UnknownDecimals, Frame, 5),
    "columns A and a": _reading(names_in_two_cases, readers.FirstNames, ParquetFiles, 4),
    "any number of rows above": _linked(readers.AnyNumberAbove, crowded=True),
    "a few rows too many above": _linked(readers.FewTooMany, crowded=True),
    "any number of rows below": _linked(readers.AnyNumberBelow, crowded=True),
    "children of everybody": _linked(readers.ChildrenOfAll, amounts=True),
    "keys of two households": _linked(readers.SharedKeys, shared=True),
    "orphans that count": _linked(readers.OrphansCounted, crowded=True),
    "statistics believed": _reading(
        lambda random, folder, files: typed_source(
            random, folder, partial(parquet_file, files=files), deal=lambda random: _drawn(random, _has_nan)
        ),
        readers.StatisticsTrusted,
        ParquetFiles,
        400,
    ),
}
