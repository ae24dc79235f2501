"""PostgreSQL through a connection of ADBC: what comes back is Arrow already."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sfumato.errors import TableError
from sfumato.kernel.source.engines.postgres.address import Address
from sfumato.kernel.source.engines.postgres.failures import told
from sfumato.kernel.source.engines.postgres.session import OLDEST, Session

if TYPE_CHECKING:
    import pyarrow as pa


class AdbcSession(Session):
    """A clone of a connection: another one to the same place, so that what the given one is doing is left alone."""

    def __init__(self, given: Any) -> None:
        super().__init__(Address("", "the server", ""))
        self._given = given

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction in which nothing can be written and all statements see the same rows."""
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
        """All rows of a small result."""
        found = self._fetched(text)  # by place: columns without a name share one
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def try_out(self, text: str) -> pa.Table:
        """An empty result; the statement is planned, and no row is read."""
        return self._fetched(f"SELECT * FROM ({text}) AS answer LIMIT 0")

    def answer(self, text: str) -> pa.Table:
        """A statement's result."""
        return self._fetched(text)

    def _fetched(self, text: str) -> pa.Table:
        """Asked for in a thread of its own: in this one the library would make an error of a Ctrl-C."""
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
