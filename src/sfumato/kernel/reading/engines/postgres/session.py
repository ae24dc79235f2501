"""A read-only session on a PostgreSQL server: address, login, settings that fix the meaning of values, and errors.

No password is shown, kept in a repr or passed on, and no URL is quoted. A server's error message can quote a value or
a password, so errors are reported in the kernel's own words.
"""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import field
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import alchemy_url
from sfumato.version import install_command

if TYPE_CHECKING:
    import pyarrow as pa

_PART = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_URL = re.compile(
    rf"postgres(?:ql)?://(?:(?P<user>{_PART}*)(?P<password>:{_PART}*)?@)?(?P<host>(?:{_PART}|[:\[\]])*)"
    rf"(?:/(?P<database>{_PART}*))?(?P<options>\?(?:{_PART}|[/:@?])*)?"
)


@dataclass(frozen=True)
class Address:
    """A server and login. conninfo: for libpq. shown: for messages. place: the keyring's name for the password."""

    conninfo: str = field(repr=False)
    shown: str
    place: str


def address_of(table: Any) -> Address:
    """Address of a URL, of a psycopg or psycopg2 connection, or of an engine of SQLAlchemy.

    A connection is not used itself, because it may be in the middle of something: another one is opened to the same
    place, as the same user.
    """
    psycopg = driver()
    if isinstance(table, str):
        return _of_url(table)
    if (url := alchemy_url(table)) is not None:
        stated = {"host": url.host, "port": url.port, "dbname": url.database, "user": url.username}
        options = {key: value for key, value in url.query.items() if isinstance(value, str)}
        facts = {key: value for key, value in {**stated, **options}.items() if value is not None}
        secret = None if url.password is None else str(url.password)
    elif type(table).__module__.startswith("psycopg2"):
        facts, secret = dict(table.get_dsn_parameters()), table.info.password
    else:
        facts, secret = table.info.get_parameters(), table.info.password
    conninfo = psycopg.conninfo.make_conninfo(**facts, **({"password": secret} if secret else {}))
    shown = f"{facts.get('host', '')}/{facts.get('dbname', '')}"
    return Address(conninfo, f"postgresql://{shown}", f"postgresql://{facts.get('user', '')}@{shown}")


def driver() -> Any:
    """Import psycopg, or raise a TableError with advice."""
    with suppress(ImportError):  # also raised where the library is there and libpq is not
        import psycopg

        return psycopg
    raise TableError(f"PostgreSQL needs psycopg; {install_command('postgres')}")


def _of_url(url: str) -> Address:
    parts = _URL.fullmatch(url)
    if parts is None:
        # For privacy: not quoted, because what is taken for a host can be the end of a password.
        raise TableError(
            "a server is written postgresql://USER@HOST:PORT/DATABASE, with %40 for @ and %2F for / inside a part; "
            "a password is better kept in ~/.pgpass"
        )
    host, database, user = parts["host"] or "", parts["database"] or "", parts["user"] or ""
    shown = f"{host}/{database}"
    return Address(url, f"postgresql://{shown}", f"postgresql://{user}@{shown}" if user else f"postgresql://{shown}")


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
    "idle_in_transaction_session_timeout": "0",  # it may wait while a table that was read before is measured
}
_WIDTHS = {23: 4, 20: 8}  # the bytes of an int4 and an int8, by the number of the type
_HEADER, _TRAILER, _TOGETHER = 19, 2, 65_536


