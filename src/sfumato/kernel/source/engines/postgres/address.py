"""Where a server is and who logs in. No password is shown, kept in a repr or passed on, and no URL is quoted."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import field
from typing import Any

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.source.engines.alchemy import alchemy_url
from sfumato.version import install_command

_PART = r"(?:[A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})"
_URL = re.compile(
    rf"postgres(?:ql)?://(?:(?P<user>{_PART}*)(?P<password>:{_PART}*)?@)?(?P<host>(?:{_PART}|[:\[\]])*)"
    rf"(?:/(?P<database>{_PART}*))?(?P<options>\?(?:{_PART}|[/:@?])*)?"
)


@dataclass(frozen=True)
class Address:
    """conninfo: what libpq is given. shown: what a message may say. place: under which a keyring has the password."""

    conninfo: str = field(repr=False)
    shown: str
    place: str


def is_postgres(table: object) -> bool:
    """Whether a table is the URL of a server, or a connection to one."""
    if isinstance(table, str):
        return table.lower().startswith(("postgresql:", "postgres:"))
    if (url := alchemy_url(table)) is not None:
        return str(url.drivername).startswith("postgresql")
    kind = type(table).__module__.partition(".")[0]
    return kind in ("psycopg", "psycopg2") or is_adbc(table)


def is_adbc(table: Any) -> bool:
    """Whether a table is a connection of ADBC to PostgreSQL."""
    if not type(table).__module__.startswith("adbc_driver_manager."):
        return False
    with suppress(Exception):  # one that is closed is none
        return bool(table.adbc_get_info().get("vendor_name") == "PostgreSQL")
    return False


def address_of(table: Any) -> Address:
    """The server of a URL, a connection of psycopg or psycopg2, or an engine of SQLAlchemy.

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
    """The library that speaks with servers."""
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
