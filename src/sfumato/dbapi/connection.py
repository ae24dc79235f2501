"""Connections and cursors: a release opened to be read, and the rows of one answer after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from os import PathLike
from types import TracebackType
from typing import Any, Self

from sfumato.answers.result import Result
from sfumato.dbapi.failures import InterfaceError, NotSupportedError, Warning, as_standard_says  # noqa: A004
from sfumato.dbapi.parameters import bind
from sfumato.dbapi.types import DATETIME, NUMBER, STRING
from sfumato.releases.release import Release

Row = tuple[Any, ...]


def connect(
    release: str | PathLike[str] | Release,
    *,
    confidence: float = 0.95,
    strict: bool = False,
    most_cells: int | None = None,
    require_signature: str | PathLike[str] | None = None,
) -> Connection:
    """Open a release file as a database that is only read.

    Every number `n` of an answer comes with the columns `n_stderr`, `n_low` and `n_high`.
    confidence: of the intervals. strict: refuse answers that depend on how rows are spread inside a bin. most_cells,
    require_signature: as `sfumato.open` takes them.
    """
    with as_standard_says():
        opened = release
        if not isinstance(opened, Release):
            opened = Release.load(str(release), most_cells=most_cells, require_signature=require_signature)
            opened = opened.refuse_unless_private()
        return Connection(opened, confidence, strict)


class _Open:
    """Something that can be closed, and is of no use afterwards."""

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

    def __init__(self, release: Release, confidence: float = 0.95, strict: bool = False) -> None:
        super().__init__()
        self.release, self.confidence, self.strict = release, confidence, strict

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
            result = connection.release.query(asked, confidence=connection.confidence, strict=connection.strict)
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
