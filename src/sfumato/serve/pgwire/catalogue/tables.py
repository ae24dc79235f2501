"""PostgreSQL's system catalogue as an in-memory DuckDB: a release is a table, attributes and measures its columns.

The database holds names only. It can reach no file, network or private data.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from sqlglot import exp

from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.catalogue.rows import OWNER, TYPES, Row, rows, rows_of_view
from sfumato.serve.pgwire.catalogue.translate import OWN, PREFIX, VIEWS, macros, translate
from sfumato.serve.pgwire.protocol import Column, Failure, Value
from sfumato.serve.pgwire.views import View
from sfumato.serve.web.bounds import CATALOGUE_SECONDS, Limits
from sfumato.serve.web.shelf import Shelf
from sfumato.sql.reading import parse, silence

DUCK_TYPES = {"": "VARCHAR", "n": "BIGINT", "b": "BOOLEAN", "i": "BIGINT[]", "a": "VARCHAR[]"}


def columns() -> dict[str, dict[str, str]]:
    """The columns of every table, each with DuckDB's type."""
    found: dict[str, dict[str, str]] = {}
    text = (files("sfumato.serve.pgwire.catalogue") / "columns.txt").read_text(encoding="utf-8")
    for line in text.replace("\n    ", " ").splitlines():
        if not line.startswith("#"):
            table, _, listed = line.partition(" = ")
            words = (word.partition(":") for word in listed.split())
            found[table] = {name: DUCK_TYPES[kind] for name, _, kind in words}
    return found


