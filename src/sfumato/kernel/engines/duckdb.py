"""DuckDB: embedded, the default engine. Reads CSV, Parquet, DuckDB files and frames in memory."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.kernel.engines import Column
from sfumato.kernel.engines.database import find_database
from sfumato.kernel.engines.files import find_files
from sfumato.kernel.engines.frames import find_frame
from sfumato.kernel.engines.origin import SOURCE, Origin

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

MEMORY = "60%"  # of what this machine, or this container, has
SCRATCH = 0.5  # of the free disk, for what does not fit in memory


@dataclass(frozen=True)
class DuckDB:
    """An engine over one source. Each statement runs in a connection of its own, which leaves nothing behind."""

    origin: Origin
    columns: tuple[Column, ...]
    dialect: str = "duckdb"

    def table(self) -> exp.Expression:
        """What the statement reads FROM."""
        from sqlglot import exp

        return exp.to_table(SOURCE)

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """DuckDB's own hash."""
        from sqlglot import exp

        return exp.Anonymous(this="hash", expressions=list(parts))

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """The statement's result."""
        text = statement.sql(dialect=self.dialect, identify=True, copy=False)
        failed = "could not be read to its end; it may be damaged, or memory or free disk space may have run out"
        with _silenced(f"{self.origin.shown} {failed}"), _connection() as connection:
            self.origin.mount(connection, used)
            return connection.sql(text).to_arrow_table()


def open_duckdb(table: object, name: str | None) -> DuckDB:
    """The engine for a path, a pattern, a duckdb:/// URL or a frame."""
    origin = _find_origin(table, name)
    with _silenced(f"{origin.shown} cannot be opened; check that it is complete"), _connection() as connection:
        return DuckDB(origin, tuple(origin.describe(connection)))


def _find_origin(table: object, name: str | None) -> Origin:
    if isinstance(table, str) and table.startswith("duckdb:"):
        return find_database(table, name)
    if name is not None:
        raise TableError(f"the table name {name!r} was given, but only a database has named tables; leave it out")
    if isinstance(table, str) and "://" in table:
        scheme = table.split("://")[0]
        raise TableError(f"{scheme}:// cannot be read; use a CSV or Parquet file, or duckdb:///FILE with a table name")
    if isinstance(table, str | Path):
        return find_files(table)
    if (frame := find_frame(table)) is not None:
        return frame
    kinds = "a path, a pattern, a database URL, or a pandas, polars or Arrow frame"
    raise TableError(f"a table cannot be a {type(table).__name__}; use {kinds}")


@contextmanager
def _connection() -> Iterator[Any]:
    """A database in memory with everything switched off that could reach out, remember or guess."""
    import duckdb

    with tempfile.TemporaryDirectory(prefix="sfumato-") as scratch:  # for privacy: only this user may look, and removed
        connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY,
                "temp_directory": scratch,
                "max_temp_directory_size": f"{int(shutil.disk_usage(scratch).free * SCRATCH) // 2**20}MiB",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,  # a name must never find a variable of the calling program
                "preserve_insertion_order": False,
            },
        )
        try:
            connection.execute("SET enable_progress_bar = false")
            connection.execute("SET TimeZone = 'UTC'")  # the day of a time must not depend on the machine
            connection.execute("SET lock_configuration = true")
            yield connection
        finally:
            connection.close()


@contextmanager
def _silenced(message: str) -> Iterator[None]:
    """Say this instead of what the engine says: its messages can quote values."""
    try:
        yield
    except TableError:
        raise
    except Exception:
        raise TableError(message) from None
