"""DuckDB: embedded, the default engine. Reads CSV, Parquet, DuckDB files and frames in memory."""

from __future__ import annotations

import re
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import NOTHING_DECLARED, Column, followed, is_watched, silenced
from sfumato.kernel.reading.formats.files import ENDINGS, STANDARD_INPUT, format_of, paths_of
from sfumato.kernel.reading.formats.origin import SOURCE, Origin
from sfumato.schema.dialect import PLAIN, Dialect

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

MEMORY = "60%"  # of what this machine, or this container, has
SCRATCH = 0.5  # of the free disk, for what does not fit in memory
_ADDRESS = re.compile("(duckdb|sqlite):|.*://", re.DOTALL)


class Session:
    """In-memory DuckDB connection without extensions, file caches or access to Python variables.

    Connecting takes longer than a small statement, so one connection serves to look at names and types and then to run
    the statement. As a context it is closed at the end; nobody may use it for a second statement.
    """

    def __init__(self) -> None:
        self._close: Callable[[], object] = _nothing_to_close

    def open(self) -> Any:
        """Open a new connection in place of the last one."""
        import duckdb

        self.close()
        # For privacy: what does not fit in memory is spilled where only this user may look, and is removed.
        scratch = tempfile.TemporaryDirectory(prefix="sfumato-")
        free = shutil.disk_usage(scratch.name).free
        self.connection = duckdb.connect(
            ":memory:",
            config={
                "memory_limit": MEMORY,
                "temp_directory": scratch.name,
                "max_temp_directory_size": f"{int(free * SCRATCH) // 2**20}MiB",
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
                "python_enable_replacements": False,  # a name must never find a variable of the calling program
                "preserve_insertion_order": False,
                "enable_external_file_cache": False,  # a file that was written anew must be read anew
            },
        )
        self._close = weakref.finalize(self, _close, self.connection, scratch)
        self.connection.execute(
            # Kept for whoever waits, and never printed by the engine itself.
            f"SET enable_progress_bar = {str(is_watched()).lower()}; SET enable_progress_bar_print = false; "
            "SET TimeZone = 'UTC'; "  # the day of a time must not depend on the machine
            "SET lock_configuration = true"
        )
        return self.connection

    def close(self) -> None:
        self._close()
        self._close = _nothing_to_close

    def __enter__(self) -> Any:
        return self.open() if self._close is _nothing_to_close else self.connection

    def __exit__(self, *_: object) -> None:
        self.close()


def _nothing_to_close() -> None:
    """Do nothing: the close function while no connection is open."""


def _close(connection: Any, scratch: tempfile.TemporaryDirectory[str]) -> None:
    connection.close()
    scratch.cleanup()


