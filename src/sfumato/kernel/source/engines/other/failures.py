"""What went wrong on a server, in the kernel's own words: a server's text can quote a value or a password."""

from __future__ import annotations

import re
from typing import Any

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
    """One line about an error of a connection; table: what a message calls it."""
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
