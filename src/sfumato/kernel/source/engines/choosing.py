"""Which engine reads a table."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.kernel.source.engines import Engine
from sfumato.kernel.source.engines.other import is_other
from sfumato.kernel.source.engines.postgres.address import is_postgres
from sfumato.kernel.source.engines.spark import is_spark
from sfumato.schema.dialect import Dialect


def open_engine(
    table: object, name: str | None, dialect: Dialect, wanted: Sequence[str], spoken: str | None = None
) -> Engine:
    """The engine for what a table was given as; see `sfumato.kernel.source.table.open_table`.

    dialect: how a file is written. spoken: the SQL of a connection.
    """
    if is_postgres(table):
        from sfumato.kernel.source.engines.postgres.engine import open_postgres

        return open_postgres(table, name)
    if is_spark(table):
        from sfumato.kernel.source.engines.spark.engine import open_spark

        return open_spark(table, name)
    if is_other(table, spoken) and not _is_sqlite(table):
        from sfumato.kernel.source.engines.other.engine import open_other

        return open_other(table, name, spoken)
    from sfumato.kernel.source.engines.duckdb import open_duckdb

    return open_duckdb(table, name, dialect, wanted)


def _is_sqlite(table: object) -> bool:
    """Whether a connection is one to SQLite, whose rows DuckDB reads."""
    from sfumato.kernel.source.origins.sqlite import is_sqlite

    return is_sqlite(table)
