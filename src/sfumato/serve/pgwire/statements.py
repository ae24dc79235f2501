"""Which release a statement asks, and the statement as that release reads it.

A table may be called as the explorer calls its release, or by the name of its dataset, with or without `public.`
before it, and columns by the table's name; a release knows its own name alone. Where something has to be renamed, or
values stand for $1, the syntax tree is changed and written out again; other statements are left as they are.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sfumato.domain import EPOCH
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.serve.pgwire.encoding import BOOL, DATE, ELEMENTS, FLOAT8, INT8, INT8S, TEXT, TEXTS, TIMESTAMP, Value
from sfumato.serve.pgwire.failures import AMBIGUOUS, UNSUPPORTED, Failure
from sfumato.serve.pgwire.parameters import cast_around
from sfumato.serve.web.shelf import Book, Shelf
from sfumato.sql.reading import parse

if TYPE_CHECKING:
    from sqlglot import exp

PUBLIC = ("", "public")
_KINDS = {"integer": INT8, "number": FLOAT8, "boolean": BOOL, "date": DATE}


def release_asked(text: str, shelf: Shelf) -> tuple[Book, exp.Expression] | None:
    """The release that a statement is about, with its syntax tree; None where it is about the catalogue."""
    try:
        tree = parse(text)
    except QueryError:
        if any(word in text.lower() for word in ("pg_", "information_schema")):
            return None  # whose own SQL is of another kind
        raise
    books = [find_book(table, shelf) for table in tables_of(tree)]
    found = {id(book): book for book in books if book is not None}
    if not found:
        return None
    if len(found) > 1 or None in books:
        raise Failure(UNSUPPORTED, "a question is about one table", "ask one release after the other")
    (book,) = found.values()
    return book, tree


def tables_of(tree: exp.Expression) -> list[Any]:
    """The tables that a statement reads, without those that its WITH makes."""
    from sqlglot import exp

    made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    return [table for table in tree.find_all(exp.Table) if table.db or table.name.lower() not in made]


def find_book(table: Any, shelf: Shelf) -> Book | None:
    """The release of a name; none for a name of the catalogue, or of nothing."""
    name = table.name.lower()
    if table.this.key != "identifier" or table.db.lower() not in PUBLIC:
        return None
    for book in shelf:
        if book.name.lower() == name:
            return book
    found = [book for book in shelf if book.release.schema.dataset.lower() == name]
    if len(found) > 1:
        names = ", ".join(book.name for book in found)
        raise Failure(AMBIGUOUS, "several releases are of this dataset", f"write one of {names}")
    if not found and name == "release" and len(shelf.books) == 1:
        return shelf.books[0]
    return found[0] if found else None


def as_release_reads_it(text: str, tree: exp.Expression, book: Book, *, changed: bool) -> str:
    """The statement with the release's own name of its table. changed: whether the tree says something else by now."""
    from sqlglot import exp

    own = {book.release.schema.dataset.lower(), "release"}
    for table in tables_of(tree):
        if table.db or table.name.lower() not in own:
            asked = table.alias or table.name
            table.set("db", None)
            table.set("catalog", None)
            table.set("this", exp.to_identifier("release"))
            if tree.key != "describe":
                table.set("alias", exp.TableAlias(this=exp.to_identifier(asked, quoted=True)))
            changed = True
    for column in tree.find_all(exp.Column):
        if column.args.get("db"):
            column.set("db", None)
            column.set("catalog", None)
            changed = True
    return tree.sql(dialect="duckdb") if changed else text


def parameter_type(nodes: list[Any], schema: Schema | None) -> tuple[int, str | None]:
    """The type of a parameter, by a cast or by what it is compared with, and the attribute, if it is one."""
    from sqlglot import exp

    for node in nodes:
        if (found := cast_around(node)) is not None:
            return found, _compared(node.parent, schema)
        if isinstance(node.parent, exp.Limit | exp.Offset):
            return INT8, None
        if isinstance(around := node.find_ancestor(exp.Any, exp.Select), exp.Any):
            name = _compared(around, schema)
            return INT8S if name and schema and kind_of(name, schema) == INT8 else TEXTS, name
        if (name := _compared(node, schema)) is not None and schema is not None:
            return kind_of(name, schema), name
        if isinstance(node.parent, exp.Binary) and any(node.parent.find_all(exp.AggFunc)):
            return FLOAT8, None
    return TEXT, None


def _compared(node: Any, schema: Schema | None) -> str | None:
    """The column that a value is compared with."""
    from sqlglot import exp

    if schema is None or not isinstance(node.parent, exp.Binary | exp.Between | exp.In | exp.Tuple | exp.Array):
        return None
    names = {name.lower(): name for name in (*schema.domain.names, *schema.measures)}
    for column in node.parent.find_all(exp.Column):
        if column.name.lower() in names:
            return names[column.name.lower()]
    return None


def kind_of(name: str, schema: Schema) -> int:
    """The type of a column of the table that a release is of, as conditions take it."""
    if name not in schema.domain:
        return FLOAT8 if name in schema.measures else TEXT
    axis = schema.domain[name]
    if axis.kind == "category":
        return INT8 if all(isinstance(value, int) and not isinstance(value, bool) for value in axis.values) else TEXT
    return TIMESTAMP if axis.kind == "date" and axis.by == "hour" else _KINDS[axis.kind]


def example(oid: int, name: str | None, schema: Schema | None) -> Value:
    """A value that a parameter may have, for finding out which columns an answer has."""
    if oid in ELEMENTS:
        return [example(ELEMENTS[oid], name, schema)]
    if schema is not None and name is not None and name in schema.domain:
        axis = schema.domain[name]
        if axis.kind in ("integer", "number"):
            return int(axis.edges[0]) if axis.kind == "integer" else float(axis.edges[0])
        if axis.kind == "date":
            return (EPOCH + timedelta(days=float(axis.edges[0]))).isoformat()
        label: Value = axis.label(0)
        return label
    found: dict[int, Value] = {INT8: 1, FLOAT8: 1, BOOL: True, DATE: "2000-01-01", TIMESTAMP: "2000-01-01"}
    return found.get(oid, "")
