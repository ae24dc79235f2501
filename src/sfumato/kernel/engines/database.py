"""A table or view in a DuckDB file, opened for reading only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfumato.errors import TableError
from sfumato.kernel.engines import Column
from sfumato.kernel.engines.origin import SOURCE, mounted_columns


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
        """Its columns."""
        self.mount(connection, ())
        return mounted_columns(connection)

    def mount(self, connection: Any, used: Sequence[Column]) -> None:
        """Make the table readable."""
        from sqlglot import exp

        connection.execute(
            f"ATTACH IF NOT EXISTS {exp.Literal.string(str(self.path)).sql(dialect='duckdb')} AS held (READ_ONLY)"
        )
        listing = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_catalog = 'held'"
        places = sorted(connection.sql(listing).fetchall())
        tables = {table if schema == "main" else f"{schema}.{table}": (schema, table) for schema, table in places}
        if self.name not in tables:
            asked = "no table was named" if self.name is None else f"there is no table {self.name!r}"
            raise TableError(f"{asked} in {self.shown}; it has {', '.join(tables) or 'no tables'}")
        held = [exp.to_identifier(part, quoted=True) for part in ("held", *tables[self.name])]
        wanted = ".".join(part.sql(dialect="duckdb") for part in held)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {SOURCE} AS FROM {wanted}")


def find_database(url: str, name: str | None) -> Database:
    """The table that duckdb:///FILE and a name mean; FILE is relative as written, or else from the root."""
    file = url.removeprefix("duckdb:").removeprefix("//").removeprefix("/")
    for path in (Path(file).expanduser(), Path("/", file)):
        if file and path.is_file():
            return Database(path.absolute(), name)
    raise TableError(f"{url} names no database file; write duckdb:///FILE")
