"""JOIN of the release's rows with a small public table: its columns become expressions of the key's attributes.

    SELECT l.name, COUNT(*) FROM people JOIN (VALUES ('F', 'women'), ('M', 'men')) AS l(code, name) ON sex = l.code ...

says CASE WHEN sex = 'F' THEN 'women' WHEN sex = 'M' THEN 'men' END wherever l.name stands, and, since the JOIN leaves
other rows out, WHERE sex IN ('F', 'M'). A table of one row, joined without a key, gives its numbers to every group.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from os import PathLike
from pathlib import Path
from typing import Any

from sfumato.effort import OF_A_NODE, at_most, spend
from sfumato.errors import QueryError, SchemaError
from sfumato.schema import Schema
from sfumato.schema.attributes import Category
from sfumato.schema.attributes.lists import as_number
from sfumato.schema.file import read_columns
from sfumato.sql.relation.forms import Cell, is_form
from sfumato.sql.relation.rows import Field, Relation
from sfumato.sql.scope import Scope, bare, quoted, unsupported
from sfumato.sql.table.syntax import keep_names, own_nodes
from sfumato.sql.values.tree import Ref

MOST_ROWS = 1_000  # of a table that is looked up, whose keys are values of the release
MOST_BROUGHT = 100_000  # of a table that whoever asks brings, whatever its keys are
_COUNT_FIRST = "count by its key in a WITH query, and JOIN that"


def looked_up(
    tree: Any, tables: Sequence[Relation | None], given: list[Cell], scopes: list[Scope], schema: Schema
) -> Any:
    """Rewrite joins with public tables: a SELECT over the release alone, their columns as expressions of its columns.

    tables: those of FROM and of each JOIN; None for the release. given, scopes: lists to which the cells of tables of
    one row are appended.
    """
    joins, copy = tree.args["joins"], tree.copy()
    source = next(place for place, one in enumerate(tables) if one is None)
    entries = [tree.args.get("from_") or tree.args.get("from"), *joins]
    sides = [str(join.args.get("side") or "").upper() for join in joins]
    if any(side not in ("", "LEFT") for side in sides) or (source and any(sides)):
        raise unsupported("an outer join that keeps what no row has", "put the table first: FROM it LEFT JOIN ...")
    conditions: list[Any] = []
    columns: dict[tuple[str, str], Any] = {}
    for place, relation in enumerate(tables):
        if relation is None:
            continue
        join = joins[place - 1] if place else joins[source - 1]
        table = relation.unordered("a join")
        if table.brought:
            table = _with_known_keys(table, _keys(join, table), schema)
        found, rows = _one(join, table, given, scopes)
        columns |= found
        if rows is not None and str(join.args.get("side") or "").upper() != "LEFT":
            conditions.append(rows)
    copy.set("joins", None)
    (copy.args.get("from_") or copy.args.get("from")).set("this", entries[source].this.copy())
    for condition in conditions:
        copy.where(condition, copy=False)
    names = {relation.fields[0].table for relation in tables if relation is not None and relation.fields}
    return _replaced(copy, columns, names)


def _one(join: Any, relation: Relation, given: list[Cell], scopes: list[Scope]) -> Any:
    """Columns of a joined table as expressions of the release's, by (table, column), and the condition of a match."""
    from sqlglot import exp

    at_most(relation.rows, MOST_ROWS, "rows are in a table that is looked up", "join by fewer keys")
    keys = _keys(join, relation)
    cells = [relation.cells(place) for place in range(len(relation.fields))]
    names = [(one.table, one.name.lower()) for one in relation.fields]
    if not keys:
        if relation.rows != 1:
            raise unsupported("a join of the table's rows with several rows and no key", "join by ON a column = a key")
        scopes.extend(relation.scopes)
        return {name: _word(column[0], given) for name, column in zip(names, cells, strict=True)}, None
    noisy = [one.name for one, column in zip(relation.fields, cells, strict=True) if any(map(is_form, column))]
    if noisy:
        raise unsupported(f"a join of the table's rows with {noisy[0]}, which is counted,", _COUNT_FIRST)
    spend(OF_A_NODE * relation.rows * (len(keys) + len(names)), "JOIN")
    rows = [
        exp.and_(*(exp.EQ(this=node.copy(), expression=exp.convert(cells[place][row])) for node, place in keys))
        for row in range(relation.rows)
        if all(cells[place][row] is not None for _, place in keys)
    ]
    texts = [condition.sql() for condition in rows]
    if len({*texts}) < len(texts):
        raise QueryError(
            "JOIN: the table that is looked up has a key twice, so that rows would count twice; list it once"
        )
    columns = {
        name: exp.Case(ifs=[exp.If(this=c.copy(), true=exp.convert(v)) for c, v in zip(rows, column, strict=True)])
        for name, column in zip(names, cells, strict=True)
    }
    for node, place in keys:
        columns[names[place]] = node if str(join.args.get("side") or "") == "" else columns[names[place]]
    return columns, exp.or_(*rows) if rows else exp.false()


