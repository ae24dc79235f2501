"""Where an engine or a connection of SQLAlchemy leads to, and what is behind one of ADBC.

Which engine reads a table.
"""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.kernel.reading.engines import Engine
from sfumato.kernel.reading.engines.other import is_other
from sfumato.kernel.reading.engines.postgres.session import is_postgres
from sfumato.kernel.reading.engines.spark import is_spark
from sfumato.schema.dialect import Dialect


def open_engine(
    table: object, name: str | None, dialect: Dialect, wanted: Sequence[str], spoken: str | None = None
) -> Engine:
    """The engine for what a table was given as; see `sfumato.kernel.reading.table.open_table`.

    dialect: how a file is written. spoken: the SQL of a connection.
    """
    if is_postgres(table):
        from sfumato.kernel.reading.engines.postgres.engine import open_postgres

        return open_postgres(table, name)
    if is_spark(table):
        from sfumato.kernel.reading.engines.spark.engine import open_spark

        return open_spark(table, name)
    if is_other(table, spoken) and not _is_sqlite(table):
        from sfumato.kernel.reading.engines.other.engine import open_other

        return open_other(table, name, spoken)
    from sfumato.kernel.reading.engines.duckdb import open_duckdb

    return open_duckdb(table, name, dialect, wanted)


def _is_sqlite(table: object) -> bool:
    """Whether a connection is one to SQLite, whose rows DuckDB reads."""
    from sfumato.kernel.reading.formats.sqlite import is_sqlite

    return is_sqlite(table)
