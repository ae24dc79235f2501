"""The engine over one table of a PostgreSQL server, through psycopg or a connection of ADBC.

Names, types and the kind of table come from the server's catalogue; no row is read for them. One statement reads the
table; through ADBC its result is Arrow already.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, is_adbc, silenced
from sfumato.kernel.reading.engines.postgres import casts
from sfumato.kernel.reading.engines.postgres.session import OLDEST, Address, Session, address_of, told
from sfumato.kernel.reading.expressions import is_float, missing_if_nan

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.schema import Schema

TYPES = {
    **{"int2": "SMALLINT", "int4": "INTEGER", "int8": "BIGINT"},
    **{"float4": "REAL", "float8": "DOUBLE PRECISION", "numeric": "DECIMAL", "bool": "BOOLEAN", "uuid": "UUID"},
    **dict.fromkeys(("text", "varchar", "bpchar", "name"), "TEXT"),
    **{"date": "DATE", "timestamp": "TIMESTAMP", "timestamptz": "TIMESTAMPTZ"},
}
SHOWN = 20  # tables in a message
_TABLES = """
SELECT n.nspname, c.relname, c.oid::bigint, c.relkind IN ('v', 'm') OR row_security_active(c.oid) OR EXISTS (
    WITH RECURSIVE parts(oid) AS (
        SELECT c.oid UNION ALL SELECT i.inhrelid FROM pg_inherits i JOIN parts p ON i.inhparent = p.oid)
    SELECT FROM parts p JOIN pg_class f ON f.oid = p.oid WHERE f.relkind = 'f'),
    has_schema_privilege(n.oid, 'USAGE') AND has_any_column_privilege(c.oid, 'SELECT')
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f')
"""
_NAMED = " AND (n.nspname || '.' || c.relname = {0} OR c.relname = {0})"
_ALL = " AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') ORDER BY 1, 2"
_COLUMNS = """
WITH RECURSIVE types(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_attribute WHERE attrelid = {0} AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT d.attnum, t.typbasetype FROM types d JOIN pg_type t ON t.oid = d.oid WHERE t.typtype = 'd')
SELECT a.attname, a.attgenerated = 'v', t.typtype::text, t.typname, t.typnamespace = 'pg_catalog'::regnamespace,
    EXISTS (SELECT FROM pg_cast x WHERE x.castsource = t.oid AND x.casttarget = 'text'::regtype AND x.castmethod = 'b')
FROM types d JOIN pg_type t ON t.oid = d.oid JOIN pg_attribute a ON a.attrelid = {0} AND a.attnum = d.attnum
WHERE t.typtype <> 'd' ORDER BY a.attnum
"""
_DECLARED = """
WITH RECURSIVE types(attnum, oid) AS (
    SELECT attnum, atttypid FROM pg_attribute WHERE attrelid = {0} AND attnum > 0 AND NOT attisdropped
    UNION ALL SELECT d.attnum, t.typbasetype FROM types d JOIN pg_type t ON t.oid = d.oid WHERE t.typtype = 'd')
