"""DB-API 2.0 (PEP 249) driver: a release as a read-only database, for pandas and similar tools.

>>> import sfumato.dbapi
>>> sfumato.dbapi.apilevel, sfumato.dbapi.paramstyle
('2.0', 'qmark')

Parameters (`?`) are found by the tokenizer that parses the statement afterwards, so that a question mark inside a text,
a name or a comment is not a parameter. A value becomes exactly one literal, whatever characters it holds.

Our errors are translated into the standard's, which all derive from SfumatoError, so that a program may catch either
base class.

    SfumatoError
    └── Error
        ├── InterfaceError
        └── DatabaseError
            ├── DataError, OperationalError, IntegrityError, InternalError
            ├── ProgrammingError       a query that names something unknown, or cannot be parsed
            └── NotSupportedError      SQL that a release cannot answer
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime, time
from decimal import Decimal
from os import PathLike
from types import TracebackType
from typing import Any, Self

from sfumato.answers.results import Result
from sfumato.errors import QueryError, ReleaseFileError, SfumatoError, UnsupportedSQL
from sfumato.releases.release import Release

apilevel = "2.0"
threadsafety = 1  # threads may share the module, and each has its own connection
paramstyle = "qmark"

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]


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

Date, Time, Timestamp, Binary = date, time, datetime, bytes


def DateFromTicks(ticks: float) -> date:  # noqa: N802 (the name is the standard's)
    return date.fromtimestamp(ticks)


def TimeFromTicks(ticks: float) -> time:  # noqa: N802
    return datetime.fromtimestamp(ticks).time()


def TimestampFromTicks(ticks: float) -> datetime:  # noqa: N802
    return datetime.fromtimestamp(ticks)


def bind(statement: str, parameters: Sequence[object]) -> str:
    """Replace each question mark of a statement by its value as a literal.

    >>> bind("SELECT COUNT(*) FROM t WHERE name = ? AND age > ? -- ?", ["O'Hara", 30])
    "SELECT COUNT(*) FROM t WHERE name =  'O''Hara'  AND age >  30  -- ?"
    """
    if isinstance(parameters, Mapping | str | bytes):
        raise ProgrammingError("parameters are a list, one value for each ? of the statement")
    values = list(parameters)
    places = _question_marks(statement) if values or "?" in statement else []
    if len(places) != len(values):
        raise ProgrammingError(f"the statement has {len(places)} question marks, and {len(values)} values were given")
    pieces, start = [], 0
    for place, value in zip(places, values, strict=True):
        pieces += [statement[start:place], f" {literal(value)} "]  # blanks, for what stands beside could join it
        start = place + 1
    return "".join([*pieces, statement[start:]])


def literal(value: object) -> str:
    """Render a value as an SQL literal."""
    if hasattr(value, "item") and not isinstance(value, str | bytes):  # a number of NumPy
        value = value.item()
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    if isinstance(value, datetime):
        value = value.isoformat(sep=" ")
    elif isinstance(value, date):
        value = value.isoformat()
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    kind = type(value).__name__
    raise DataError(f"a value of type {kind} cannot be bound; give a text, a number, a date or a boolean")


def _question_marks(statement: str) -> list[int]:
    import sqlglot
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(statement, read="duckdb")
    except SqlglotError:
        raise ProgrammingError("this SQL cannot be read: a quotation mark or a comment is not closed") from None
    return [token.start for token in tokens if token.token_type.name == "PLACEHOLDER" and token.text == "?"]


Row = tuple[Any, ...]


def connect(
    release: str | PathLike[str] | Release,
    *,
    confidence: float = 0.95,
    strict: bool = False,
    errors: bool = True,
    most_cells: int | None = None,
    require_signature: str | PathLike[str] | None = None,
) -> Connection:
    """Open a release file as a database that is only read.

    Every number `n` of an answer comes with the columns `n_stderr`, `n_low` and `n_high`.
    confidence: of the intervals. strict: refuse answers that depend on how rows are spread inside a bin. errors: False
    leaves those columns out, for tools that count columns; the cursor's `result` has them in either case. most_cells,
    require_signature: as `sfumato.open` takes them.
    """
    with as_standard_says():
        opened = release
        if not isinstance(opened, Release):
            opened = Release.load(str(release), most_cells=most_cells, require_signature=require_signature)
            opened = opened.refuse_unless_private()
        return Connection(opened, confidence, strict, errors)


class _Open:
    """Base class of objects that can be closed and raise an error when used afterwards."""

    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Connection(_Open):
    """A release opened to be read. There is nothing to commit."""

    def __init__(self, release: Release, confidence: float = 0.95, strict: bool = False, errors: bool = True) -> None:
        super().__init__()
        self.release, self.confidence, self.strict, self.errors = release, confidence, strict, errors

    def cursor(self) -> Cursor:
        if self.closed:
            raise InterfaceError("this connection is closed; open another with sfumato.connect(...)")
        return Cursor(self)

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Cursor:
        """A cursor with the answer to a statement."""
        return self.cursor().execute(statement, parameters)

    def commit(self) -> None:
        """Nothing is written, so that there is nothing to do."""

    def rollback(self) -> None:
        """Nothing is written, so that there is nothing to undo."""


class Cursor(_Open):
    """The rows of one answer. messages: its notes. result: the answer itself."""

    def __init__(self, connection: Connection) -> None:
        super().__init__()
        self.connection = connection
        self.arraysize = 1
        self.result: Result | None = None
        self.messages: list[tuple[type[Warning], str]] = []
        self._rows: Iterator[Row] = iter(())

    def execute(self, statement: str, parameters: Sequence[object] = ()) -> Cursor:
        """Answer a statement; each ? of it stands for a value of `parameters`."""
        connection = self.connection
        if self.closed or connection.closed:
            raise InterfaceError("this cursor is closed; open another with connection.cursor()")
        with as_standard_says():
            asked = bind(statement, parameters)
            result = connection.release.query(
                asked, confidence=connection.confidence, strict=connection.strict, errors=connection.errors
            )
        self.result = result
        self.messages = [(Warning, note) for note in result.remarks]
        self._rows = iter([tuple(record.values()) for record in result.typed_records()])
        return self

    def executemany(self, statement: str, many: Sequence[Sequence[object]]) -> None:
        raise NotSupportedError("executemany writes rows, and a release is only read; call execute for each")

    @property
    def description(self) -> list[tuple[str, str, None, None, None, None, bool]] | None:
        """Name and kind of each column of the answer; None before there is one."""
        if self.result is None:
            return None
        result = self.result
        first = next(iter(result.records()), {})
        keys = set(result.columns) - result.estimated
        kinds = {name: STRING for name in keys if not _is_number(first.get(name))}
        kinds |= dict.fromkeys(result.moments, DATETIME)
        return [(name, kinds.get(name, NUMBER), None, None, None, None, name not in keys) for name in result.headers]

    @property
    def rowcount(self) -> int:
        return -1 if self.result is None else len(self.result)

    def fetchone(self) -> Row | None:
        self._needs_answer()
        return next(self._rows, None)

    def fetchmany(self, size: int | None = None) -> list[Row]:
        wanted = self.arraysize if size is None else size
        return [row for _ in range(wanted) if (row := self.fetchone()) is not None]

    def fetchall(self) -> list[Row]:
        self._needs_answer()
        return list(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return self

    def __next__(self) -> Row:
        self._needs_answer()
        return next(self._rows)

    def setinputsizes(self, sizes: object) -> None:
        """Sizes make no difference."""

    def setoutputsize(self, size: int, column: int | None = None) -> None:
        """Sizes make no difference."""

    def _needs_answer(self) -> None:
        if self.closed or self.result is None:
            raise InterfaceError("there is no answer to fetch from; call execute with a SELECT first")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
