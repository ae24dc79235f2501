"""What went wrong on a server, in the kernel's own words: a server's text can quote a value or a password."""

from __future__ import annotations

from typing import Any

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
    """One line about an error of psycopg; table: what a message calls it."""
    code = getattr(error, "sqlstate", None) or ""
    connection = getattr(error, "connection", None)
    lost = code.startswith(("08", "57P")) or (connection is not None and connection.broken)
    text = _LOST if lost or (not code and _is_operational(error)) else _CODES.get(code, _OTHERWISE)
    return text.format(server=server, table=table, account="this account")


def told_of_connecting(error: Any, server: str) -> str:
    """One line about why there is no connection; none of a row, but perhaps of a password, is in the server's text."""
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