def _with_known_keys(relation: Relation, keys: Sequence[tuple[Any, int]], schema: Schema) -> Relation:
    """Rows of a public table whose keys are values of the release; no others can match."""
    kept = [*range(relation.rows)]
    names = {name.lower(): name for name in (*schema.attributes, *schema.group_columns)}
    for node, place in keys:
        name = names.get(bare(node).name.lower()) if bare(node).key == "column" else None
        attribute, cells = schema.attributes.get(name or ""), relation.cells(place)
        if isinstance(attribute, Category):
            shown = {*(attribute.labels or {}).values()}
            kept = [row for row in kept if attribute.knows(str(cells[row])) or cells[row] in shown]
        elif name in schema.group_columns:
            groups = {*schema.group_columns[name][1]}
            kept = [row for row in kept if cells[row] in groups]
    columns = tuple(tuple(column[row] for row in kept) for column in relation.columns)
    return replace(relation, columns=columns, rows=len(kept))


def _word(cell: Cell, given: list[Cell]) -> Any:
    """Syntax node of a cell: a constant, or a placeholder for a form, which is appended to `given`."""
    from sqlglot import exp

    if not is_form(cell):
        return exp.convert(cell)
    given.append(cell)
    return exp.Var(this=f"cell {len(given) - 1}")


def _keys(join: Any, relation: Relation) -> list[tuple[Any, int]]:
    """Join keys: expressions of the release's columns, each with the index of the field that it must equal."""
    from sqlglot import exp

    places = {(one.table, one.name.lower()): place for place, one in enumerate(relation.fields)}
    table = relation.fields[0].table if relation.fields else ""
    if join.args.get("using"):
        found = [
            (exp.column(one.name, quoted=True), places.get((table, one.name.lower()))) for one in join.args["using"]
        ]
        if any(place is None for _, place in found):
            raise QueryError(f"USING: no such column; there are {', '.join(one.name for one in relation.fields)}")
        return found  # type: ignore[return-value]
    on = bare(join.args.get("on"))
    if on is None:
        return []
    keys = []
    for part in map(bare, on.flatten() if on.key == "and" else [on]):
        sides = [part.this, part.args["expression"]] if part.key == "eq" else []
        mine = [side for side in sides if _place(side, table, places) is None]
        theirs = [place for side in sides if (place := _place(side, table, places)) is not None]
        if len(mine) != 1 or len(theirs) != 1:
            raise unsupported(f"{quoted(part)} in ON", "join by ON a column of the table = a key")
        keys.append((mine[0], theirs[0]))
    return keys


def _place(node: Any, table: str, places: dict[tuple[str, str], int]) -> int | None:
    """Index of the field that a column names, qualified or not; None if it is no field."""
    node = bare(node)
    if node.key != "column":
        return None
    if node.table:
        return places.get((node.table.lower(), node.name.lower())) if node.table.lower() == table else None
    return places.get((table, node.name.lower()))