@dataclass(frozen=True)
class DuckDB:
    """An engine over one source, with one connection that is closed after its statement and leaves nothing behind."""

    origin: Origin
    columns: tuple[Column, ...]
    session: Session = field(default_factory=Session, repr=False)
    dialect: str = "duckdb"
    subqueries: bool = True
    others: tuple[tuple[DuckDB, tuple[Column, ...]], ...] = field(default=(), repr=False)
    name: str = SOURCE

    def table(self) -> exp.Expression:
        """SQL table expression for the statement's FROM."""
        from sqlglot import exp

        return exp.to_table(self.name)

    def beside(self, others: Sequence[tuple[DuckDB, Sequence[Column]]], renamed: Sequence[Column]) -> DuckDB:
        """The engine with further sources in its connection, each with its used columns."""
        _refuse_two_files([self.origin, *(other.origin for other, _ in others)])
        for other, _ in others:
            other.close()
        return replace(self, others=tuple((other, tuple(used)) for other, used in others))

    def called(self, number: int) -> DuckDB:
        """The engine with its table under a name that others do not have."""
        return replace(self, name=f"{SOURCE}{number}")

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """SQL of a text as BLOB, which has no collation."""
        from sqlglot import exp

        return exp.Anonymous(this="encode", expressions=[text])

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """SQL TRY_CAST of a value."""
        from sfumato.kernel.reading.expressions import try_cast

        return try_cast(value, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """SQL of a value with NaN as NULL, in columns of floats."""
        from sfumato.kernel.reading.expressions import is_float, missing_if_nan

        return missing_if_nan(value) if is_float(source, self.dialect) else value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """SQL try_strptime of a text."""
        from sqlglot import exp

        return exp.Anonymous(this="try_strptime", expressions=[text, exp.Literal.string(written)])

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """SQL hash() of some values."""
        from sqlglot import exp

        return exp.Anonymous(this="hash", expressions=list(parts))

    def declarations(self) -> tuple[str, str]:
        """SQL that declares the table in its database, and its dialect; no row is read."""
        declared = getattr(self.origin, "declarations", None)
        if declared is None:
            raise TableError(NOTHING_DECLARED)
        failed = f"the declarations of {self.origin.shown} cannot be read; leave --from-declarations out"
        found: tuple[str, str] = silenced(lambda: declared(self.session.connection), failed)
        return found

    def check(self, statement: exp.Expression) -> None:
        """Accept every statement: it is written for DuckDB, which could only refuse values, and none is read yet."""

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement and return its result."""
        text = statement.sql(dialect=self.dialect, identify=True, copy=False)
        failed = "could not be read to its end; it may be damaged, or memory or free disk space may have run out"

        def work() -> pa.Table:
            with self.session as connection, followed(lambda: _share(connection)):
                return self._answer(connection, text, used)

        return silenced(work, f"{self.origin.shown} {failed}")

    def close(self) -> None:
        """Close the connection, if it is still open."""
        self.session.close()

    def _answer(self, connection: Any, text: str, used: Sequence[Column]) -> pa.Table:
        """Result of the statement; read again by a slower reader where the fast one stops at a value.

        For privacy a value must not stop a reading. Nothing was drawn yet, and the time taken is all that differs.
        """
        import duckdb

        sources = [(self, used), *self.others]
        for engine, its in sources:
            engine.origin.mount(connection, its, engine.name)
        try:
            return connection.sql(text).to_arrow_table()
        except (duckdb.InvalidInputException, duckdb.ConversionException, duckdb.OutOfRangeException):
            if not any(hasattr(engine.origin, "mount_slowly") for engine, _ in sources):
                raise
        for engine, its in sources:
            again = getattr(engine.origin, "mount_slowly", engine.origin.mount)
            again(connection, its, engine.name)
        return connection.sql(text).to_arrow_table()


def _refuse_two_files(origins: Sequence[Origin]) -> None:
    """Refuse linked tables of several database files, all of which would be attached under one name."""
    from sfumato.kernel.reading.formats.databases import Database

    if len({origin.path for origin in origins if isinstance(origin, Database)}) > 1:
        raise TableError("linked tables are in several DuckDB files; copy them into one")


def _share(connection: Any) -> float | None:
    """Share of its files that DuckDB has read; None where it is unknown."""
    done = float(connection.query_progress())
    return done / 100 if done > 0 else None


def open_duckdb(table: object, name: str | None, dialect: Dialect = PLAIN, wanted: Sequence[str] = ()) -> DuckDB:
    """The engine for a path, a pattern, a duckdb:/// URL or a frame.

    dialect: how a file is written. wanted: the columns that a schema uses, for files that do not say what they hold.
    """
    failed = "the table cannot be opened; check that it may be read"
    return over_origin(silenced(lambda: _find_origin(table, name, dialect, wanted), failed))


def over_origin(origin: Origin, engine: type[DuckDB] = DuckDB) -> DuckDB:
    """Engine over a source that DuckDB can read. engine: a subclass, for the audit's broken ones."""
    session = Session()
    columns = silenced(
        lambda: tuple(origin.describe(session.open())), f"{origin.shown} cannot be opened; check that it is complete"
    )
    return engine(origin, columns, session)


def _find_origin(table: object, name: str | None, dialect: Dialect, wanted: Sequence[str]) -> Origin:
    if isinstance(table, Path) or (isinstance(table, str) and not _ADDRESS.match(table)):
        _refuse_name(name)
        return find_files(table, dialect, wanted)
    from sfumato.kernel.reading.formats.databases import file_behind, find_database

    url = table if isinstance(table, str) and table.startswith(("duckdb:", "sqlite:")) else file_behind(table)
    if url is not None:
        return find_database(url, name)
    if isinstance(table, str):
        scheme = table.split("://")[0]
        known = "postgresql://, spark://, sqlite:/// or duckdb:/// with a table name"
        raise TableError(f"{scheme}:// cannot be read; use a CSV or Parquet file, or {known}")
    from sfumato.kernel.reading.formats.columnar import find_frame

    if (frame := find_frame(table)) is not None:
        _refuse_name(name)
        return frame
    kinds = (
        "a path, a pattern, a database URL, a connection to PostgreSQL or SQLite, or a pandas, polars or Arrow frame"
    )
    raise TableError(f"a table cannot be a {type(table).__name__}; use {kinds}")


_DATABASES = {".sqlite": "sqlite", ".sqlite3": "sqlite", ".db": "sqlite", ".duckdb": "duckdb"}


def find_files(table: str | Path, dialect: Dialect = PLAIN, wanted: Sequence[str] = ()) -> Origin:
    """Source for the files that a path or a pattern names.

    >>> find_files("nowhere/census.parquet")
    Traceback (most recent call last):
    ...
    sfumato.errors.TableError: there is no file nowhere/census.parquet; check the path
    """
    paths = paths_of(table)
    formats = {format_of(name, dialect) or "" for name in paths}
    if "" in formats:
        kinds = ", ".join(end for end in ENDINGS if end.count(".") == 1)
        engine = next((_DATABASES[path.suffix] for path in map(Path, paths) if path.suffix in _DATABASES), None)
        if engine is not None:
            raise TableError(f"{table} looks like a database; write {engine}:///{table} --table NAME")
        raise TableError(
            f"{table} is not of a kind that can be read; use {kinds} (text also as .gz, .bz2 or .zst), or name its "
            "format (--file-format)"
        )
    if len(formats) > 1:
        raise TableError(f"{table} matches files of more than one kind; name one kind, such as *.parquet")
    return _found(formats.pop(), paths, dialect, wanted)


def _found(kind: str, paths: tuple[Path, ...], dialect: Dialect, wanted: Sequence[str]) -> Origin:
    if kind in ("csv", "tsv"):
        from sfumato.kernel.reading.formats.text_files import find_csv

        return find_csv(paths, dialect, "\t" if kind == "tsv" else ",")
    if kind == "jsonl":
        from sfumato.kernel.reading.formats.text_files import find_json

        return find_json(paths, dialect, wanted)
    if STANDARD_INPUT in paths:
        raise TableError(f"the standard input can be csv, tsv or jsonl, not {kind}; use a file")
    if kind == "xlsx":
        from sfumato.kernel.reading.formats.excel_files import find_excel

        return find_excel(paths, dialect)
    from sfumato.kernel.reading.formats.columnar import ArrowFiles, find_parquet

    return ArrowFiles(paths) if kind == "arrow" else find_parquet(paths)


def _refuse_name(name: str | None) -> None:
    if name is not None:
        raise TableError(f"the table name {name!r} was given, but only a database has named tables; leave it out")