CONFIG: dict[str, Any] = {
    "threads": "1",
    "memory_limit": "128MB",
    "temp_directory": "",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
MOST_ROWS = 20_000
MOST_CHARACTERS = 8 * 2**20  # in them
_OIDS = {
    **dict.fromkeys(("BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UBIGINT", "HUGEINT", "UINTEGER"), pg.INT8),
    **{"BOOLEAN": pg.BOOL, "DOUBLE": pg.FLOAT8, "BIGINT[]": pg.INT8S, "INTEGER[]": pg.INT8S, "VARCHAR[]": pg.TEXTS},
}
_VIEWS = {
    "pg_database": f"""1 AS oid, getvariable('database') AS datname, {OWNER} AS datdba, 6 AS encoding,
        'c' AS datlocprovider, false AS datistemplate, true AS datallowconn, -1 AS datconnlimit,
        1663 AS dattablespace, 'C.UTF-8' AS datcollate, 'C.UTF-8' AS datctype""",
    "pg_roles": f"""{OWNER} AS oid, getvariable('user') AS rolname, false AS rolsuper, true AS rolcanlogin,
        -1 AS rolconnlimit, false AS rolinherit, false AS rolcreaterole, false AS rolcreatedb,
        false AS rolreplication, false AS rolbypassrls""",
    "pg_user": f"getvariable('user') AS usename, {OWNER} AS usesysid, false AS usesuper, false AS usecreatedb",
}


class Who(NamedTuple):
    """User and database as a client states them; believed without a check, because everything served is public."""

    user: str
    database: str


_KEYWORDS = re.compile(
    r"""'[^']*' | "[^"]*" | \bAS \s+ (?P<name> select|insert|update|delete|table|user) \b""", re.I | re.X
)


def _as_name(found: re.Match[str]) -> str:
    return found[0] if found["name"] is None else f'AS "{found["name"].lower()}"'


class Catalogue:
    """Catalogue database, filled before the first client connects and unchanged afterwards.

    Views of a session are added for as long as one statement of that session, whose transaction is rolled back.
    """

    def __init__(self, shelf: Shelf) -> None:
        import duckdb

        self.database = duckdb.connect(":memory:", config=CONFIG)
        tables = columns()
        self._known = frozenset(tables)
        self.database.execute("BEGIN; CREATE SCHEMA cat")
        for table, kinds in tables.items():
            self._make(table, kinds)
        self.database.execute("CREATE TABLE cat.type_names (oid BIGINT, sql_name VARCHAR)")
        self.database.executemany(
            "INSERT INTO cat.type_names VALUES (?, ?)", [(oid, words[2]) for oid, words in TYPES.items()]
        )
        self._fill(self.database, rows(shelf))
        for view, body in VIEWS.items():
            self.database.execute(f"CREATE VIEW cat.m_{view} AS {body}")
        for call, body in macros().items():
            self.database.execute(f"CREATE MACRO cat.{PREFIX}{call} AS {body}")
        self.database.execute("COMMIT; SET enable_external_access = false; SET lock_configuration = true")
        self.answer(self.read("SELECT version()"), (), (), Who("", ""))  # so that all that it needs is loaded

    def _fill(self, database: Any, listed: Iterable[tuple[str, Row]]) -> None:
        """Insert rows, those with the same columns by one statement."""
        groups: dict[tuple[str, ...], list[Row]] = {}
        for table, row in listed:
            target = "own_" + table if table.startswith("information_schema.") else table
            groups.setdefault((target, *row), []).append(row)
        for (table, *names), found in groups.items():
            named, marks = ", ".join(f'"{name}"' for name in names), ", ".join("?" for _ in names)
            values = [row[name] for row in found for name in names]
            every = ", ".join(f"({marks})" for _ in found)
            database.execute(f'INSERT INTO cat."{table}" ({named}) VALUES {every}', values)

    def _make(self, table: str, kinds: dict[str, str]) -> None:
        listed = ", ".join(f'"{name}" {kind}' for name, kind in kinds.items())
        if table in _VIEWS:
            others = [name for name in kinds if f"AS {name}" not in _VIEWS[table]]
            empty = "".join(f', NULL::{kinds[name]} AS "{name}"' for name in others)
            self.database.execute(f'CREATE VIEW cat."{table}" AS SELECT {_VIEWS[table]}{empty}')
        elif table.startswith("information_schema."):  # whose tables are said to be in the database of whoever asks
            self.database.execute(f'CREATE TABLE cat."own_{table}" ({listed})')
            catalogue = [name for name in kinds if name in ("table_catalog", "catalog_name", "udt_catalog")]
            replaced = ", ".join(f"getvariable('database') AS \"{name}\"" for name in catalogue)
            every = f"* REPLACE ({replaced})" if replaced else "*"
            self.database.execute(f'CREATE VIEW cat."{table}" AS SELECT {every} FROM cat."own_{table}"')
        else:
            self.database.execute(f'CREATE TABLE cat."{table}" ({listed})')

    def read(self, text: str) -> exp.Expression:
        """Parse a statement about the catalogue. After AS PostgreSQL takes any word for a name, `select` too."""
        return parse(_KEYWORDS.sub(_as_name, text), "postgres")

    def answer(
        self, tree: exp.Expression, types: Sequence[int], values: Sequence[Value], who: Who, views: Sequence[View] = ()
    ) -> tuple[list[Column], list[tuple[Any, ...]]]:
        """Answer a statement whose parameters are filled in: its columns and rows. views: of the session."""
        import duckdb

        with silence():
            sql = translate(tree, self._known).sql(dialect="duckdb")
        cursor = self.database.cursor()
        done = threading.Event()
        threading.Thread(target=_watch, args=(threading.get_ident(), done, cursor.interrupt), daemon=True).start()
        try:
            for name, value in (("user", who.user), ("database", who.database)):
                cursor.execute(f"SET VARIABLE {name} = '{value.replace(chr(39), chr(39) * 2)}'")
            cursor.execute("BEGIN")
            self._fill(cursor, (row for number, view in enumerate(views) for row in rows_of_view(number, view)))
            cursor.execute(sql)
            found = _fetched(cursor)
            described = [(str(name), _OIDS.get(str(kind), pg.TEXT)) for name, kind, *_ in cursor.description]
        except duckdb.InterruptException:
            raise Failure(pg.CANCELLED, "the catalogue takes too long to answer", "ask for less of it") from None
        except duckdb.Error:
            hint = "ask information_schema, or a release"
            raise Failure(pg.UNSUPPORTED, "this cannot be asked of the catalogue", hint) from None
        finally:
            done.set()
            cursor.close()
        return _renamed(described, tree), [tuple(map(_plain, row)) for row in found]


def _watch(thread: int, done: threading.Event, interrupt: Callable[[], None]) -> None:
    """Interrupt DuckDB in this thread when a statement has taken too much CPU or wall-clock time.

    DuckDB works in the thread that asks it, for it has no other; a busy machine is no reason to refuse.
    """
    clock = time.pthread_getcpuclockid(thread) if hasattr(time, "pthread_getcpuclockid") else None
    began = time.clock_gettime(clock) if clock is not None else 0.0
    ends = time.monotonic() + (CATALOGUE_SECONDS if clock is None else Limits().answer_seconds)
    while not done.wait(0.1):
        worked = time.clock_gettime(clock) - began if clock is not None else 0.0
        if worked > CATALOGUE_SECONDS or time.monotonic() > ends:
            interrupt()


def _fetched(cursor: Any) -> list[tuple[Any, ...]]:
    """Fetch all rows; refuse as soon as they are too many."""
    found: list[tuple[Any, ...]] = []
    size = 0
    while more := cursor.fetchmany(100):
        found += more
        size += sum(len(str(value)) for row in more for value in row)
        if len(found) > MOST_ROWS or size > MOST_CHARACTERS:
            raise Failure(pg.TOO_LARGE, f"the catalogue gives at most {MOST_ROWS:,} rows", "ask for less of it")
    return found


def _plain(value: Any) -> Any:
    return value if value is None or isinstance(value, bool | int | float | str | list) else str(value)


def _renamed(columns: list[Column], tree: exp.Expression) -> list[Column]:
    """Name unnamed columns as PostgreSQL does: after their function."""
    names = [column.alias_or_name or _by_function(column) for column in getattr(tree, "selects", [])]
    if len(names) != len(columns) or "*" in names:
        return columns
    return [(name, oid) for name, (_, oid) in zip(names, columns, strict=True)]


def _by_function(node: Any) -> str:
    while isinstance(node, exp.Dot | exp.Cast | exp.Paren):
        node = node.expression if isinstance(node, exp.Dot) else node.this
    if isinstance(node, exp.Anonymous):
        return str(node.name).lower()
    known = OWN | {"groupconcat": "string_agg"}
    return known.get(node.key) or (node.sql_name().lower() if isinstance(node, exp.Func) else "?column?")
