"""One connection to a server: read-only, with everything settled that could change what a value means."""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import TableError
from sfumato.kernel.source.engines.postgres.address import Address, driver
from sfumato.kernel.source.engines.postgres.failures import told, told_of_connecting

if TYPE_CHECKING:
    import pyarrow as pa

OLDEST = 120000  # version 12
SETTINGS = {
    "search_path": "pg_catalog",  # no function or operator of anybody else's
    "TimeZone": "UTC",  # the day of a time must not depend on the machine
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "extra_float_digits": "1",
    "bytea_output": "hex",
    "standard_conforming_strings": "on",
    "client_min_messages": "error",  # for privacy: a notice can quote a value
}
_WIDTHS = {23: 4, 20: 8}  # the bytes of an int4 and an int8, by the number of the type
_HEADER, _TRAILER, _TOGETHER = 19, 2, 65_536


class Session:
    """A connection that is opened when it is needed and closed after the statement."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.table = "the table"  # what a message calls it, once it is found
        self._connection: Any = None
        self._close: Callable[[], object] = _nothing_to_close

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A transaction in which nothing can be written and all statements see the same rows."""
        psycopg = driver()
        connection = self._connection or self._open(psycopg)
        try:
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield self
        except psycopg.Error as error:
            raise TableError(told(error, self.address.shown, self.table)) from None
        finally:
            with suppress(Exception):  # where it is gone there is nothing to end
                connection.execute("ROLLBACK")

    def settle(self) -> list[str]:
        """Fix what could change a meaning, for this transaction; where names were looked for before that."""
        ((path,),) = self.rows("SELECT pg_catalog.current_schemas(true)")
        each = ", ".join(f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in SETTINGS.items())
        self.rows(f"SELECT {each}")
        return list(path)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """All rows of a small result."""
        return list(self._connection.execute(text).fetchall())

    def try_out(self, text: str) -> Any:
        """Names and type numbers of a statement's columns; it is planned, and no row is read."""
        cursor = self._connection.execute(f"SELECT * FROM ({text}) AS answer LIMIT 0")
        return [(column.name, column.type_code) for column in cursor.description]

    def answer(self, text: str) -> pa.Table:
        """A statement's result: whole numbers as they come from the server, in batches; or a few other values."""
        import pyarrow as pa

        columns: list[tuple[str, int]] = self.try_out(text)
        if any(kind not in _WIDTHS for _, kind in columns):
            names = [name for name, _ in columns]
            return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in self.rows(text)])
        widths = [_WIDTHS[kind] for _, kind in columns]
        schema = pa.schema([pa.field(name, pa.int32() if _WIDTHS[kind] == 4 else pa.int64()) for name, kind in columns])
        batches = []
        with self._connection.cursor() as cursor, cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT BINARY)") as copy:
            for numbers in _whole_numbers(copy, widths):
                batches.append(pa.record_batch([pa.array(part) for part in numbers], schema=schema))
        return pa.Table.from_batches(batches, schema=schema)

    def close(self) -> None:
        """Close the connection, if it is open."""
        self._close()
        self._close, self._connection = _nothing_to_close, None

    def _open(self, psycopg: Any) -> Any:
        how: dict[str, Any] = {"autocommit": True, "prepare_threshold": None, "fallback_application_name": "sfumato"}
        if "connect_timeout" not in self.address.conninfo and "PGCONNECT_TIMEOUT" not in os.environ:
            how["connect_timeout"] = 20
        try:
            connection = psycopg.connect(self.address.conninfo, **how)
        except psycopg.Error as error:
            secret = _from_keyring(self.address.place) if _needs_password(error) else None
            if secret is None:
                raise TableError(told_of_connecting(error, self.address.shown)) from None
            connection = None
        if connection is None:
            try:
                connection = psycopg.connect(self.address.conninfo, password=secret, **how)
            except psycopg.Error as error:
                raise TableError(told_of_connecting(error, self.address.shown)) from None
        self._close = weakref.finalize(self, connection.close)
        self._connection = connection
        if connection.info.server_version < OLDEST:
            raise TableError(f"{self.address.shown} is older than version 12 of PostgreSQL, which is needed")
        connection.execute("SET default_transaction_read_only = on")
        with suppress(psycopg.Error):  # newer servers stop by themselves when nobody listens any more
            connection.execute("SET client_connection_check_interval = '10s'")
        return connection


def _whole_numbers(copy: Any, widths: list[int]) -> Iterator[list[Any]]:
    """Columns of whole numbers, a batch at a time, from rows in PostgreSQL's binary form."""
    parts = [("fields", ">i2")]
    for place, width in enumerate(widths):
        parts += [(f"width{place}", ">i4"), (f"value{place}", f">i{width}")]
    form = np.dtype(parts)
    pieces, rest, begun = iter(copy), b"", False
    while some := b"".join(islice(pieces, _TOGETHER)):
        rest += some if begun else some[_HEADER:]
        begun = True
        whole = len(rest) // form.itemsize
        rows, rest = np.frombuffer(rest, form, whole), rest[whole * form.itemsize :]
        right = bool((rows["fields"] == len(widths)).all())
        right &= all(bool((rows[f"width{place}"] == width).all()) for place, width in enumerate(widths))
        if not right:  # NULL, where none can be
            raise TypeError
        yield [rows[f"value{place}"].astype(f"i{width}") for place, width in enumerate(widths)]
    if rest != b"\xff" * _TRAILER:
        raise TypeError


def _needs_password(error: Any) -> bool:
    state = getattr(error, "pgconn", None)
    return state is not None and bool(state.needs_password)


def _from_keyring(place: str) -> str | None:
    """The password that the user's keyring has, if there is a keyring."""
    with suppress(Exception):  # whatever is wrong with a keyring, the server's question remains
        import keyring

        found = keyring.get_password("sfumato", place)
        return None if found is None else str(found)
    return None


def _nothing_to_close() -> None:
    """No connection is open."""
