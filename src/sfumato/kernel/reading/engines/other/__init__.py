"""Databases beside DuckDB, PostgreSQL and Spark: a connection of DB-API or ADBC, or an engine of SQLAlchemy."""

from __future__ import annotations

from sfumato.kernel.reading.engines.alchemy import alchemy_url

# Addresses that SQLAlchemy opens, by what stands before the first + or : in them.
ADDRESSES = ("mysql", "mariadb", "clickhouse")


def is_other(table: object, dialect: str | None = None) -> bool:
    """Whether a table is a connection, or an address that SQLAlchemy opens; nothing is imported to find out.

    dialect: the SQL that the user says it speaks; whatever has it is one.

    >>> is_other("mysql://ada@example.org/census"), is_other("people.csv"), is_other("duckdb:///census.duckdb")
    (True, False, False)
    """
    if isinstance(table, str):
        scheme, parted, _ = table.partition("://")
        return bool(parted) and scheme.partition("+")[0].lower() in ADDRESSES
    return dialect is not None or alchemy_url(table) is not None or callable(getattr(table, "cursor", None))
