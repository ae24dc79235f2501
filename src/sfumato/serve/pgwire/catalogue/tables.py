"""PostgreSQL's system catalogue as an in-memory DuckDB: a release is a table, attributes and measures its columns.

The database holds names only. It can reach no file, network or private data.

Rows of PostgreSQL's system catalogue: types, settings, releases as tables, and the views of a session.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.resources import files
from typing import Any, NamedTuple

from sqlglot import exp

from sfumato.plain_text import printable
from sfumato.schema import Schema
from sfumato.schema.schema import counted_in_short
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.catalogue.translate import OWN, PREFIX, VIEWS, macros, translate
from sfumato.serve.pgwire.protocol import Column, Failure, Value
from sfumato.serve.pgwire.settings import FIRST
from sfumato.serve.pgwire.statements import View, kind_of
from sfumato.serve.web.requests import CATALOGUE_SECONDS, Book, Limits, Shelf
from sfumato.sql.reading import parse, silence

PG_CATALOG, PUBLIC, INFORMATION, OWNER, CLASSES, FIRST_TABLE = 11, 2200, 13_000, 10, 1259, 16_384
FIRST_PROCEDURE, FIRST_VIEW = 2_000, 1_000_000
# number: name, category, what SQL calls it, number of the list of it
TYPES = {
    16: ("bool", "B", "boolean", 1000),
    17: ("bytea", "U", "bytea", 1001),
    18: ("char", "S", '"char"', 1002),
    19: ("name", "S", "name", 1003),
    20: ("int8", "N", "bigint", 1016),
    21: ("int2", "N", "smallint", 1005),
    23: ("int4", "N", "integer", 1007),
    25: ("text", "S", "text", 1009),
    26: ("oid", "N", "oid", 1028),
    700: ("float4", "N", "real", 1021),
    701: ("float8", "N", "double precision", 1022),
    705: ("unknown", "X", "unknown", 0),
    1042: ("bpchar", "S", "character", 1014),
    1043: ("varchar", "S", "character varying", 1015),
    1082: ("date", "D", "date", 1182),
    1083: ("time", "D", "time without time zone", 1183),
    1114: ("timestamp", "D", "timestamp without time zone", 1115),
    1184: ("timestamptz", "D", "timestamp with time zone", 1185),
    1186: ("interval", "T", "interval", 1187),
    1700: ("numeric", "N", "numeric", 1231),
    2950: ("uuid", "U", "uuid", 2951),
}
Row = dict[str, Any]


def columns_of(schema: Schema) -> Iterator[tuple[str, int, str]]:
    """Name, type and short description of each column of a release."""
    for name in schema.domain.names:
        yield name, kind_of(name, schema), f"attribute, {schema.domain[name].size} cells"
    for name in schema.group_columns:
        yield name, 25, f"groups of {schema.group_columns[name][0]}"
    for name in schema.measures:
        yield name, 701, "measure: it can be summed and averaged"


def rows(shelf: Shelf) -> Iterator[tuple[str, Row]]:
    """Every row of the catalogue with its table; a column that is not named is empty."""
    for oid, name in ((PG_CATALOG, "pg_catalog"), (PUBLIC, "public"), (INFORMATION, "information_schema")):
        yield "pg_namespace", {"oid": oid, "nspname": name, "nspowner": OWNER}
    yield "pg_am", {"oid": 2, "amname": "heap", "amtype": "t"}
    yield "pg_collation", {"oid": 100, "collname": "default", "collnamespace": PG_CATALOG, "collprovider": "d"}
    yield "pg_tablespace", {"oid": 1663, "spcname": "pg_default", "spcowner": OWNER}
    yield "pg_language", {"oid": 14, "lanname": "sql", "lanowner": OWNER}
    for name, value in FIRST.items():
        entry = {"name": name, "setting": value, "context": "user", "vartype": "string", "source": "default"}
        yield "pg_settings", entry
    for oid, (name, category, _, listed) in TYPES.items():
        yield "pg_type", _type(oid, name, category) | {"typarray": listed}
        if listed:
            yield "pg_type", _type(listed, f"_{name}", "A") | {"typelem": oid, "typarray": 0}
    names = {_procedure(name, category, end) for name, category, _, _ in TYPES.values() for end in _PROCEDURES.values()}
    for number, name in enumerate(sorted(names | {_procedure("", "A", end) for end in _PROCEDURES.values()})):
        row: Row = {"oid": FIRST_PROCEDURE + number, "proname": name, "pronamespace": PG_CATALOG, "prokind": "f"}
        yield "pg_proc", row | {"proowner": OWNER, "prorettype": 0, "pronargs": 1}
    for number, book in enumerate(shelf):
        yield from _release(FIRST_TABLE + number, book)


def _type(oid: int, name: str, category: str) -> Row:
    return {
        **{"oid": oid, "typname": name, "typnamespace": PG_CATALOG, "typowner": OWNER, "typlen": pg.length_of(oid)},
        **{"typtype": "b", "typcategory": category, "typisdefined": True, "typdelim": ",", "typrelid": 0, "typelem": 0},
        **{"typnotnull": False, "typbasetype": 0, "typtypmod": -1, "typndims": 0, "typbyval": pg.length_of(oid) > 0},
        **{"typispreferred": False, "typcollation": 100 if category == "S" else 0, "typstorage": "p"},
        **{column: _procedure(name, category, end) for column, end in _PROCEDURES.items()},
    }


_PROCEDURES = {"typinput": "in", "typoutput": "out", "typreceive": "recv", "typsend": "send"}
_LONG = ("date", "time", "timestamp", "timestamptz", "interval", "numeric", "uuid")


def _procedure(name: str, category: str, end: str) -> str:
    """Name of the function that reads or writes a type; drivers know types by it. PostgreSQL has two spellings."""
    owner = "array" if category == "A" else name
    return f"{owner}_{end}" if category == "A" or name in _LONG else f"{owner}{end}"


def _release(oid: int, book: Book) -> Iterator[tuple[str, Row]]:
    schema, name = book.release.schema, book.name
    about = f"{book.release.guarantee.statement} Counted: {counted_in_short(book.release.content.table_schema)}."
    yield "pg_description", {"objoid": oid, "classoid": CLASSES, "objsubid": 0, "description": printable(about)}
    yield "pg_tables", {"schemaname": "public", "tablename": name, "tableowner": "curator", "hasindexes": False}
    yield "pg_stat_user_tables", {"relid": oid, "schemaname": "public", "relname": name}
    yield from _table(oid, name, list(columns_of(schema)), "r")


def rows_of_view(number: int, view: View) -> Iterator[tuple[str, Row]]:
    """Every row about a view of a session, which has its numbers after those of all tables."""
    listed = [(name, kind if kind in TYPES else pg.TEXT, "") for name, kind in view.columns]
    yield "pg_views", {"schemaname": "public", "viewname": view.name, "viewowner": "curator", "definition": view.text}
    yield from _table(FIRST_VIEW + number, view.name, listed, "v")


def _table(oid: int, name: str, listed: Sequence[tuple[str, int, str]], kind: str) -> Iterator[tuple[str, Row]]:
    """Rows about a table or view with its columns. kind: r for a table, v for a view."""
    yield (
        "pg_class",
        {
            **{"oid": oid, "relname": name, "relnamespace": PUBLIC, "reltype": 0, "reloftype": 0, "relowner": OWNER},
            **{"relam": 2, "relfilenode": oid, "reltablespace": 0, "relpages": 0, "reltuples": -1, "reltoastrelid": 0},
            **{"relhasindex": False, "relisshared": False, "relpersistence": "p", "relkind": kind, "relchecks": 0},
            **{"relnatts": len(listed), "relhasrules": False, "relhastriggers": False, "relhassubclass": False},
            **{"relrowsecurity": False, "relforcerowsecurity": False, "relispopulated": True, "relreplident": "d"},
            **{"relispartition": False, "relrewrite": 0, "relallvisible": 0, "relacl": ["=r/curator"]},
        },
    )
    whole = {"table_schema": "public", "table_name": name}
    yield (
        "information_schema.tables",
        whole | {"table_type": "BASE TABLE" if kind == "r" else "VIEW", "is_insertable_into": "NO", "is_typed": "NO"},
    )
    privilege = {"grantor": "curator", "grantee": "PUBLIC", "privilege_type": "SELECT", "is_grantable": "NO"}
    yield "information_schema.table_privileges", whole | privilege
    yield "information_schema.role_table_grants", whole | privilege
    for place, (column, type_oid, word) in enumerate(listed, start=1):
        yield "pg_attribute", _attribute(oid, place, column, type_oid)
        yield "pg_description", {"objoid": oid, "classoid": CLASSES, "objsubid": place, "description": word}
        short, _, long, _ = TYPES[type_oid]
        yield (
            "information_schema.columns",
            {
                **whole,
                **{"column_name": column, "ordinal_position": place, "is_nullable": "YES", "data_type": long},
                **{"udt_schema": "pg_catalog", "udt_name": short, "is_identity": "NO", "is_updatable": "NO"},
                **{"is_generated": "NEVER", "is_self_referencing": "NO", "dtd_identifier": str(place)},
                **({"numeric_precision": 64 if type_oid == 20 else 53} if type_oid in (20, 701) else {}),
            },
        )


def _attribute(oid: int, place: int, name: str, kind: int) -> Row:
    return {
        **{"attrelid": oid, "attname": name, "atttypid": kind, "attlen": pg.length_of(kind), "attnum": place},
        **{"atttypmod": -1, "attndims": 0, "attbyval": pg.length_of(kind) > 0, "attalign": "d", "attstorage": "p"},
        **{"attnotnull": False, "atthasdef": False, "atthasmissing": False, "attidentity": "", "attgenerated": ""},
        **{"attisdropped": False, "attislocal": True, "attinhcount": 0, "attcompression": ""},
        **{"attcollation": 100 if kind == 25 else 0, "attstattarget": -1, "attcacheoff": -1},
    }


# -- tables

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
