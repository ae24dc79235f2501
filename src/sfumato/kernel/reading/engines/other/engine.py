"""Tables by their names, as most catalogues list them.

The engine over a table behind a connection of DB-API or ADBC, in the SQL that it speaks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.frozen import dataclass
from sfumato.kernel.reading.engines import Column
from sfumato.kernel.reading.engines.other.session import Session
from sfumato.kernel.reading.engines.silencing import silenced
from sfumato.kernel.reading.expressions import SQL

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlglot import exp

    from sfumato.kernel.reading.engines.other.mysql import Words
    from sfumato.schema import Schema

SHOWN = 20  # tables in a message


def chosen(tables: Sequence[tuple[object, ...]], name: str | None, usual: str, at: str) -> tuple[str, str, str]:
    """The schema, the name and the kind of the table that is meant: its bare name in the usual schema, or schema.name.

    at: what a message calls the database.
    """
    rows = [(str(schema), str(own), str(kind)) for schema, own, kind in tables]
    bare = [row for row in rows if row[0] == usual and row[1] == name]
    in_full = [row for row in rows if f"{row[0]}.{row[1]}" == name]
    if bare or in_full:
        return (bare or in_full)[0]
    asked = "no table was named (--table)" if name is None else f"there is no table {name!r}"
    names = sorted(own if schema == usual else f"{schema}.{own}" for schema, own, _ in rows)
    there = ", ".join(names[:SHOWN]) + (", ..." if len(names) > SHOWN else "")
    raise TableError(f"{asked} in {at} that this account may read; it has {there or 'no tables'}")


def quoted_table(own: str, schema: str) -> SQL:
    """A table by its full name."""
    return exp.Table(this=exp.to_identifier(own, quoted=True), db=exp.to_identifier(schema, quoted=True))


def literal(text: str, dialect: str) -> str:
    """A name as a text of SQL."""
    if "\0" in text:
        raise TableError("no table has a NUL in its name; check --table")
    return exp.Literal.string(text).sql(dialect=dialect)


@dataclass(frozen=True)
class Other:
    """One table, read by one statement. Nothing is made on the server, and the connection is left as it was."""

    words: Words = field(repr=False)
    session: Session = field(repr=False)
    source: exp.Expression = field(repr=False)
    columns: tuple[Column, ...]

    @property
    def dialect(self) -> str:
        """The SQL it speaks."""
        return self.words.dialect

    @property
    def subqueries(self) -> bool:
        """As the dialect has it."""
        return self.words.subqueries

    def table(self) -> exp.Expression:
        """The table by its full name."""
        return self.source.copy()

    def bytes_of(self, text: exp.Expression) -> exp.Expression:
        """As the dialect has it."""
        return self.words.bytes_of(text)

    def safe_cast(self, value: exp.Expression, source: Column, to: str) -> exp.Expression:
        """As the dialect has it."""
        return self.words.safe_cast(value, source, to)

    def without_nan(self, value: exp.Expression, source: Column) -> exp.Expression:
        """Only whole numbers, decimals, texts and days may say who a row is about: `trial.py` sees to it."""
        return value

    def time_of(self, text: exp.Expression, written: str) -> exp.Expression:
        """Only files spell dates in their own way."""
        raise TableError("a database has dates of its own; leave out how a file spells them")

    def scramble(self, parts: Sequence[exp.Expression]) -> exp.Expression:
        """As the dialect has it."""
        return self.words.scramble(parts)

    def trial(self, schema: Schema, columns: Mapping[str, Column]) -> None:
        """Refuse a server on which the statement does not mean what it means elsewhere: tried on constants."""
        from sfumato.kernel.reading.engines.other.trial import tried

        tried(schema, self, columns)

    def check(self, statement: exp.Expression) -> None:
        """Have the server plan the statement, which reads no row."""
        silenced(lambda: self._planned(statement), f"{self.session.table} cannot be read as it is asked")

    def run(self, statement: exp.Expression, used: Sequence[Column]) -> pa.Table:
        """The statement's result."""
        failed = f"{self.session.table} could not be read to its end; ask whoever runs the database"
        return silenced(lambda: self._answered(statement), failed)

    def over(self, constants: exp.Expression) -> Other:
        """The same over other rows."""
        return replace(self, source=constants)

    def close(self) -> None:
        """Let go of what was opened for this table."""
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
        from sfumato.kernel.reading.engines.other.finding import words_of

        words = words_of(table, dialect)
        session = Session(table, words)
        with session.reading() as inside:
            words.must_serve(inside)
            source, columns = words.found(inside, name)
        session.table = f"the table {name}"
        return (engine or Other)(words, session, source, columns)

    return silenced(work, "the database or its catalogue cannot be read; check the connection")
