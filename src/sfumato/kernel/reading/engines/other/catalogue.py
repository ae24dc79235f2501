"""Tables by their names, as most catalogues list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.errors import TableError
from sfumato.kernel.reading.expressions import SQL

if TYPE_CHECKING:
    from sqlglot import exp


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
