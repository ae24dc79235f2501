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
from dataclasses import replace
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
from sfumato.kernel.reading.engines.other.session import Other, open_other
from sfumato.kernel.reading.formats.databases import Sqlite
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.tables import DATABASE_TYPES, AwkwardTable, Case, Source, awkward_table
from sfumato.schema import Schema

KINDS = ("", "TEXT", "BLOB")  # a column of numbers would turn texts that look like numbers into numbers
ALIKE = [1, "1", 1.0, "1.0", 2**53, float(2**53), str(2**53), 0.0, -0.0, "0", None]  # persons of one text


def sqlite_source(random: Random, folder: Path, files: type[Sqlite] = Sqlite, people: Sequence[object] = ()) -> Case:
    """Case of a SQLite table whose columns have random declared types and hold values of any type.

    people: identifiers of any types, in a column that was declared as nothing; those of the table where there are none.
    """
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

    return replace(made, rows=rows).case(opening, typed=False)


def stored(value: object, kind: str) -> object:
    """Convert a value as SQLite does on storing it in a column of a declared type."""
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


@dataclass(frozen=True)
class NamedServer(Source):
    """Source that is audited only where an environment variable names a server."""

    @property
    def here(self) -> bool:
        """Whether a server is named and the libraries are installed."""
        return SERVER in os.environ and find_spec("sqlalchemy") is not None and super().here


class Attacked(Other):
    """Engine whose trial on constants runs once per schema, since all tables of a case share it."""

    def trial(self, schema: Schema, columns: Mapping[str, Column]) -> None:
        """Run the trial of `Other`, unless the last one had the same schema and columns."""
        if (schema, columns) != (_LAST.get("schema"), _LAST.get("columns")):
            super().trial(schema, columns)
            _LAST.update(schema=schema, columns=columns)


_LAST: dict[str, Any] = {}


def other_source(
    random: Random,
    folder: Path,
    bring: Callable[[AwkwardTable, Sequence[Row], type[Other]], Table],
    engine: type[Other] = Attacked,
) -> Case:
    """Case of an awkward table brought to a database by `bring`. engine: a subclass, for broken ones."""
    table = awkward_table(random)
    while not all(map(_takes, table.types)) or len({*map(str.lower, table.types)}) < len(table.types):
        table = awkward_table(random)  # names that are one to some, or that some cannot spell
    held = HELD.get(bring)
    if held is not None:
        rows = ({name: held(value, table.types[name]) for name, value in row.items()} for row in table.rows)
        table = replace(table, rows=tuple(rows))
    return table.case(lambda some: bring(table, some, engine))


def duckdb_connection(table: AwkwardTable, rows: Sequence[Row], engine: type[Other] = Attacked) -> Table:
    """Open an awkward table in an in-memory DuckDB, reached through its connection."""
    import duckdb

    connection = duckdb.connect()
    connection.register("given", table.arrow(rows))
    connection.execute("CREATE TABLE t AS FROM given; SET TimeZone = 'Asia/Tokyo'; SET default_collation = 'NOCASE'")
    return Table(open_other(connection, "t", None, engine))


def clickhouse(table: AwkwardTable, rows: Sequence[Row], engine: type[Other] = Attacked) -> Table:
    """Open an awkward table in a ClickHouse inside this process."""
    connection = _chdb()
    types = {name: _clickhouse_type(kind) for name, kind in table.types.items()}
    quoted = {name: name.replace("\\", "\\\\").replace('"', '""') for name in types}
    columns = ", ".join(f'"{quoted[name]}" {word}' for name, word in types.items())
    say(connection, "DROP TABLE IF EXISTS t")
    say(connection, f"CREATE TABLE t ({columns}) ENGINE = MergeTree ORDER BY tuple()")
    for row in rows:
        values = ", ".join(in_clickhouse(row[name], word) for name, word in types.items())
        say(connection, f"INSERT INTO t SELECT {values}")
    return Table(open_other(connection, "t", None, engine))


def mariadb(table: AwkwardTable, rows: Sequence[Row], engine: type[Other] = Attacked) -> Table:
    """Open an awkward table on a running MariaDB server, texts under collations that equate many."""
    raw = _alchemy().raw_connection()
    name = _name()
    words = {part: DATABASE_TYPES.get(kind, ["datetime(6)"])[-1] for part, kind in table.types.items()}
    columns = ", ".join("`{}` {}".format(part.replace("`", "``"), word) for part, word in words.items())
    places = ", ".join(["%s"] * len(words))
    with closing(raw), raw.cursor() as cursor:
        cursor.execute(f"DROP TABLE IF EXISTS {name}")
        cursor.execute(f"CREATE TABLE {name} ({columns})")
        cursor.executemany(f"INSERT INTO {name} VALUES ({places})", [tuple(row.values()) for row in rows])
        raw.commit()
    return Table(open_other(_alchemy(), name, None, engine))


def held_by_clickhouse(value: object, kind: str) -> object:
    """Value as ClickHouse holds it: a missing text in a column without NULL becomes empty."""
    return "" if value is None and kind == "string_view" else value


def held_by_mariadb(value: object, kind: str) -> object:
    """Value as MariaDB holds it: NaN missing, infinities clipped, booleans integers, times in UTC without zone."""
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


HELD: Mapping[Any, Callable[[object, str], object]] = {clickhouse: held_by_clickhouse, mariadb: held_by_mariadb}


def _takes(name: str) -> bool:
    """Whether every tested database accepts a column name: MariaDB takes no characters beyond U+FFFF."""
    return max(map(ord, name)) < 2**16


def _clickhouse_type(kind: str) -> str:
    if kind == "large_string":
        return "LowCardinality(Nullable(String))"
    if kind == "string_view":
        return "String"
    if kind.startswith("timestamp"):
        return f"Nullable(DateTime64(6, '{'Asia/Tokyo' if 'Tokyo' in kind else 'UTC'}'))"
    return f"Nullable({DATABASE_TYPES[kind][1]})"


def in_clickhouse(value: object, word: str) -> str:
    """ClickHouse literal of a value with a type."""
    if isinstance(value, datetime):
        word = "Nullable(DateTime64(6, 'UTC'))"
        value = (value.astimezone(UTC) if value.tzinfo else value).replace(tzinfo=None).isoformat(" ")
    if value is None:
        return f"CAST(NULL AS {word})"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"CAST(unhex('{text.encode().hex()}') AS {word.replace('LowCardinality(Nullable(String))', 'String')})"


def say(connection: Any, text: str) -> None:
    """Execute a statement without a result."""
    with closing(connection.cursor()) as cursor:
        cursor.execute(text)


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
