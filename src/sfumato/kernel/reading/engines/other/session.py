"""A session on a connection that the caller passed: settings for one reading, results as Arrow, errors in our words.

The connection is set up for the statement and afterwards left as it was. ADBC returns Arrow; rows of DB-API are
converted in batches. A server's error message can quote a value or a password, so none is passed on.

The engine over a table behind a connection of DB-API or ADBC, in the SQL that the connection speaks.

A dialect (`Words`) says how; it is tried on constants before anything is reserved (`trial.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, adbc_vendor, alchemy_url, silenced
from sfumato.kernel.reading.engines.other.mysql import Words

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.schema import Schema

CHUNK = 50_000  # rows that are turned into Arrow at a time


def as_arrow(cursor: Any) -> pa.Table:
    """Fetch the rows of an executed cursor as Arrow."""
    import pyarrow as pa

    names = [part[0] for part in cursor.description]
    tables = [_packed(names, [])]
    while rows := cursor.fetchmany(CHUNK):
        tables.append(_packed(names, rows))
    texts = {name for table in tables for name in names if str(table.schema.field(name).type) == "string"}
    if texts:
        tables = [table for table in tables if table.num_rows] or tables
    return _placed(pa.concat_tables(tables))


def whole_numbers(found: pa.Table) -> pa.Table:
    """Cast a driver's integer columns to the types that the kernel expects."""
    import pyarrow as pa

    columns = [
        column if pa.types.is_string(column.type) or pa.types.is_binary(column.type) else column.cast(_kind(name))
        for name, column in zip(found.column_names, found.columns, strict=True)
    ]
    return _placed(pa.table(columns, names=found.column_names))


def _placed(found: pa.Table) -> pa.Table:
    """Drop rows without a cell: a value that the server cannot compute with must not stop a reading."""
    import pyarrow.compute as pc

    for name in found.column_names:
        if name == "cell" or name.startswith("word"):
            found = found.filter(pc.is_valid(found.column(name)))
    return found


