"""DuckDB behind a connection of its own, of ADBC or of SQLAlchemy: the same words as where the kernel opens it."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.other.catalogue import chosen, literal, quoted_table
from sfumato.kernel.reading.engines.other.mysql import Session, Words
from sfumato.kernel.reading.expressions import SQL, try_cast
from sfumato.kernel.reading.formats.origin import bare_type

_TABLES = """
SELECT table_schema, table_name, table_type FROM information_schema.tables
WHERE table_catalog = current_database() AND table_schema NOT IN ('information_schema', 'pg_catalog')
"""
_COLUMNS = """
SELECT column_name, data_type, is_generated <> 'NEVER' FROM information_schema.columns
WHERE table_catalog = current_database() AND table_schema = {} AND table_name = {} ORDER BY ordinal_position
"""


class DuckWords(Words):
    """DuckDB's words."""

    dialect, shown, subqueries = "duckdb", "DuckDB", True
    settings = (("SET TimeZone = 'UTC'", "RESET TimeZone"),)

    def found(self, session: Session, name: str | None) -> tuple[SQL, tuple[Column, ...]]:
        """A table of the database that the connection has open."""
        schema, own, kind = chosen(session.rows(_TABLES), name, "main", self.shown)
        rows = session.rows(_COLUMNS.format(literal(schema, self.dialect), literal(own, self.dialect)))
        columns = [
            Column(str(column), bare_type(str(word)), str(column), derived=kind != "BASE TABLE" or bool(made))
            for column, word, made in rows
        ]
        return quoted_table(own, schema), tuple(columns)

    def bytes_of(self, text: SQL) -> SQL:
        """A BLOB, which has no collation."""
        return exp.Anonymous(this="encode", expressions=[text])

    def number_of(self, text: SQL) -> SQL:
        """By TRY_CAST, as everything else."""
        return try_cast(text, "double")

    def safe_cast(self, value: SQL, source: Column, to: str) -> SQL:
        """DuckDB's TRY_CAST."""
        return try_cast(value, to)

    def scramble(self, parts: Sequence[SQL]) -> SQL:
        """DuckDB's own hash."""
        return exp.Anonymous(this="hash", expressions=list(parts))

    def spelled(self, statement: SQL) -> str:
        """As it is."""
        return statement.sql(dialect=self.dialect, identify=True)

    def planned(self, text: str) -> str:
        """DuckDB's plan."""
        return f"EXPLAIN {text}"
