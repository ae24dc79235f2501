"""Awkward tables in SQLite, DuckDB, ClickHouse and MariaDB, as sources of the reading audit.

In a SQLite file each value keeps a type of its own. DuckDB and ClickHouse run inside this process; MariaDB is attacked
where a server is named. A value that a database cannot hold (NaN in MariaDB, a NUL in one of its texts) is replaced by
the value that it would become there.
"""

from __future__ import annotations

import atexit
import math
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Any

from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.duckdb import over_origin
from sfumato.kernel.reading.engines.other.engine import Other, open_other
from sfumato.kernel.reading.formats.databases import Sqlite
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row, unit_of
from sfumato.lab.audit.reading.tables import AwkwardTable, Case, Make, Source, awkward_table
from sfumato.schema import Schema

KINDS = ("", "TEXT", "BLOB")  # a column of numbers would turn texts that look like numbers into numbers
ALIKE = [1, "1", 1.0, "1.0", 2**53, float(2**53), str(2**53), 0.0, -0.0, "0", None]  # persons of one text


def sqlite_source(files: type[Sqlite] = Sqlite, people: Sequence[object] = ()) -> Make:
    """Tables whose columns are declared somehow, and hold what they are given.

    people: identifiers of any types, in a column that was declared as nothing; those of the table where there are none.
    """
    return lambda random, folder: _case(random, folder, files, people)


def _case(random: Random, folder: Path, files: type[Sqlite], people: Sequence[object]) -> Case:
    made = awkward_table(random)
    while len({name.lower() for name in made.types}) < len(made.types):  # which are one name to SQLite
        made = awkward_table(random)
    kinds = {name: random.choice(KINDS) for name in made.types}
    rows = tuple({name: stored(value, kinds[name]) for name, value in row.items()} for row in made.rows)
    unit, path = made.schema.privacy_unit.column, folder / "t.sqlite"
    if people and unit is not None:
        kinds[unit] = ""
        rows = tuple({**row, unit: random.choice(people)} for row in rows)

    def opening(some: Sequence[Row]) -> Table:
        path.unlink(missing_ok=True)
        with closing(sqlite3.connect(path)) as file, file:
            columns = ", ".join('"{}" {}'.format(name.replace('"', '""'), kind) for name, kind in kinds.items())
            file.execute(f"CREATE TABLE t ({columns})")
            places = ", ".join("?" * len(kinds))
            file.executemany(f"INSERT INTO t VALUES ({places})", [tuple(row.values()) for row in some])
        return Table(over_origin(files(path, "t")))

    return Case(
        made.schema,
        rows,
        (lambda row: unit_of(row[unit])) if unit is not None else (lambda row: None),
        opening,
        lambda some: some,
        typed=False,
    )


def stored(value: object, kind: str) -> object:
    """A value as SQLite keeps it in a column that was declared so."""
    if isinstance(value, datetime):
        value = (value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value).isoformat(" ")
    elif isinstance(value, date):
        value = value.isoformat()
    elif isinstance(value, Decimal):
        value = float(value)
    elif isinstance(value, bool):
        value = int(value)
    if isinstance(value, float) and math.isnan(value):
        return None
    if isinstance(value, int) and abs(value) >= 2**63:
        value = float(value)
    if kind == "TEXT" and isinstance(value, int | float):
        with closing(sqlite3.connect(":memory:")) as memory:
            return memory.execute("SELECT CAST(? AS TEXT)", [value]).fetchone()[0]
    return value


SERVER = "SFUMATO_AUDIT_MARIADB"  # mysql+pymysql://USER:PASSWORD@HOST/DATABASE, where a table may be made and dropped
_CLICKHOUSE = {
    "string": "Nullable(String)",
    "large_string": "LowCardinality(Nullable(String))",
    "string_view": "String",
    "dictionary": "Nullable(String)",
    "int8": "Nullable(Int8)",
    "int64": "Nullable(Int64)",
    "uint64": "Nullable(UInt64)",
    "float32": "Nullable(Float32)",
    "float64": "Nullable(Float64)",
    "decimal128": "Nullable(Decimal(9, 2))",
    "bool": "Nullable(Bool)",
    "date32": "Nullable(Date32)",
}
_MARIADB = {
    "string": "text CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
    "large_string": "varchar(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_520_nopad_ci",
    "string_view": "longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci",
    "dictionary": "varchar(40) CHARACTER SET utf16 COLLATE utf16_general_ci",
    "int8": "tinyint",
    "int64": "bigint",
    "uint64": "bigint unsigned",
    "float32": "float",
    "float64": "double",
    "decimal128": "decimal(9, 2)",
    "bool": "tinyint(1)",
    "date32": "date",
}


@dataclass(frozen=True)
class NamedServer(Source):
    """A source that is attacked where the environment names a server for it."""

    @property
    def here(self) -> bool:
        """Whether it can be attacked on this machine."""
        return SERVER in os.environ and find_spec("sqlalchemy") is not None and super().here


class Attacked(Other):
    """Tried on constants once for each schema, which the tables of a case share."""

    def trial(self, schema: Schema, columns: Mapping[str, Column]) -> None:
        """Refuse what differs."""
        if (schema, columns) != (_LAST.get("schema"), _LAST.get("columns")):
            super().trial(schema, columns)
            _LAST.update(schema=schema, columns=columns)


_LAST: dict[str, Any] = {}