def _packed(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> pa.Table:
    import pyarrow as pa

    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table([_column(name, values) for name, values in zip(names, columns, strict=True)], names=list(names))


def _column(name: str, values: Sequence[Any]) -> pa.Array:
    import pyarrow as pa

    if any(isinstance(value, str | bytes) for value in values):
        return pa.array([value.decode() if isinstance(value, bytes) else value for value in values], pa.string())
    return pa.array([None if value is None else _whole(value) for value in values], _kind(name))


def _whole(value: Any) -> int:
    if int(value) != value:
        raise TypeError
    return int(value)


def _kind(name: str) -> Any:
    import pyarrow as pa

    return pa.int32() if name.startswith("word") else pa.int64()


class Connected:
    """Open connection, for the statements of one reading."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Fetch all rows of a small result."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(text)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            _closed(cursor)

    def say(self, text: str) -> None:
        """Execute a statement without a result."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(text)
        finally:
            _closed(cursor)

    def answer(self, text: str) -> pa.Table:
        """Execute a statement and fetch its result."""
        cursor = self._connection.cursor()
        try:
            if not hasattr(cursor, "adbc_cancel"):
                cursor.execute(text)
                return as_arrow(cursor)
            return whole_numbers(_stoppable(cursor, text))
        finally:
            _closed(cursor)


def _stoppable(cursor: Any, text: str) -> pa.Table:
    """Execute a statement in another thread, because the library turns a Ctrl-C in this one into an error."""

    def work() -> pa.Table:
        cursor.execute(text)
        return cursor.fetch_arrow_table()

    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(work)
        try:
            return asked.result()
        except KeyboardInterrupt:
            cursor.adbc_cancel()
            raise


class Session:
    """Session on the caller's connection: an engine of SQLAlchemy, an address that it opens, or an open connection."""

    def __init__(self, given: Any, words: Words) -> None:
        self.words = words
        self.table = "the table"  # what a message calls it, once it is found
        self._given, self._own = given, None
        if isinstance(given, str):
            self._given = self._own = _opened(given)

    @contextmanager
    def reading(self) -> Iterator[Connected]:
        """Context of a connection with the statement's settings; its errors quote nothing that the server said."""
        try:
            with self._connection() as connection:
                inside, settled = Connected(connection), list[str]()
                stop = self._stopping(inside)
                try:
                    for setting, before in self.words.settings:
                        inside.say(setting)
                        settled.append(before)
                    yield inside
                except BaseException:
                    stop()
                    raise
                finally:
                    for before in settled:
                        with suppress(Exception):  # where it is gone there is nothing to put back
                            inside.say(before)
        except (TableError, KeyboardInterrupt):
            raise
        except Exception as error:
            said = told(error, self.table)
        else:
            return
        raise TableError(said)  # outside: for privacy, nothing of the error itself may be kept

    def close(self) -> None:
        """Close what was opened here; a connection that was passed in stays open."""
        if self._own is not None:
            self._own.dispose()

    @contextmanager
    def _connection(self) -> Iterator[Any]:
        if (engine := self._alchemy) is not None:
            raw = engine.raw_connection()
            try:
                yield raw
            except KeyboardInterrupt:
                raw.invalidate()  # in the middle of something
                raise
            finally:
                raw.close()
        elif (by_adbc := adbc_vendor(self._given) is not None) or type(self._given).__name__ == "DuckDBPyConnection":
            # Another one to the same place, so that what the given one is doing is left alone.
            own = self._given.adbc_clone() if by_adbc else self._given.cursor()
            try:
                yield own
            finally:
                own.close()
        else:
            yield self._given

    @property
    def _alchemy(self) -> Any | None:
        return getattr(self._given, "engine", self._given) if alchemy_url(self._given) is not None else None

    def _stopping(self, inside: Connected) -> Callable[[], None]:
        """Function that cancels the running statement from another connection, where one can be opened."""
        engine, asked = self._alchemy, self.words.who
        if engine is None or asked is None:
            return lambda: None
        ((who,),) = inside.rows(asked)

        def stop() -> None:
            with suppress(Exception):
                raw = engine.raw_connection()
                try:
                    Connected(raw).say(self.words.end.format(int(who)))
                finally:
                    raw.close()

        return stop


def _opened(address: str) -> Any:
    try:
        import sqlalchemy
    except ImportError:
        raise TableError(
            "this address needs SQLAlchemy and a driver; pip install sqlalchemy and, for mysql+pymysql://, pymysql"
        ) from None
    try:
        return sqlalchemy.create_engine(address)
    except ImportError:
        said = "the driver of this address is not installed; pip install it, or name another, as in mysql+pymysql://"
    except Exception:
        said = "this address cannot be read; write it as mysql+pymysql://USER@HOST:PORT/DATABASE"
    raise TableError(said)  # outside: for privacy, the error quotes the address and its password


def _closed(cursor: Any) -> None:
    with suppress(Exception):
        cursor.close()


_DENIED = "this account may not read {table}; ask for SELECT on it, nothing more is needed"
_LOST = "the connection to the database was lost, or there is none; check the server and the network"
_LOGIN = "the database refuses this user or password; check both"
_STOPPED = "the server stopped reading {table}, by a time limit or by hand; raise the limit or ask why"
_DATABASE = "there is no such database, or this account may not use it; check its name"
_GONE = "{table} is not there any more; look at the database"
_OTHERWISE = "{table} cannot be read as it is asked; ask whoever runs the database to look at its log"
# Numbers of errors of MySQL and MariaDB, and of ClickHouse above 100000.
_CODES = {
    **dict.fromkeys((1142, 1143, 1370, 100497, 100291), _DENIED),
    **dict.fromkeys((2002, 2003, 2005, 2006, 2013, 2055, 100209, 100210, 100279), _LOST),
    **dict.fromkeys((1045, 1698, 100193, 100194, 100516), _LOGIN),
    **dict.fromkeys((1317, 1969, 3024, 1205, 100159, 100394), _STOPPED),
    **dict.fromkeys((1044, 1049, 100081), _DATABASE),
    **dict.fromkeys((1146, 100060), _GONE),
}


def told(error: Any, table: str) -> str:
    """One-line message for an error of a connection; table: its name in messages."""
    for each in _chain(error):
        if (line := _CODES.get(_code(each))) is not None:
            return line.format(table=table)
    names = {part.__name__ for each in _chain(error) for part in type(each).__mro__}
    lost = names & {"ConnectionError", "InterfaceError", "TimeoutError"}
    return (_LOST if lost else _OTHERWISE).format(table=table)


def _chain(error: Any) -> list[Any]:
    """An error, and the one that SQLAlchemy or a driver made it from."""
    found = [error]
    for more in (getattr(error, "orig", None), getattr(error, "__cause__", None)):
        if more is not None and more is not error:
            found.append(more)
    return found


def _code(error: Any) -> int:
    first = error.args[0] if getattr(error, "args", ()) else None
    if isinstance(first, int):
        return first
    said = re.match(r"Code: (\d+)", str(error))
    return 100_000 + int(said[1]) if said else 0


# -- engine


@dataclass(frozen=True)
class Other:
    """Engine over one table behind a connection, which is left as it was; nothing is created on the server."""

    words: Words = field(repr=False)
    session: Session = field(repr=False)
    source: exp.Expression = field(repr=False)
    columns: tuple[Column, ...]

    @property
    def dialect(self) -> str:
        """SQL dialect, as sqlglot names it."""
        return self.words.dialect

    @property
    def subqueries(self) -> bool:
        """Whether the dialect looks up lists by subqueries (`Words.subqueries`)."""
        return self.words.subqueries

    def table(self) -> exp.Expression:
        """SQL of the table by its full name."""
        return self.source.copy()

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """SQL bytes of a text, by the dialect."""
        return self.words.bytes_of(text)

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """SQL cast that yields NULL on failure, by the dialect."""
        return self.words.safe_cast(value, source, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """The value itself: `trial.py` refuses floats as privacy unit, so no NaN can occur."""
        return value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """Refuse: only files state a format of dates."""
        raise TableError("a database has dates of its own; leave out how a file spells them")

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """SQL hash of some values, by the dialect."""
        return self.words.scramble(parts)

    def trial(self, schema: Schema, columns: Mapping[str, Column]) -> None:
        """Refuse a server that evaluates the statement on constants differently from DuckDB."""
        from sfumato.kernel.reading.engines.other.trial import tried

        tried(schema, self, columns)

    def check(self, statement: exp.Expression) -> None:
        """Have the server plan the statement, which reads no row."""
        silenced(lambda: self._planned(statement), f"{self.session.table} cannot be read as it is asked")

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement and return its result."""
        failed = f"{self.session.table} could not be read to its end; ask whoever runs the database"
        return silenced(lambda: self._answered(statement), failed)

    def over(self, constants: exp.Expression) -> Other:
        """Same engine over the constants of a trial in place of the table."""
        return replace(self, source=constants)

    def close(self) -> None:
        """Close what was opened for this table."""
        self.session.close()

    def _planned(self, statement: exp.Expression) -> None:
        text = self.words.planned(self.words.spelled(statement))
        with self.session.reading() as inside:
            inside.rows(text)

    def _answered(self, statement: exp.Expression) -> pa.Table:
        text = self.words.spelled(statement)
        with self.session.reading() as inside:
            return inside.answer(text)


def open_other(table: Any, name: str | None, dialect: str | None, engine: type[Other] | None = None) -> Other:
    """The engine for a connection or an engine of SQLAlchemy, and the name of a table.

    dialect: the SQL that it speaks, where that cannot be told from the connection. engine: the tests' broken ones.
    """

    def work() -> Other:
        from sfumato.kernel.reading.engines.other.trial import words_of

        words = words_of(table, dialect)
        session = Session(table, words)
        with session.reading() as inside:
            words.must_serve(inside)
            source, columns = words.found(inside, name)
        session.table = f"the table {name}"
        return (engine or Other)(words, session, source, columns)

    return silenced(work, "the database or its catalogue cannot be read; check the connection")
