"""Which engine reads a table."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.kernel.source.engines import Engine
from sfumato.kernel.source.engines.postgres.address import is_postgres
from sfumato.kernel.source.engines.spark import is_spark
from sfumato.schema.dialect import Dialect


def open_engine(table: object, name: str | None, dialect: Dialect, wanted: Sequence[str]) -> Engine:
    """The engine for what a table was given as; see `sfumato.kernel.source.table.open_table`."""
    if is_postgres(table):
        from sfumato.kernel.source.engines.postgres.engine import open_postgres

        return open_postgres(table, name)
    if is_spark(table):
        from sfumato.kernel.source.engines.spark.engine import open_spark

        return open_spark(table, name)
    from sfumato.kernel.source.engines.duckdb import open_duckdb

    return open_duckdb(table, name, dialect, wanted)