def _replaced(tree: Any, columns: dict[tuple[str, str], Any], tables: set[str]) -> Any:
    """The SELECT with the columns of other tables replaced by their expressions, under the names that they had."""
    from sqlglot import exp

    plain: dict[str, Any] = {}
    for (_, name), expression in columns.items():
        plain.setdefault(name, expression)
    keep_names(tree, lambda node: isinstance(node, exp.Column) and (node.table.lower() in tables or node.name in plain))
    for node in [
        node for node in own_nodes(tree) if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star)
    ]:
        key = (node.table.lower(), node.name.lower())
        found = columns.get(key) if node.table else plain.get(key[1])
        if node.table.lower() in tables and found is None:
            there = ", ".join(name for table, name in columns if table == node.table.lower())
            raise QueryError(f"no column {node.name!r} in {node.table}; there are {there}")
        if found is None:
            continue
        if isinstance(found, exp.Var) and node.find_ancestor(exp.Where):
            raise unsupported(f"{quoted(node)} in WHERE, which is counted,", "compare it in HAVING")
        if isinstance(found, exp.Var) and isinstance(node.parent, exp.Group):
            node.pop()  # a number that is the same in every group splits none
        elif isinstance(found, exp.Var) and isinstance(node.parent, exp.Max | exp.Min | exp.Avg | exp.AnyValue):
            node.parent.replace(found.copy())
        else:
            node.replace(found.copy() if isinstance(found, exp.Var | exp.Column) else exp.paren(found.copy()))
    group = tree.args.get("group")
    if group is not None and not group.expressions and not group.args.get("all"):
        tree.set("group", None)
    return tree


def brought(name: str, given: object, schema: Schema) -> Relation:
    """Public table given with a query: a CSV file, a mapping of columns or a frame.

    A column whose entries are all written as numbers is numeric.

    >>> people = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {"ill": {"type": "boolean"}}})
    >>> brought("codes", {"code": ["01", "02"], "weight": ["1", "2.5"]}, people).columns
    (('01', '02'), (1, 2.5))
    """
    if not (name.isidentifier() and name.isascii()):
        raise QueryError(f"{name!r} is no name that SQL can use after JOIN; call the table by letters, digits and _")
    if name.lower() in (schema.dataset.lower(), "release"):
        raise QueryError(f"the table {name!r} is called as the release is; give it another name")
    table = _columns(name, given)
    if not table or not all(str(column).strip() for column in table):
        raise QueryError(f"the table {name!r} has no columns with names; name them in its first line")
    lengths = {len(column) for column in table.values()}
    if len(lengths) > 1:
        raise QueryError(f"the table {name!r} has columns of {min(lengths)} and of {max(lengths)} rows; mend it")
    at_most(max(lengths), MOST_BROUGHT, f"rows are in the table {name}", "leave out those that are not needed")
    columns = tuple(_typed(name, column) for column in table.values())
    fields = tuple(Field(column, Ref(place)) for place, column in enumerate(table))
    return Relation(fields, columns, max(lengths), brought=True)


def _columns(name: str, given: object) -> dict[str, Sequence[Any]]:
    """The columns of a table by name."""
    if isinstance(given, str | PathLike):
        try:
            return {**read_columns(Path(given))}
        except SchemaError as problem:
            raise QueryError(f"the table {name!r}: {problem}") from None
    if isinstance(given, Mapping):
        return {str(column): list(values) for column, values in given.items()}
    kind = type(given).__module__.partition(".")[0]
    found: Any = given
    if kind == "pandas":
        return dict(found.astype(object).where(found.notna(), None).to_dict("list"))
    if kind in ("pyarrow", "polars"):
        return dict((found if kind == "pyarrow" else found.to_arrow()).to_pydict())
    raise QueryError(f"the table {name!r} cannot be a {type(given).__name__}; use a CSV file or a mapping of columns")


def _typed(name: str, column: Sequence[Any]) -> tuple[Cell, ...]:
    """The values of a column: numbers where all are written as SQL writes them, dates, or texts; NULL where empty."""
    cells = [None if cell is None or cell == "" else cell for cell in column]
    if any(not isinstance(cell, str | int | float | bool | date | None) for cell in cells):
        raise QueryError(f"the table {name!r} holds what is neither text, number, date nor true or false; leave it out")
    texts = [cell for cell in cells if isinstance(cell, str)]
    if len(texts) == len([cell for cell in cells if cell is not None]) and all(map(_PLAIN.fullmatch, texts)):
        numbers = [None if cell is None else as_number(str(cell)) for cell in cells]
        return tuple(None if one is None else int(one) if one == int(one) else float(one) for one in numbers)
    return tuple(float(cell) if isinstance(cell, float) else cell for cell in cells)


_PLAIN = re.compile(r"-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,14})?")  # not 01, which is a code
