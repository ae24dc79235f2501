"""DB-API exceptions, type objects and value constructors (PEP 249).

Our errors are translated into these, which all derive from SfumatoError, so that a program may catch either base class.

    SfumatoError
    └── Error
        ├── InterfaceError
        └── DatabaseError
            ├── DataError, OperationalError, IntegrityError, InternalError
            ├── ProgrammingError       a query that names something unknown, or cannot be parsed
            └── NotSupportedError      SQL that a release cannot answer
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager

from sfumato.errors import QueryError, ReleaseFileError, SfumatoError, UnsupportedSQL


class Warning(UserWarning):  # noqa: A001 (the name is the standard's)
    """A note on an answer: the class of a cursor's messages."""


class Error(SfumatoError):
    """Any error of this module."""


class InterfaceError(Error):
    """Misuse of the interface, such as use after it was closed."""


class DatabaseError(Error):
    """An error about the release or the query."""


class DataError(DatabaseError):
    """A value that cannot be bound."""


class OperationalError(DatabaseError):
    """The release cannot be opened."""


class IntegrityError(DatabaseError):
    """Never raised: nothing is written."""


class InternalError(DatabaseError):
    """Never raised."""


class ProgrammingError(DatabaseError):
    """A query that cannot be read, or names something unknown."""


class NotSupportedError(DatabaseError):
    """SQL that a release cannot answer."""


@contextmanager
def as_standard_says() -> Iterator[None]:
    """Translate our errors into the DB-API's."""
    try:
        yield
    except Error:
        raise
    except UnsupportedSQL as problem:
        raise NotSupportedError(str(problem)) from problem
    except QueryError as problem:
        raise ProgrammingError(str(problem)) from problem
    except ReleaseFileError as problem:
        raise OperationalError(str(problem)) from problem
    except SfumatoError as problem:
        raise DatabaseError(str(problem)) from problem


STRING, BINARY, NUMBER, DATETIME, ROWID = "STRING", "BINARY", "NUMBER", "DATETIME", "ROWID"

Date, Time, Timestamp, Binary = datetime.date, datetime.time, datetime.datetime, bytes


def DateFromTicks(ticks: float) -> datetime.date:  # noqa: N802 (the name is the standard's)
    return datetime.date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> datetime.time:  # noqa: N802
    return datetime.datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime.datetime:  # noqa: N802
    return datetime.datetime.fromtimestamp(ticks)