class Session:
    """Connection that is opened on first use and closed after the statement."""

    def __init__(self, address: Address) -> None:
        self.address = address
        self.table = "the table"  # what a message calls it, once it is found
        self._connection: Any = None
        self._close: Callable[[], object] = _nothing_to_close
        self._kept = False
        self._path: list[str] | None = None  # of the transaction that is kept, once it has begun

    def keep(self) -> None:
        """Read all that follows in one transaction, which ends with the session: all statements see one state."""
        self._kept = True

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """Context of a read-only transaction in which all statements see the same rows."""
        psycopg = driver()
        connection = self._connection or self._open(psycopg)
        try:
            if self._path is None:
                connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield self
        except psycopg.Error as error:
            raise TableError(told(error, self.address.shown, self.table)) from None
        finally:
            if not self._kept:
                with suppress(Exception):  # where it is gone there is nothing to end
                    connection.execute("ROLLBACK")

    def settle(self) -> list[str]:
        """Fix all settings that affect a value's meaning, for this transaction; return the earlier search path."""
        if self._path is not None:
            return self._path
        ((path,),) = self.rows("SELECT pg_catalog.current_schemas(true)")
        each = ", ".join(f"pg_catalog.set_config('{name}', '{value}', true)" for name, value in SETTINGS.items())
        self.rows(f"SELECT {each}")
        if self._kept:
            self._path = list(path)
        return list(path)

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        """Fetch all rows of a small result."""
        return list(self._connection.execute(text).fetchall())

    def try_out(self, text: str) -> Any:
        """Names and type numbers of a statement's result columns; it is planned, and no row is read."""
        cursor = self._connection.execute(f"SELECT * FROM ({text}) AS answer LIMIT 0")
        return [(column.name, column.type_code) for column in cursor.description]

    def answer(self, text: str) -> pa.Table:
        """Result of a statement: integers by binary COPY in batches, other types row by row."""
        import pyarrow as pa

        columns: list[tuple[str, int]] = self.try_out(text)
        if any(kind not in _WIDTHS for _, kind in columns):
            each = list(zip(*self.rows(text), strict=True)) or [()] * len(columns)
            kinds = {4: pa.int32(), 8: pa.int64()}
            arrays = [
                pa.array(values, kinds.get(_WIDTHS.get(kind, 0)))
                for (_, kind), values in zip(columns, each, strict=True)
            ]
            return pa.table(arrays, names=[name for name, _ in columns])
        widths = [_WIDTHS[kind] for _, kind in columns]
        schema = pa.schema([pa.field(name, pa.int32() if _WIDTHS[kind] == 4 else pa.int64()) for name, kind in columns])
        batches = []
        with self._connection.cursor() as cursor, cursor.copy(f"COPY ({text}) TO STDOUT (FORMAT BINARY)") as copy:
            for numbers in _whole_numbers(copy, widths):
                batches.append(pa.record_batch([pa.array(part) for part in numbers], schema=schema))
        return pa.Table.from_batches(batches, schema=schema)

    def close(self) -> None:
        """Close the connection, if it is open; one that is kept is closed when nobody needs the session any more."""
        if self._kept:
            return
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
    """Decode PostgreSQL's binary COPY of integers into columns, a batch at a time."""
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
    """Password from the user's keyring; None if there is none."""
    with suppress(Exception):  # whatever is wrong with a keyring, the server's question remains
        import keyring

        found = keyring.get_password("sfumato", place)
        return None if found is None else str(found)
    return None


def _nothing_to_close() -> None:
    """Do nothing: the close function while no connection is open."""


_CODES = {
    "42501": "{account} may not read {table}; ask for GRANT SELECT on it, nothing more is needed",
    "42P01": "{table} is not there any more; look at the database",
    "57014": "the server stopped reading {table}, by its statement_timeout or by hand; raise the timeout or ask why",
    "55P03": "{table} is locked by somebody else; try again later",
    "53100": "the server ran out of disk space while it read {table}",
    "53200": "the server ran out of memory while it read {table}",
    "53400": "the server's limit for temporary files (temp_file_limit) is too low to read {table}; ask for more",
    "53300": "{server} has no connection left; try again later",
    "22021": "{table} could not be read: its text does not fit the database's encoding",
}
_REFUSED = (
    (("database", "does not exist"), "has no such database; check its name"),
    (("role", "does not exist"), "knows no such user; check the name before the @"),
    (("pg_hba",), "does not let this user in from here, or not so; ask about pg_hba.conf and sslmode"),
    (("ssl",), "does not agree about encryption; ask about sslmode"),
    (("fatal",), "refuses the connection; ask whoever runs it"),
)
_LOST = "the connection to {server} was lost; check the server and the network"
_OTHERWISE = "{table} could not be read to its end; ask whoever runs the server to look at its log"


def told(error: Any, server: str, table: str) -> str:
    """One-line message for an error of psycopg; table: its name in messages."""
    code = getattr(error, "sqlstate", None) or ""
    connection = getattr(error, "connection", None)
    lost = code.startswith(("08", "57P")) or (connection is not None and connection.broken)
    text = _LOST if lost or (not code and _is_operational(error)) else _CODES.get(code, _OTHERWISE)
    return text.format(server=server, table=table, account="this account")


def told_of_connecting(error: Any, server: str) -> str:
    """One-line message for a failed connection; the server's own text may quote a password and is not passed on."""
    said, state = str(error).lower(), getattr(error, "pgconn", None)
    if state is not None and state.needs_password:
        return f"{server} asks for a password; put it into ~/.pgpass, PGPASSWORD, a service file or a keyring"
    if state is not None and state.used_password and "password" in said:
        return f"{server} refuses this user or password; check ~/.pgpass, PGPASSWORD or the keyring"
    for words, told_so in _REFUSED:
        if all(word in said for word in words):
            return f"{server} {told_so}"
    return f"no server answers at {server}; check the address, the network and that it runs"


def _is_operational(error: Any) -> bool:
    return type(error).__name__ in ("OperationalError", "InterfaceError")
