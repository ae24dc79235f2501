"""A connection that was given, for as long as one thing is asked: settled for it, and then as it was before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.kernel.source.engines.alchemy import adbc_vendor, alchemy_url
from sfumato.kernel.source.engines.other.answers import as_arrow, whole_numbers
from sfumato.kernel.source.engines.other.failures import told
from sfumato.kernel.source.engines.other.words import Words

if TYPE_CHECKING:
    import pyarrow as pa


class Connected:
    """A connection inside a reading."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """All rows of a small result."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(text)
            return [tuple(row) for row in cursor.fetchall()]
        finally:
            _closed(cursor)

    def say(self, text: str) -> None:
        """Run something that answers nothing."""
        cursor = self._connection.cursor()
        try:
            cursor.execute(text)
        finally:
            _closed(cursor)

    def answer(self, text: str) -> pa.Table:
        """A statement's result."""
        cursor = self._connection.cursor()
        try:
            if not hasattr(cursor, "adbc_cancel"):
                cursor.execute(text)
                return as_arrow(cursor)
            return whole_numbers(_stoppable(cursor, text))
        finally:
            _closed(cursor)


def _stoppable(cursor: Any, text: str) -> pa.Table:
    """Asked for in a thread of its own: in this one the library would make an error of a Ctrl-C."""

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
    """What was given: an engine of SQLAlchemy, or an address that it opens, or a connection."""

    def __init__(self, given: Any, words: Words) -> None:
        self.words = words
        self.table = "the table"  # what a message calls it, once it is found
        self._given, self._own = given, None
        if isinstance(given, str):
            self._given = self._own = _opened(given)

    @contextmanager
    def reading(self) -> Iterator[Connected]:
        """A connection that is settled for a statement. Nothing that it raises quotes what a server said."""
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
        """Let go of what was opened here; what was given stays open."""
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
        """How to end a statement on the server from another connection, where one can be had."""
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
