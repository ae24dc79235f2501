"""Compile a statement, as text, to a plan: one plain SELECT, or tables made of several.

>>> from sfumato.schema import Schema
>>> schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {
...     "age": {"type": "integer", "lower": 0, "upper": 99}, "smoker": {"type": "boolean"}}})
>>> statement = compile_statement("SELECT FLOOR(age / 50) AS half, COUNT(*) FROM t GROUP BY half", schema)
>>> [block.keys for block in statement.tables[0].parts[0].blocks]
[(0,), (1,)]
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.effort import MOST_ITEMS, MOST_RULES, TooMuchWork, at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.plan import Column, Key, Order, Select, unique_names
from sfumato.sql.predicates import check_clauses, noted, table_scope, where, whole
from sfumato.sql.reading import as_of, compiling, parse
from sfumato.sql.rows import SyntheticRows, asks_for_rows, compile_rows
from sfumato.sql.scope import Scope, bare, in_words, place_in, place_of, unsupported
from sfumato.sql.select_list import read_column
from sfumato.sql.spellings import CLOCK, clock_notes
from sfumato.sql.table.build import build_table
from sfumato.sql.table.flatten import Flat, RawStep
from sfumato.sql.table.plan import Item, Rule, Sort, Step, Table, Tables, Take
from sfumato.sql.values.tree import Ref

if TYPE_CHECKING:
    from sqlglot import exp

    from sfumato.sql.relation.rows import Relation


PublicTables = Mapping[str, object]  # by name: a CSV file, a mapping of columns, or a frame
_CLAUSES = ("expressions", "from", "where", "group", "order", "limit", "offset")


def compile_select(text: str, schema: Schema) -> Select:
    """The plan of one SELECT statement over the table that a schema describes."""
    with compiling():
        return compile_tree(parse(text, schema=schema), schema)


@dataclass(frozen=True)
class _Query:
    """Context of a SELECT's parts: its items, scope, rows and group keys."""

    items: list[Any]
    scope: Scope
    rows: Predicate
    group_by: tuple[str, ...]


def compile_tree(tree: exp.Expression, schema: Schema) -> Select:
    """The plan of one plain SELECT."""
    if tree.key != "select":
        raise unsupported(_statement(tree))
    check_clauses(tree, _CLAUSES)
    at_most(len(tree.expressions), MOST_ITEMS, "columns are in a select list", "ask for them in several statements")
    scope = table_scope(tree, schema)
    query = _Query(tree.expressions, scope, where(tree, scope), _group_by(tree, scope))
    columns = _named([_item(node, query) for node in query.items])
    if not any(isinstance(column, Column) for column in columns):
        raise unsupported("a SELECT without an aggregate", "add COUNT(*), SUM(...) or AVG(...)")
    limit, offset = whole(tree.args.get("limit"), "LIMIT"), whole(tree.args.get("offset"), "OFFSET") or 0
    order_by = _order_by(tree.args.get("order"), query, columns)
    return noted(Select(columns, query.group_by, query.rows, order_by, limit, offset), scope)


def _statement(tree: exp.Expression) -> str:
    """Name for messages of a statement that is not a SELECT."""
    if tree.key == "command":
        return str(tree.this).upper()
    if tree.key in ("column", "alias", "literal", "identifier"):
        return "a text that is not a SELECT statement"
    return in_words(tree)


def _group_by(tree: exp.Expression, scope: Scope) -> tuple[str, ...]:
    group = tree.args.get("group")
    if group is None:
        return ()
    extras = [key for key, value in group.args.items() if value and key not in ("expressions", "all")]
    if extras:
        raise unsupported(f"GROUP BY {extras[0].replace('_', ' ').upper()}", "group by attributes")
    items, nodes = tree.expressions, group.expressions
    at_most(len(nodes), MOST_RULES, "keys are in GROUP BY", "name each key once")
    if group.args.get("all"):
        nodes = [item.unalias() for item in items if bare(item.unalias()).key == "column"]
    return tuple(dict.fromkeys(_group_key(bare(node), items, scope) for node in nodes))


def _group_key(node: Any, items: list[Any], scope: Scope) -> str:
    """The attribute that an item of GROUP BY means: a name, a place in the select list, or an alias from there."""
    if node.key == "literal":
        node = bare(items[place_of(node, len(items), "GROUP BY")].unalias())
    elif node.key == "column" and not node.text("table"):
        known = any(_alike(node.name, name) for name in (*scope.schema.domain.names, *scope.schema.measures))
        aliased = [] if known else [item for item in items if item.key == "alias" and _alike(item.alias, node.name)]
        if aliased:
            node = bare(aliased[0].unalias())
    if node.key != "column" or node.this.key == "star":
        raise unsupported(
            f"GROUP BY {in_words(node)}", "group by attributes; a binned attribute is grouped by its bins"
        )
    return scope.axis_of(node, "GROUP BY").name


def _item(node: exp.Expression, query: _Query) -> Key | Column:
    """One item of the select list."""
    scope = query.scope
    inner = bare(node.unalias())
    if inner.key == "star" or (inner.key == "column" and inner.this.key == "star"):
        raise unsupported("SELECT *", "a release holds no rows; select aggregates such as COUNT(*)")
    if inner.key != "column":
        column = read_column(inner, scope, query.rows, grouped=bool(query.group_by))
        return replace(column, name=node.alias or column.name)
    name = scope.name_of(inner)
    if name not in query.group_by:
        raise QueryError(
            f"{name} is named but not in GROUP BY; add GROUP BY {name}, or use it inside COUNT, SUM or AVG"
            if name in scope.schema.domain
            else f"{name} is a measure and has no value by itself; select SUM({name}) or AVG({name})"
        )
    return Key(node.alias or name, name)


