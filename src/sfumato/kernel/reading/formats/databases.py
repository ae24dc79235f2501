"""Tables of DuckDB and SQLite files, opened for reading only.

In SQLite each value has a type of its own, whatever type its column was declared with, so all is read as text; a schema
says how the text of a value is read, as for CSV. Bytes and text that is not UTF-8 are missing. Persons are told apart
by storage class and value: the whole number 1, the float 1.0 and the text 1 are three.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, adbc_vendor, alchemy_url
from sfumato.kernel.reading.formats.origin import SOURCE, identity_of, mounted_columns, text_of

T = TypeVar("T")


@dataclass(frozen=True)
class _TableOfFile:
    """One table of a database file, by its name."""

    path: Path
    name: str | None

    @property
    def shown(self) -> str:
        """Name of the file for messages."""
        return self.path.name

    def _named_in(self, tables: Mapping[str, T]) -> T:
        """Entry of the named table in a mapping by table name; a TableError if there is none."""
        if self.name is not None and self.name in tables:
            return tables[self.name]
        asked = "no table was named" if self.name is None else f"there is no table {self.name!r}"
        raise TableError(f"{asked} in {self.shown}; it has {', '.join(tables) or 'no tables'}")


class Database(_TableOfFile):
    """One table of a DuckDB file. name: as `table`, or `schema.table` outside the main schema."""

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the table; those of a view and generated ones are derived."""
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

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Attach the file to DuckDB and name the table."""
        from sqlglot import exp

        connection.execute(
            f"ATTACH IF NOT EXISTS {exp.Literal.string(str(self.path)).sql(dialect='duckdb')} AS held (READ_ONLY)"
        )
        schema, own, _ = self._find(connection)
        held = [exp.to_identifier(part, quoted=True) for part in ("held", schema, own)]
        wanted = ".".join(part.sql(dialect="duckdb") for part in held)
        connection.execute(f"CREATE OR REPLACE TEMP VIEW {name} AS FROM {wanted}")

    def declarations(self, connection: Any) -> tuple[str, str]:
        """CREATE TABLE as DuckDB's catalogue has it, with the values of ENUM types, and its dialect."""
        schema, name, _ = self._find(connection)
        found = connection.execute(
            "SELECT sql FROM duckdb_tables() WHERE database_name = 'held' AND schema_name = $1 AND table_name = $2",
            [schema, name],
        ).fetchall()
        return _declared(found), "duckdb"

    def _find(self, connection: Any) -> tuple[str, str, str]:
        """Schema, name and kind (table or view) of the table."""
        listing = "SELECT table_schema, table_name, table_type FROM information_schema.tables"
        places = sorted(connection.sql(f"{listing} WHERE table_catalog = 'held'").fetchall())
        tables = {
            name if schema == "main" else f"{schema}.{name}": (schema, name, kind) for schema, name, kind in places
        }
        return self._named_in(tables)


_TOGETHER = 10_000  # rows that are handed on at a time
_VIRTUAL = 2  # a column that is worked out when it is read
_TABLES = """
SELECT name, type || ' ' || lower(substr(coalesce(sql, ''), 1, 14)) FROM sqlite_master
WHERE type IN ('table', 'view') AND substr(name, 1, 7) <> 'sqlite_'
"""


