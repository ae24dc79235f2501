"""Resolve a statement: find the release it asks, rename its table and columns, and bind $1, $2, ...

A table may be called by its release's name, by that of its dataset or by that of its file, with or without `public.`.
Where something has to be renamed, or values stand for $1, the syntax tree is changed and written out again; a bound
value is one literal.

Views of a session: CREATE TEMPORARY VIEW names a SELECT, which is written into the statements that ask it.

Nothing is stored: a view is a text that its connection keeps. ibis makes one to learn the columns of a statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

from sqlglot import exp

from sfumato.domain import EPOCH
from sfumato.effort import MOST_CHARACTERS, at_most
from sfumato.errors import QueryError
from sfumato.releases.linked import TableOfLinked
from sfumato.schema import Schema
from sfumato.serve.pgwire import protocol as pg
from sfumato.serve.pgwire.protocol import TOO_LARGE, Column, Failure, Value
from sfumato.serve.web.requests import MOST_BODY, Book, Shelf
from sfumato.sql.reading import parse


class View(NamedTuple):
    """View of a session: its name, its statement, and the columns of its answer."""

    name: str
    text: str
    columns: tuple[Column, ...]


class Views:
    """The views of a session, in the order in which they were made; a later one may ask an earlier one."""

    def __init__(self) -> None:
        self._views: dict[str, View] = {}

    def put(self, view: View, *, replace: bool) -> None:
        """Keep a view."""
        if view.name in self._views and not replace:
            raise Failure("42P07", "a view of this name is there already", "DROP VIEW it first")
        others = [one for name, one in self._views.items() if name != view.name]
        if sum(len(one.text) + 100 for one in (*others, view)) > MOST_BODY:
            raise Failure(TOO_LARGE, f"the views of a session have at most {MOST_BODY:,} characters", "DROP VIEW some")
        self._views = {one.name: one for one in (*others, view)}

    def drop(self, name: str, *, if_exists: bool) -> None:
        """Forget a view; an empty name means the last one."""
        name = name or next(reversed(self._views), "")
        if self._views.pop(name, None) is None and not if_exists:
            raise Failure("42P01", "there is no view of this name", "views last as long as their connection")

    def asked_by(self, text: str) -> tuple[View, ...]:
        """The views that a statement may ask, itself or by another view; all of them, if it looks up names."""
        if re.search(r"\bpg_|\binformation_schema\b", text, re.IGNORECASE):
            return tuple(self._views.values())
        asked: list[View] = []
        for view in reversed(self._views.values()):
            if any(view.name.lower() in one.lower() for one in (text, *(later.text for later in asked))):
                asked.append(view)
        return tuple(reversed(asked))


def with_views(tree: exp.Expression, views: Iterable[View], dialect: str = "duckdb") -> bool:
    """Define views by WITH in a statement that reads them; whether there were any. dialect: of the views' texts."""
    needed: list[Any] = []
    trees: list[Any] = [tree]
    for view in reversed(list(views)):
        read = [table for one in trees for table in _tables(one) if table.name == view.name]
        if not read:
            continue
        for table in read:
            table.set("db", None)
            table.set("catalog", None)
        inner = parse(view.text, dialect)
        trees.append(inner)
        needed.insert(0, exp.CTE(this=inner, alias=exp.TableAlias(this=exp.to_identifier(view.name, quoted=True))))
    if needed and isinstance(tree, exp.Query):
        own = tree.args.get("with_")
        tree.set("with_", exp.With(expressions=[*needed, *(own.expressions if own else [])]))
    return bool(needed)


def _tables(tree: Any) -> Sequence[Any]:
    made = {cte.alias for cte in tree.find_all(exp.CTE)}
    return [table for table in tree.find_all(exp.Table) if table.name not in made and table.db in ("", "public")]


# -- statements

BY_NAME = {
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "int2", "int4", "int8", "oid"), pg.INT8),
    **dict.fromkeys(("double", "real", "float", "float4", "float8", "decimal", "numeric"), pg.FLOAT8),
    **dict.fromkeys(("boolean", "bool"), pg.BOOL),
    "date": pg.DATE,
    **dict.fromkeys(("timestamp", "timestampntz", "datetime"), pg.TIMESTAMP),
}