def other_source(
    bring: Callable[[AwkwardTable, Sequence[Row], type[Other]], Any], engine: type[Other] = Attacked
) -> Make:
    """Tables of declared types, brought somewhere. engine: the tests' broken ones are kinds of it."""

    def make(random: Random, folder: Path) -> Case:
        table = awkward_table(random)
        while not all(map(_takes, table.types)) or len({*map(str.lower, table.types)}) < len(table.types):
            table = awkward_table(random)  # names that are one to some, or that some cannot spell
        held = HELD.get(bring, _as_it_is)
        rows = tuple({name: held(value, table.types[name]) for name, value in row.items()} for row in table.rows)
        kept = AwkwardTable(table.schema, rows, table.types)
        unit = table.schema.privacy_unit.column
        return Case(
            kept.schema,
            kept.rows,
            (lambda row: unit_of(row[unit])) if unit is not None else (lambda row: None),
            lambda some: bring(kept, some, engine),
            lambda some: some,
        )

    return make


def duckdb_connection(table: AwkwardTable, rows: Sequence[Row], engine: type[Other] = Attacked) -> Table:
    """A database in memory, that its connection alone can reach."""
    import duckdb

    connection = duckdb.connect()
    connection.register("given", table.arrow(rows))
    connection.execute("CREATE TABLE t AS FROM given; SET TimeZone = 'Asia/Tokyo'; SET default_collation = 'NOCASE'")
    return Table(open_other(connection, "t", None, engine))


def clickhouse(table: AwkwardTable, rows: Sequence[Row], engine: type[Other] = Attacked) -> Table:
    """ClickHouse inside this process."""
    connection = _chdb()
    types = {name: _clickhouse_type(kind) for name, kind in table.types.items()}
    columns = ", ".join(f"{_quoted(name)} {word}" for name, word in types.items())
    say(connection, "DROP TABLE IF EXISTS t")
    say(connection, f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY tuple()")
    for row in rows:
        values = ", ".join(in_clickhouse(row[name], word) for name, word in types.items())
        say(connection, f"INSERT INTO t SELECT {values}")
    return Table(open_other(connection, "t", None, engine))


def mariadb(table: AwkwardTable, rows: Sequence[Row], engine: type[Other] = Attacked) -> Table:
    """A server that somebody runs, its texts in collations that take many for one."""
    raw = _alchemy().raw_connection()
    name = _name()
    words = {part: _MARIADB.get(kind, "datetime(6)") for part, kind in table.types.items()}
    columns = ", ".join("`{}` {}".format(part.replace("`", "``"), word) for part, word in words.items())
    try:
        say(raw, f"DROP TABLE IF EXISTS {name}")
        say(raw, f"CREATE TABLE {name} ({columns})")
        with raw.cursor() as cursor:
            places = ", ".join(["%s"] * len(words))
            cursor.executemany(f"INSERT INTO {name} VALUES ({places})", [tuple(row.values()) for row in rows])
        raw.commit()
    finally:
        raw.close()
    return Table(open_other(_alchemy(), name, None, engine))


def held_by_clickhouse(value: object, kind: str) -> object:
    """A text that cannot be missing is empty."""
    return "" if value is None and kind == "string_view" else value


def held_by_mariadb(value: object, kind: str) -> object:
    """No NaN and nothing infinite; a boolean is a number, a time has no zone."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float):
        if math.isnan(value):
            return None
        largest = 3.0e38 if kind == "float32" else 1.7976931348623157e308
        return min(max(value, -largest), largest)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC).replace(tzinfo=None)
    return value


def _as_it_is(value: object, kind: str) -> object:
    return value


HELD: Mapping[Any, Callable[[object, str], object]] = {clickhouse: held_by_clickhouse, mariadb: held_by_mariadb}


def _takes(name: str) -> bool:
    """Whether every database takes a name for a column: MariaDB has none beyond the first 65,536 characters."""
    return max(map(ord, name)) < 2**16


def _clickhouse_type(kind: str) -> str:
    if not kind.startswith("timestamp"):
        return _CLICKHOUSE[kind]
    return f"Nullable(DateTime64(6, '{'Asia/Tokyo' if 'Tokyo' in kind else 'UTC'}'))"


def in_clickhouse(value: object, word: str) -> str:
    """A value as ClickHouse writes it."""
    if isinstance(value, datetime):
        word = "Nullable(DateTime64(6, 'UTC'))"
        value = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ")
    if value is None:
        return f"CAST(NULL AS {word})"
    text = value if isinstance(value, str) else str(value).lower() if isinstance(value, bool) else _spelled(value)
    return f"CAST(unhex('{text.encode().hex()}') AS {word.replace('LowCardinality(Nullable(String))', 'String')})"


def _spelled(value: object) -> str:
    return repr(value) if isinstance(value, float) else str(value)


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace("\\", "\\\\").replace('"', '""'))


def say(connection: Any, text: str) -> None:
    """Run something that answers nothing."""
    cursor = connection.cursor()
    try:
        cursor.execute(text)
    finally:
        cursor.close()


@cache
def _chdb() -> Any:
    from chdb import dbapi

    untyped: Any = dbapi
    return untyped.connect()


@cache
def _alchemy() -> Any:
    import sqlalchemy

    engine = sqlalchemy.create_engine(os.environ[SERVER])
    atexit.register(_leave, engine)
    return engine


def _leave(engine: Any) -> None:
    with suppress(Exception), closing(engine.raw_connection()) as raw:  # a server that is gone keeps nothing
        say(raw, f"DROP TABLE IF EXISTS {_name()}")


def _name() -> str:
    return f"sfumato_audit_{os.getpid()}"
