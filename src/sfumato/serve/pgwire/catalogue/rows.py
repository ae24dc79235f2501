"""Rows of PostgreSQL's system catalogue: types, settings, releases as tables, and the views of a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfumato.plain_text import printable
from sfumato.schema import Schema
from sfumato.schema.schema import counted_in_short
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.settings import FIRST
from sfumato.serve.pgwire.statements import kind_of
from sfumato.serve.pgwire.views import View
from sfumato.serve.web.shelf import Book, Shelf

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