class Sqlite(_TableOfFile):
    """One table of a SQLite file."""

    def describe(self, connection: Any) -> list[Column]:
        """Columns of the table; those of a view and generated ones are derived."""
        with closing(self._open()) as file:
            self._check_encoding(file)
            kind: str = self._named_in(dict(sorted(file.execute(_TABLES))))
            columns = file.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", [self.name]).fetchall()
        derived = not kind.startswith("table create table")  # a view, or a module that makes up rows
        return [
            Column(name, None, f"c{place}", derived=derived or hidden == _VIRTUAL, who=f"who{place}")
            for place, (name, hidden) in enumerate(columns)
        ]

    def mount(self, connection: Any, used: Sequence[Column], name: str = SOURCE) -> None:
        """Register the used columns with DuckDB, read in one transaction."""
        import pyarrow as pa

        whose = [(place, column.who) for place, column in enumerate(used) if column.who is not None]
        schema = pa.schema(
            [
                *(pa.field(column.reference, pa.string()) for column in used),
                *(pa.field(who, pa.binary()) for _, who in whose),
            ]
        )
        wanted = ", ".join(_unless_bytes(f"t.{_quoted(column.name)}") for column in used)

        def batches() -> Iterator[Any]:
            with closing(self._open()) as file:
                file.text_factory = bytes  # for privacy: text that is no UTF-8 must not stop the reading
                rows = file.execute(f"SELECT {wanted} FROM {_quoted(str(self.name))} AS t")
                while some := rows.fetchmany(_TOGETHER):
                    columns = [[_decoded(row[place]) for row in some] for place in range(len(used))]
                    texts = [[None if value is None else text_of(value) for value in column] for column in columns]
                    people = [[identity_of(value) for value in columns[place]] for place, _ in whose]
                    arrays = [pa.array(values, pa.string()) for values in texts]
                    arrays += [pa.array(values, pa.binary()) for values in people]
                    yield pa.record_batch(arrays, schema=schema)

        connection.register(name, pa.RecordBatchReader.from_batches(schema, batches()))

    def declarations(self, connection: Any) -> tuple[str, str]:
        """CREATE TABLE as it was written, and its dialect."""
        with closing(self._open()) as file:
            found = file.execute("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?", [self.name])
            return _declared(found.fetchall()), "sqlite"

    def _check_encoding(self, file: sqlite3.Connection) -> None:
        """Refuse UTF-16 files: SQLite converts them to UTF-8 and may map several invalid texts to one."""
        ((encoding,),) = file.execute("PRAGMA encoding")
        if encoding != "UTF-8":
            raise TableError(f"{self.shown} holds text as {encoding}; only SQLite files in UTF-8 can be read; copy it")

    def _open(self) -> sqlite3.Connection:
        """Open a read-only connection that DuckDB's threads may use, one at a time."""
        file = sqlite3.connect(f"{self.path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        file.execute("PRAGMA query_only = on")
        file.execute("PRAGMA trusted_schema = off")
        return file


def _declared(rows: list[tuple[str]]) -> str:
    """The statement of a catalogue; a view has none."""
    if not rows:
        raise TableError("a view declares no types and constraints; leave --from-declarations out")
    return rows[0][0]


def find_database(url: str, name: str | None) -> Database | Sqlite:
    """Source for an address, duckdb:///FILE or sqlite:///FILE, and a table's name.

    FILE is relative as written, or else from the root.
    """
    scheme, _, file = url.partition(":")
    file = file.removeprefix("//").removeprefix("/")
    for path in (Path(file).expanduser(), Path("/", file)):
        if file and path.is_file():
            return (Database if scheme == "duckdb" else Sqlite)(path.absolute(), name)
    raise TableError(f"{url} names no database file; write {scheme}:///FILE")


def is_sqlite(table: Any) -> bool:
    """Whether a table is a connection of sqlite3 or ADBC to SQLite, or an engine of SQLAlchemy for it."""
    if isinstance(table, sqlite3.Connection):
        return True
    if (url := alchemy_url(table)) is not None:
        return str(url.drivername).startswith("sqlite")
    return adbc_vendor(table) == "SQLite"


def file_behind(table: Any) -> str | None:
    """URL of the SQLite file behind a connection or an engine of SQLAlchemy; None for others.

    It is opened once more, for reading, so that nothing that the connection has not yet committed is read.
    """
    if not is_sqlite(table):
        return None
    if (url := alchemy_url(table)) is not None:
        file = url.database
    else:
        with closing(table.cursor()) as cursor:
            cursor.execute("PRAGMA database_list")
            file = next((path for _, name, path in cursor.fetchall() if name == "main"), "")
    if not file or file == ":memory:":
        raise TableError("a SQLite database in memory cannot be opened a second time; write it to a file")
    return f"sqlite:///{file}"


def _quoted(name: str) -> str:
    return '"{}"'.format(name.replace('"', '""'))


def _unless_bytes(column: str) -> str:
    return f"CASE WHEN typeof({column}) <> 'blob' THEN {column} END"


def _decoded(value: object) -> object:
    """Decode a value of SQLite; a text that is not UTF-8 is missing."""
    try:
        return value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError:
        return None
