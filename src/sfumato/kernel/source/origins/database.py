"""A table or view in a DuckDB file, opened for reading only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.source.engines import Column
from sfumato.kernel.source.origins.origin import SOURCE, mounted_columns


@dataclass(frozen=True)
class Database:
    """One table of a database file. name: as `table`, or `schema.table` outside the main schema."""

    path: Path
    name: str | None

    @property
    def shown(self) -> str:
        """What a message calls it."""
        return self.path.name

    def describe(self, connection: Any) -> list[Column]:
        """Its columns; those of a view, and those that are made from others, are worked out when they are read."""
        self.mount(connection, ())
        schema, name, kind = self._find(connection)
        found = connection.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_catalog = 'held' AND table_schema = $1 "
            "AND table_name = $2 AND is_generated <> 'NEVER'",
            [schema, name],
        ).fetchall()
        made = {column for (column,) in found}
        return [
            replace(column, derived=kind != "BASE TABLE" or column.name in made)
            for column in mounted_columns(connection)
        ]

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the table readable."""
        from sqlglot import exp

        connection.execute(
            f"ATTACH IF NOT EXISTS {exp.Literal.string(str(self.path)).sql(dialect='duckdb')} AS held (READ_ONLY)"
        )
        schema, name, _ = self._find(connection)
        held = [exp.to_identifier(part, quoted=True) for part in ("held", schema, name)]
        wanted = ".".join(part.sql(dialect="duckdb") for part in held)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS FROM {wanted}")

    def _find(self, connection: Any) -> tuple[str, str, str]:
        """Its schema, its name, and whether it is a table or a view."""
        listing = "SELECT table_schema, table_name, table_type FROM information_schema.tables"
        places = sorted(connection.sql(f"{listing} WHERE table_catalog = 'held'").fetchall())
        tables = {
            name if schema == "main" else f"{schema}.{name}": (schema, name, kind) for schema, name, kind in places
        }
        if self.name not in tables:
            asked = "no table was named" if self.name is None else f"there is no table {self.name!r}"
            raise TableError(f"{asked} in {self.shown}; it has {', '.join(tables) or 'no tables'}")
        schema, name, kind = tables[self.name]
        return schema, name, kind


def find_database(url: str, name: str | None) -> Database:
    """The table that duckdb:///FILE and a name mean; FILE is relative as written, or else from the root."""
    file = url.removeprefix("duckdb:").removeprefix("//").removeprefix("/")
    for path in (Path(file).expanduser(), Path("/", file)):
        if file and path.is_file():
            return Database(path.absolute(), name)
    raise TableError(f"{url} names no database file; write duckdb:///FILE")