def _named(columns: Iterable[Key | Column]) -> tuple[Key | Column, ...]:
    """The columns with names that cannot be mistaken for each other."""
    columns = list(columns)
    names = unique_names([(column.name, isinstance(column, Column)) for column in columns])
    return tuple(replace(column, name=name) for column, name in zip(columns, names, strict=True))


def _order_by(clause: Any, query: _Query, columns: tuple[Key | Column, ...]) -> tuple[Order, ...]:
    rules = clause.expressions if clause else []
    at_most(len(rules), MOST_RULES, "keys are in ORDER BY", "name each key once")
    return tuple(
        Order(_target(bare(rule.this), query, columns), bool(rule.args.get("desc")), bool(rule.args.get("nulls_first")))
        for rule in rules
    )


def _target(node: Any, query: _Query, columns: tuple[Key | Column, ...]) -> int | Key | Column:
    """Resolve an item of ORDER BY: index in the select list, or a column computed only to sort by it."""
    if node.key == "literal":
        return place_of(node, len(query.items), "ORDER BY")
    if node.key == "var":
        raise unsupported(f"ORDER BY {node.name.upper()}", "name the columns")
    if node.key == "column" and not node.text("table"):
        for place, column in enumerate(columns):
            if _alike(column.name, node.name):
                return place
    hidden = _item(node, query)
    for place, column in enumerate(columns):
        if replace(column, name="") == replace(hidden, name=""):
            return place
    return hidden


def _alike(first: str, second: str) -> bool:
    return first.lower() == second.lower()


Statement = Select | Tables | SyntheticRows


MOST_KNOWN, MOST_CHARACTERS = 64, 2**12  # statements that a thread keeps, and of what length it keeps several


class _Known(threading.local):
    """Cache of a thread's compiled statements: one is priced, then answered, and often sent to many releases."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], tuple[Schema, Statement]] = {}


_KNOWN = _Known()


def compile_statement(text: str, schema: Schema, tables: PublicTables | None = None) -> Statement:
    """Compile a statement over the table that a schema describes. tables: public ones that it may join, by name."""
    if tables:
        with compiling():
            tree = parse(text, schema=schema)
            as_of(tree)
            from sfumato.sql.relation.lookups import brought

            return _compiled(tree, schema, {name.lower(): brought(name, one, schema) for name, one in tables.items()})
    known, key = _KNOWN.found, (text, id(schema))
    if key not in known:
        with compiling():
            tree = parse(text, schema=schema)
            as_of(tree)  # which whoever answers has looked for: the plan is the same
            found = _compiled(tree, schema)
        if tree.meta.get(CLOCK):  # what it asks for now, it does not ask for later
            return found
        if len(known) >= MOST_KNOWN or len(text) > MOST_CHARACTERS:
            known.clear()
        known[key] = schema, found  # the schema too, so that its id stays its own
    return known[key][1]


def _compiled(tree: exp.Expression, schema: Schema, known: Mapping[str, Relation] | None = None) -> Statement:
    said = tree.meta.get(CLOCK)
    notes = clock_notes(said) if said else ()
    try:
        select = compile_tree(tree, schema)
        return replace(select, notes=(*select.notes, *notes))
    except TooMuchWork:
        raise
    except QueryError as plain:
        if tree.key not in ("select", "union", "subquery", "pivot"):
            raise plain from None
    from sfumato.sql.relation.select import table_of  # plain statements, which are most, do without
    from sfumato.sql.relation.statement import Query, read_query

    query = read_query(tree, schema, {name: Query((one,)) for name, one in (known or {}).items()})
    (first, *others) = query.parts
    if not others and not query.steps and isinstance(first, Flat) and asks_for_rows(first):
        return replace(compile_rows(first, schema), notes=notes)
    tables = tuple(
        build_table(part, schema) if isinstance(part, Flat) else table_of(part, schema) for part in query.parts
    )
    tables = (replace(tables[0], notes=(*tables[0].notes, *notes)), *tables[1:])
    return Tables(tables, tuple(_step(step, tables[0]) for step in query.steps))


def selects_of(statement: Statement) -> tuple[Select, ...]:
    """Every plain SELECT that a statement is made of."""
    if isinstance(statement, SyntheticRows):
        return ()
    return (statement,) if isinstance(statement, Select) else tuple(statement.selects)


def _step(raw: RawStep, first: Table) -> Step:
    """ORDER BY and LIMIT at the end of a UNION ALL, which see the columns that are shown."""
    if raw.kind == "take":
        return Take(raw.limit, raw.offset)
    return Sort(tuple(_rule(rule, first.items) for rule in raw.nodes))


def _rule(rule: object, items: tuple[Item, ...]) -> Rule:
    node = bare(rule.this)  # type: ignore[attr-defined]
    names = [item.name.lower() for item in items]
    place = names.index(node.name.lower()) if node.key == "column" and node.name.lower() in names else None
    if node.key == "literal":
        place = place_in(node, len(items))
    if place is None:
        raise unsupported("ORDER BY an expression after UNION ALL", "name a column of the answer, or its place")
    args = rule.args  # type: ignore[attr-defined]
    return Rule(Ref(place), bool(args.get("desc")), bool(args.get("nulls_first")))