def literal(value: Value) -> exp.Expression:
    """Convert a value to a literal node of a syntax tree."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, list):
        return exp.Array(expressions=[literal(one) for one in value])
    if isinstance(value, int | float):
        number = exp.Literal.number(repr(abs(value)))
        return exp.Neg(this=number) if value < 0 else number
    return exp.Literal.string(value)


def places_of(tree: exp.Expression) -> dict[int, list[Any]]:
    """Find the nodes of each parameter, by its number."""
    found: dict[int, list[Any]] = {}
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        name = node.name or str(node.this or "")
        if not name.isdigit() or not 1 <= int(name) <= 1000:
            raise Failure(pg.SYNTAX, "a parameter is written $1, $2, ...", "give it a number")
        found.setdefault(int(name), []).append(node)
    if found and sorted(found) != list(range(1, max(found) + 1)):
        raise Failure("42P18", "the numbers of parameters have a gap", "write $1, $2, ... without leaving one out")
    return found


def cast_around(node: Any) -> int | None:
    """Type of the cast directly around a parameter."""
    if isinstance(node.parent, exp.Cast):
        kind = node.parent.args["to"].sql(dialect="postgres").lower().removeprefix("pg_catalog.")
        return BY_NAME.get(kind.partition("(")[0].split(" ")[0].strip('"'), pg.TEXT)
    return None


def put_values(places: dict[int, list[Any]], values: Sequence[Value], *, casts: bool) -> None:
    """Replace each parameter by its value. casts: keep a cast around it; else the value has that type already."""
    length = sum(len(nodes) * _length(values[number - 1]) for number, nodes in places.items())
    at_most(length, MOST_CHARACTERS, "characters are in the values of a statement", "give shorter ones, or fewer")
    for number, nodes in places.items():
        for node in nodes:
            inner = node.parent if isinstance(node.parent, exp.Cast) and not casts else node
            inner.replace(literal(values[number - 1]))


def _length(value: Value) -> int:
    """Estimate how many characters a value has in a statement."""
    if isinstance(value, list):
        return sum(2 + _length(one) for one in value)
    return len(value) + 2 if isinstance(value, str) else 8


_MOMENTS = ("YYYY-MM-DD HH24:MI:SS", "YYYY-MM-DD HH24:MI:SS.US", "YYYY-MM-DD HH24:MI:SS.MS")


def respelled(tree: exp.Expression) -> bool:
    """Rewrite spellings of PostgreSQL's tools to those that a release reads; whether there were any.

    `x = ANY (list)`, as drivers write it, becomes `x IN (...)`; TO_TIMESTAMP of a text becomes a timestamp.
    """
    changed = False
    for node in list(tree.find_all(exp.EQ)):
        listed = node.expression
        if isinstance(listed, exp.Any) and isinstance(found := listed.this.unnest(), exp.Array) and found.expressions:
            node.replace(exp.In(this=node.this, expressions=found.expressions))
            changed = True
    for moment in list(tree.find_all(exp.UnixToTime)):
        form = moment.args.get("scale")
        if isinstance(form, exp.Literal) and form.name in _MOMENTS and isinstance(moment.this, exp.Literal):
            moment.replace(exp.cast(moment.this.copy(), "timestamp"))
            changed = True
    return changed


PUBLIC = ("", "public")
_KINDS = {"integer": pg.INT8, "number": pg.FLOAT8, "boolean": pg.BOOL, "date": pg.DATE}


def release_asked(text: str, shelf: Shelf, views: Sequence[View] = ()) -> tuple[Book, exp.Expression, bool] | None:
    """Find the release that a statement is about, with its syntax tree and whether this was changed for views.

    None where it is about the catalogue.
    """
    try:
        tree = parse(text)
    except QueryError:
        if any(word in text.lower() for word in ("pg_", "information_schema")):
            return None  # whose own SQL is of another kind
        raise
    changed = with_views(tree, views)
    books = [find_book(table, shelf) for table in tables_of(tree)]
    found = {id(book): book for book in books if book is not None}
    if not found:
        return None
    together = {id(one.release.whole) if isinstance(one.release, TableOfLinked) else id(one) for one in found.values()}
    if None in books or len(together) > 1:
        raise Failure(pg.UNSUPPORTED, "a question is about one table", "ask one release after the other")
    book = next(iter(found.values()))  # of linked tables any one, which knows the others
    return book, tree, changed


def tables_of(tree: exp.Expression) -> list[Any]:
    """Tables that a statement reads, without those that its WITH defines."""
    made = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    return [table for table in tree.find_all(exp.Table) if table.db or table.name.lower() not in made]


def find_book(table: Any, shelf: Shelf) -> Book | None:
    """Find a release by name; None for a name of the catalogue, or of nothing."""
    name = table.name.lower()
    if table.this.key != "identifier" or table.db.lower() not in PUBLIC:
        return None
    for book in shelf:
        if book.name.lower() == name:
            return book
    found = [book for book in shelf if book.release.schema.dataset.lower() == name]
    if len(found) > 1:
        names = ", ".join(book.name for book in found)
        raise Failure(pg.AMBIGUOUS, "several releases are of this dataset", f"write one of {names}")
    found = found or [book for book in shelf if Path(book.file).stem.lower() == name]
    if not found and name == "release" and len(shelf.books) == 1:
        return shelf.books[0]
    return found[0] if found else None


def as_release_reads_it(text: str, tree: exp.Expression, book: Book, *, changed: bool) -> str:
    """Rename the table to the release's own name for it. changed: whether the tree was changed before."""
    own = {book.release.schema.dataset.lower(), "release"}
    names = {table.name.lower() for table in tables_of(tree)}
    several = isinstance(book.release, TableOfLinked) and len(names) > 1
    for table in tables_of(tree):
        if several:  # linked tables, each by its own name
            changed |= bool(table.db)
            table.set("db", None)
            table.set("catalog", None)
        elif table.db or table.name.lower() not in own:
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
    """Type of a parameter, by a cast or a comparison, and the attribute that it is compared with, if any."""
    for node in nodes:
        if (found := cast_around(node)) is not None:
            return found, _compared(node.parent, schema)
        if isinstance(node.parent, exp.Limit | exp.Offset):
            return pg.INT8, None
        if isinstance(around := node.find_ancestor(exp.Any, exp.Select), exp.Any):
            name = _compared(around, schema)
            return pg.INT8S if name and schema and kind_of(name, schema) == pg.INT8 else pg.TEXTS, name
        if (name := _compared(node, schema)) is not None and schema is not None:
            return kind_of(name, schema), name
        if isinstance(node.parent, exp.Binary) and any(node.parent.find_all(exp.AggFunc)):
            return pg.FLOAT8, None
    return pg.TEXT, None


