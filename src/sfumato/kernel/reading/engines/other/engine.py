"""The engine over a table behind a connection of DB-API or ADBC, in the SQL that the connection speaks.

A dialect (`Words`) says how; it is tried on constants before anything is reserved (`trial.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column, silenced
from sfumato.kernel.reading.engines.other.session import Session

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sfumato.kernel.reading.engines.other.mysql import Words
    from sfumato.schema import Schema


@dataclass(frozen=True)
class Other:
    """Engine over one table behind a connection, which is left as it was; nothing is created on the server."""

    words: Words = field(repr=False)
    session: Session = field(repr=False)
    source: exp.Expression = field(repr=False)
    columns: tuple[Column, ...]

    @property
    def dialect(self) -> str:
        """SQL dialect, as sqlglot names it."""
        return self.words.dialect

    @property
    def subqueries(self) -> bool:
        """Whether the dialect looks up lists by subqueries (`Words.subqueries`)."""
        return self.words.subqueries

    def table(self) -> exp.Expression:
        """SQL of the table by its full name."""
        return self.source.copy()

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """SQL bytes of a text, by the dialect."""
        return self.words.bytes_of(text)

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """SQL cast that yields NULL on failure, by the dialect."""
        return self.words.safe_cast(value, source, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """The value itself: `trial.py` refuses floats as privacy unit, so no NaN can occur."""
        return value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """Refuse: only files state a format of dates."""
        raise TableError("a database has dates of its own; leave out how a file spells them")

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """SQL hash of some values, by the dialect."""
        return self.words.scramble(parts)

    def trial(self, schema: Schema, columns: Mapping[str, Column]) -> None:
        """Refuse a server that evaluates the statement on constants differently from DuckDB."""
        from sfumato.kernel.reading.engines.other.trial import tried

        tried(schema, self, columns)

    def check(self, statement: exp.Expression) -> None:
        """Have the server plan the statement, which reads no row."""
        silenced(lambda: self._planned(statement), f"{self.session.table} cannot be read as it is asked")

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """Run the statement and return its result."""
        failed = f"{self.session.table} could not be read to its end; ask whoever runs the database"
        return silenced(lambda: self._answered(statement), failed)

    def over(self, constants: exp.Expression) -> Other:
        """Same engine over the constants of a trial in place of the table."""
        return replace(self, source=constants)

    def close(self) -> None:
        """Close what was opened for this table."""
        self.session.close()

    def _planned(self, statement: exp.Expression) -> None:
        text = self.words.planned(self.words.spelled(statement))
        with self.session.reading() as inside:
            inside.rows(text)

    def _answered(self, statement: exp.Expression) -> pa.Table:
        text = self.words.spelled(statement)
        with self.session.reading() as inside:
            return inside.answer(text)


def open_other(table: Any, name: str | None, dialect: str | None, engine: type[Other] | None = None) -> Other:
    """The engine for a connection or an engine of SQLAlchemy, and the name of a table.

    dialect: the SQL that it speaks, where that cannot be told from the connection. engine: the tests' broken ones.
    """

    def work() -> Other:
        from sfumato.kernel.reading.engines.other.trial import words_of

        words = words_of(table, dialect)
        session = Session(table, words)
        with session.reading() as inside:
            words.must_serve(inside)
            source, columns = words.found(inside, name)
        session.table = f"the table {name}"
        return (engine or Other)(words, session, source, columns)

    return silenced(work, "the database or its catalogue cannot be read; check the connection")