SELECT quote_ident(a.attname) || ' ' || coalesce('ENUM(' || (
    SELECT string_agg('''' || replace(e.enumlabel, '''', '''''') || '''', ', ' ORDER BY e.enumsortorder)
    FROM pg_enum e WHERE e.enumtypid = t.oid
    ) || ')', format_type(t.oid, NULL))
FROM types d JOIN pg_type t ON t.oid = d.oid JOIN pg_attribute a ON a.attrelid = {0} AND a.attnum = d.attnum
WHERE t.typtype <> 'd'
UNION ALL SELECT 'CHECK (' || pg_get_expr(conbin, conrelid) || ')'
FROM pg_constraint WHERE conrelid = {0} AND contype = 'c'
"""


@dataclass(frozen=True)
class Relation:
    """Table of a PostgreSQL catalogue: full name and columns."""

    schema: str
    name: str
    columns: tuple[Column, ...]


def described(session: Session, name: str | None) -> Relation:
    """Table of this name, or schema.name, from the catalogue, with the transaction's settings fixed."""
    path = session.settle()
    ((encoding,),) = session.rows("SELECT getdatabaseencoding()")
    if encoding != "UTF8":  # others have texts that cannot be put into UTF-8, and would stop a reading
        raise TableError(f"{session.address.shown} holds text as {encoding}; only databases in UTF8 can be read")
    found = [] if name is None else session.rows(_TABLES + _NAMED.format(_literal(name)))
    # As PostgreSQL looks for names: the first schema of the path; any other has to be named.
    of_path = [row for schema in path for row in found if row[0] == schema and row[1] == name]
    in_full = [row for row in found if f"{row[0]}.{row[1]}" == name]
    if not (of_path or in_full):
        raise TableError(f"{_asked(name)} in {session.address.shown}; it has {_there(session)}")
    schema, own, number, derived, allowed = (of_path or in_full)[0]
    session.table = f"{schema}.{own}"
    if not allowed:
        raise TableError(f"this account may not read {session.table}; ask for GRANT SELECT on it and USAGE on {schema}")
    columns = [
        Column(column, _type(kind, word, builtin, like_text), column, derived=derived or virtual)
        for column, virtual, kind, word, builtin, like_text in session.rows(_COLUMNS.format(int(number)))
    ]
    return Relation(schema, own, tuple(columns))


def _type(kind: str, word: str, builtin: bool, like_text: bool) -> str:
    """PostgreSQL type in sqlglot's spelling; one that cannot be read becomes `type NAME`, which sqlglot rejects."""
    if kind == "e":
        return "ENUM"
    if builtin:
        return TYPES.get(word, f"type {word}")
    return "TEXT" if like_text and kind == "b" else f"type {word}"  # such as citext


def _literal(name: str) -> str:
    if "\0" in name:
        raise TableError("no table of PostgreSQL has a NUL in its name; check --table")
    return exp.Literal.string(name).sql(dialect="postgres")


def _asked(name: str | None) -> str:
    return "no table was named (--table)" if name is None else f"there is no table {name!r}"


def _there(session: Session) -> str:
    names = [f"{row[0]}.{row[1]}" for row in session.rows(_TABLES + _ALL) if row[-1]]
    more = ", ..." if len(names) > SHOWN else ""
    return (", ".join(names[:SHOWN]) + more) if names else "no tables that this account may read"


class AdbcSession(Session):
    """Session on a clone of an ADBC connection, which leaves the given one alone."""

    def __init__(self, given: Any) -> None:
        super().__init__(Address("", "the server", ""))
        self._given = given

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Context of a read-only transaction in which all statements see the same rows."""
        import adbc_driver_manager as adbc

        try:
            connection = self._connection or self._cloned()
            self._execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")  # begins by itself
            yield self
        except adbc.Error as error:
            raise TableError(told(error, self.address.shown, self.table)) from None
        finally:
            with suppress(Exception):  # where it is gone there is nothing to end
                connection.rollback()

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Fetch all rows of a small result."""
        found = self._fetched(text)  # by place: columns without a name share one
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def try_out(self, text: str) -> pa.Table:
        """Empty result of a statement: it is planned, and no row is read."""
        return self._fetched(f"SELECT * FROM ({text}) AS answer LIMIT 0")

    def answer(self, text: str) -> pa.Table:
        """Run a statement and return its result."""
        return self._fetched(text)

    def _fetched(self, text: str) -> pa.Table:
        """Execute a statement in another thread, because the library turns a Ctrl-C in this one into an error."""
        with self._connection.cursor() as cursor, ThreadPoolExecutor(1) as thread:

            def work() -> pa.Table:
                cursor.execute(text)
                return cursor.fetch_arrow_table()

            asked = thread.submit(work)
            try:
                return asked.result()
            except KeyboardInterrupt:
                cursor.adbc_cancel()
                raise

    def _execute(self, text: str) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(text)

    def _cloned(self) -> Any:
        if int(self._given.adbc_get_info().get("vendor_version") or 0) < OLDEST:
            raise TableError("the server is older than version 12 of PostgreSQL, which is needed")
        self._connection = self._given.adbc_clone()
        self._close = weakref.finalize(self, self._connection.close)
        return self._connection


@dataclass(frozen=True)
class Postgres:
    """Engine over one PostgreSQL table, with a connection that is closed after its statement; creates nothing."""

    relation: Relation
    name: str | None
    session: Session = field(repr=False)
    dialect: str = "postgres"
    subqueries: bool = False
    others: tuple[Postgres, ...] = field(default=(), repr=False)

    def beside(self, others: Sequence[tuple[Postgres, Sequence[Column]]], renamed: Sequence[Column]) -> Postgres:
        """The engine with further tables of its database, which one statement may read."""
        for other, _ in others:
            other.close()
        return replace(self, others=tuple(other for other, _ in others))

    def within(self, first: Postgres) -> Postgres:
        """The engine in the session of another table of its database: both are read in one transaction."""
        if type(self.session) is not Session or self.session.address != first.session.address:
            return self
        self.session.close()
        first.session.keep()
        return replace(self, session=first.session)

    def called(self, number: int) -> Postgres:
        """The engine itself: tables have names of their own."""
        return self

    @property
    def in_full(self) -> str:
        """Name of the table with its schema."""
        return f"{self.relation.schema}.{self.relation.name}"

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the table."""
        return self.relation.columns

    def table(self) -> exp.Expression:
        """SQL of the table by its full name."""
        own, schema = (exp.to_identifier(name, quoted=True) for name in (self.relation.name, self.relation.schema))
        return exp.Table(this=own, db=schema)

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """SQL of a text as bytea, which has no collation."""
        return casts.bytes_of(text)

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """SQL of a cast guarded by tests of what would make it fail."""
        return casts.safe_cast(value, source, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """SQL of a value with NaN as NULL, in columns of floats and numerics."""
        if source.type == "DECIMAL":
            return casts.missing_if_decimal_nan(value)
        return missing_if_nan(value) if is_float(source, self.dialect) else value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """Refuse: only files state a format of dates."""
        raise TableError("a database has dates of its own; leave out how a file spells them")

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """SQL hash by PostgreSQL's hash of texts."""
        return casts.scramble(parts)

    def declarations(self) -> tuple[str, str]:
        """CREATE TABLE with ENUM types and CHECK constraints, from the catalogue, and its dialect; no row is read."""

        def work() -> str:
            number = _literal(self.table().sql(dialect=self.dialect)) + "::regclass"
            with self.session.reading() as session:
                parts = ", ".join(part for (part,) in session.rows(_DECLARED.format(number)))
            return f"CREATE TABLE declared ({parts})"

        return silenced(work, self._failed("cannot be looked up in the catalogue")), self.dialect

    def trial(self, schema: Schema, columns: Mapping[str, Column]) -> None:
        """Refuse a schema for which a value could stop the statement, before anything is spent."""
        casts.refuse_large_steps(schema)

    def check(self, statement: exp.Expression) -> None:
        """Have the server plan the statement, which shows missing functions and permissions."""
        silenced(
            lambda: self._in_transaction(statement, lambda session, text: session.try_out(text)),
            self._failed("cannot be read as it is asked"),
        )

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement and return its result."""

        def work() -> pa.Table:
            try:
                return self._in_transaction(statement, lambda session, text: session.answer(text))
            finally:
                self.session.close()

        return silenced(work, self._failed("could not be read to its end"))

    def close(self) -> None:
        """Close the connection, if it is still open."""
        self.session.close()

    def _in_transaction(self, statement: exp.Expression, work: Any) -> Any:
        text = self._spelled(statement)
        with self.session.reading() as session:
            for name, relation in [
                (self.name, self.relation),
                *((other.in_full, other.relation) for other in self.others),
            ]:
                if described(session, name) != relation:  # what one row means, and what a cast fears, would too
                    raise TableError(f"{session.table} has changed since its columns were looked at; begin again")
            return work(session, text)

    def _spelled(self, statement: exp.Expression) -> str:
        return casts.spelled(statement)

    def _failed(self, how: str) -> str:
        return f"{self.in_full} {how}; ask whoever runs the server to look at its log"


def open_postgres(table: object, name: str | None, engine: type[Postgres] | None = None) -> Postgres:
    """The engine for a URL of a server, a connection to one, or an engine of SQLAlchemy, and the name of a table."""

    def work() -> Postgres:
        session = AdbcSession(table) if is_adbc(table) else Session(address_of(table))
        with session.reading():
            return (engine or Postgres)(described(session, name), name, session)

    return silenced(work, "the server or its catalogue cannot be read; check the address")
