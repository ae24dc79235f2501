"""Which SQL a connection speaks, and which of those that sqlglot knows are let through; docs/engines.md has why."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from sfumato.errors import TableError
from sfumato.kernel.source.engines.alchemy import adbc_vendor, alchemy_url
from sfumato.kernel.source.engines.other.words import Words

# What a library of connections, or SQLAlchemy, or a driver of ADBC, calls the SQL that sqlglot calls otherwise.
_SPOKEN = {
    "chdb": "clickhouse",
    "clickhouse_connect": "clickhouse",
    "clickhouse_driver": "clickhouse",
    "clickhousedb": "clickhouse",
    "pymysql": "mysql",
    "mysqldb": "mysql",
    "mysql": "mysql",
    "mariadb": "mysql",
    "asyncmy": "mysql",
    "pymssql": "tsql",
    "mssql": "tsql",
    "mssql_python": "tsql",
    "microsoft sql server": "tsql",
    "oracledb": "oracle",
    "cx_oracle": "oracle",
    "google": "bigquery",
    "redshift_connector": "redshift",
    "prestodb": "presto",
    "pyathena": "athena",
    "awsathena": "athena",
    "teradatasql": "teradata",
    "pyexasol": "exasol",
    "exa": "exasol",
    "pg8000": "postgres",
    "asyncpg": "postgres",
    "postgresql": "postgres",
    "pyhive": "hive",
    "sqlite3": "sqlite",
}
# Where nobody can be sure, nothing is read.
_REFUSED = {
    "tsql": "SQL Server may take binary values for equal that differ in zeros at their end",
    "oracle": "Oracle takes an empty text for NULL and pads some comparisons with blanks",
    "postgres": "PostgreSQL is read through psycopg, ADBC or SQLAlchemy, or by its address",
    "spark": "Spark is read through a session, or by its address",
    "sqlite": "SQLite is read through sqlite3, ADBC or SQLAlchemy, or by its address",
}
_INSTEAD = "write the table to Parquet and release that"


def words_of(table: Any, stated: str | None) -> Words:
    """How to speak to a connection; refused if nobody knows how, or whether, its SQL keeps the promise."""
    spoken = _known(stated) if stated is not None else _spoken(table)
    if spoken == "duckdb":
        from sfumato.kernel.source.engines.other.ducks import DuckWords

        return DuckWords()
    if spoken == "clickhouse":
        from sfumato.kernel.source.engines.other.clickhouse import ClickHouseWords

        return ClickHouseWords()
    if spoken == "mysql":
        from sfumato.kernel.source.engines.other.mysql import MySQLWords

        return MySQLWords()
    why = _REFUSED.get(spoken, f"no server that speaks {spoken} was ever tried here")
    raise TableError(f"{why}; {_INSTEAD}" if spoken not in ("postgres", "spark", "sqlite") else why)


def _known(stated: str) -> str:
    from sqlglot.dialects.dialect import Dialect

    name = stated.strip().lower()
    spoken = _SPOKEN.get(name, name)
    with suppress(ValueError):
        if Dialect.get(spoken) is not None:
            return spoken
    raise TableError(f"{stated!r} is no SQL that sqlglot knows; known here are clickhouse, duckdb and mysql")


def _spoken(table: Any) -> str:
    from sqlglot.dialects.dialect import Dialect

    said = _said(table).lower()
    spoken = _SPOKEN.get(said, said)
    if Dialect.get(spoken) is None:
        kind = f"{type(table).__module__}.{type(table).__name__}"
        raise TableError(f"a table cannot be a {kind} whose SQL is not known; say which it speaks (dialect=)")
    return spoken


def _said(table: Any) -> str:
    """What a connection tells of itself: the backend of SQLAlchemy, the vendor behind ADBC, or its library."""
    if isinstance(table, str):
        return table.partition("://")[0].partition("+")[0]
    if (url := alchemy_url(table)) is not None:
        return str(url.get_backend_name())
    if (vendor := adbc_vendor(table)) is not None:
        return vendor
    return type(table).__module__.partition(".")[0].lstrip("_")