def _compared(node: Any, schema: Schema | None) -> str | None:
    """Column that a parameter's parent expression compares it with; None if no column of the schema."""
    if schema is None or not isinstance(node.parent, exp.Binary | exp.Between | exp.In | exp.Tuple | exp.Array):
        return None
    names = {name.lower(): name for name in (*schema.domain.names, *schema.measures)}
    for column in node.parent.find_all(exp.Column):
        if column.name.lower() in names:
            return names[column.name.lower()]
    return None


def kind_of(name: str, schema: Schema) -> int:
    """PostgreSQL type of a release's column, as conditions take it."""
    if name not in schema.domain:
        return pg.FLOAT8 if name in schema.measures else pg.TEXT
    axis = schema.domain[name]
    if axis.kind == "category":
        whole = all(isinstance(value, int) and not isinstance(value, bool) for value in axis.values)
        return pg.INT8 if whole else pg.TEXT
    return pg.TIMESTAMP if axis.kind == "date" and axis.by == "hour" else _KINDS[axis.kind]


def example(oid: int, name: str | None, schema: Schema | None) -> Value:
    """Example value for a parameter, used to find out which columns an answer has."""
    if oid in pg.ELEMENTS:
        return [example(pg.ELEMENTS[oid], name, schema)]
    if schema is not None and name is not None and name in schema.domain:
        axis = schema.domain[name]
        if axis.kind in ("integer", "number"):
            return int(axis.edges[0]) if axis.kind == "integer" else float(axis.edges[0])
        if axis.kind == "date":
            return (EPOCH + timedelta(days=float(axis.edges[0]))).isoformat()
        label: Value = axis.label(0)
        return label
    if oid in (pg.DATE, pg.TIMESTAMP):
        return "2000-01-01"
    return {pg.INT8: 1, pg.FLOAT8: 1, pg.BOOL: True}.get(oid, "")
