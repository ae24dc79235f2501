"""Compile a statement, as text, to one plain SELECT or to tables made of several.

>>> from sfumato.schema import Schema
>>> schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {
...     "age": {"type": "integer", "lower": 0, "upper": 99}, "smoker": {"type": "boolean"}}})
>>> statement = compile_statement("SELECT FLOOR(age / 50) AS half, COUNT(*) FROM t GROUP BY half", schema)
>>> [block.keys for block in statement.tables[0].parts[0].blocks]
[(0,), (1,)]

WITH and subqueries in FROM are flattened: written into the SELECT around them, so that one SELECT over the release is
left. The outer SELECT names columns of the inner one; putting their expressions in their place leaves the question
unchanged, and arithmetic across aggregates stays arithmetic of amounts, with the noise that they share.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

from sfumato.effort import MOST_SELECTS, OF_A_NODE, TooMuchWork, at_most, counted, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.compile import compile_tree
from sfumato.sql.plan import Select
from sfumato.sql.predicates import check_clauses, table_scope
from sfumato.sql.reading import parse, silence, too_deep
from sfumato.sql.scope import bare, in_words, nodes_in, place_in, unsupported
from sfumato.sql.table.build import build_table
from sfumato.sql.table.level import Flat, RawStep, last_steps, written_over
from sfumato.sql.table.plan import Item, Rule, Sort, Step, Table, Tables, Take
from sfumato.sql.table.syntax import aggregates_in, name_of, own_nodes, ranks_replaced, totals_in
from sfumato.sql.values.tree import Ref

if TYPE_CHECKING:
    from sqlglot import exp

_CLAUSES = (
    *("expressions", "from", "where", "group", "having", "qualify", "order", "limit", "offset", "distinct", "with"),
)


@dataclass(frozen=True)
class Query:
    """SELECTs whose rows come one after the other, and steps on what they show together."""

    flats: tuple[Flat, ...]
    steps: tuple[RawStep, ...] = field(default=())


Named_queries = Mapping[str, Query]


def flatten(tree: exp.Expression, schema: Schema, known: Named_queries | None = None) -> Query:
    """A statement as SELECTs over the release; known: the queries of WITH, by name in small letters."""
    if tree.key == "subquery":
        check_clauses(tree, ("this", "alias"))
        return _renamed(flatten(tree.this, schema, known), tree.args.get("alias"))
    known = {**(known or {})}
    clause = tree.args.get("with_") or tree.args.get("with")
    for one in clause.expressions if clause else []:
        if clause is not None and clause.args.get("recursive"):
            raise unsupported("WITH RECURSIVE", "write the queries one after the other")
        known[one.alias.lower()] = _renamed(flatten(one.this, schema, known), one.args.get("alias"))
    if tree.key == "union":
        return _union(tree, schema, known)
    if tree.key != "select":
        raise unsupported(in_words(tree))
    check_clauses(tree, _CLAUSES)
    tree = _with_plain_subqueries(tree, schema, known)
    source = tree.args.get("from_") or tree.args.get("from")
    inner = _source(source.this, schema, known) if source else None
    if inner is None:
        table_scope(tree, schema)  # which refuses any other table by name
        return Query((written_over(tree, None, schema),))
    if len(inner.flats) == 1:
        return Query((written_over(tree, inner.flats[0], schema),))
    together = [tree.args.get(name) for name in ("group", "having", "qualify", "distinct")]
    windows = totals_in(tree.expressions) or ranks_replaced(tree.expressions, 0)[1]
    if inner.steps or any(together) or windows or aggregates_in(tree.expressions):
        raise unsupported("an aggregate, a rank or a limit of a UNION ALL in a subquery", "do so in its parts")
    without_end = tree.copy()
    for name in ("order", "limit", "offset"):
        without_end.set(name, None)
    return Query(tuple(written_over(without_end, flat, schema) for flat in inner.flats), last_steps(tree))


def _with_plain_subqueries(tree: exp.Expression, schema: Schema, known: Named_queries) -> exp.Expression:
    """The SELECT with single totals, (SELECT COUNT(*) FROM c), written over the release where c is a query of WITH."""
    from sqlglot import exp

    if not any(isinstance(node, exp.Subquery) for node in own_nodes(tree)):
        return tree
    spend(OF_A_NODE * nodes_in(tree), "a statement with subqueries")
    tree = tree.copy()
    written: set[int] = set()  # with all that is inside them
    for node in [node for node in own_nodes(tree) if isinstance(node, exp.Subquery)]:  # from the outside in
        inner = node.this.args.get("from_") or node.this.args.get("from")
        around = node.parent
        while around is not None and id(around) not in written:
            around = around.parent
        if around is not None or inner is None or not _is_query(inner.this, known):
            continue
        written.add(id(node))
        query = flatten(node, schema, known)
        flat = query.flats[0]
        if len(query.flats) > 1 or flat.sets != ((),) or flat.steps:
            raise unsupported("a subquery of more than one number", "select one aggregate in it, without GROUP BY")
        plain = exp.select(*(item.node for item in flat.items)).where(*flat.wheres, copy=True)
        plain.set("from_", (flat.base.args.get("from_") or flat.base.args.get("from")).copy())
        node.set("this", plain)
    return tree


def _union(tree: exp.Expression, schema: Schema, known: Named_queries) -> Query:
    check_clauses(tree, ("this", "expression", "order", "limit", "offset", "with", "distinct"))
    if tree.args.get("distinct") is not False:
        raise unsupported("UNION", "write UNION ALL: two noisy numbers are hardly ever the same")
    parts = [flatten(part, schema, known) for part in (tree.this, tree.args["expression"])]
    selects = sum(len(part.flats) for part in parts)
    at_most(selects, MOST_SELECTS, "SELECTs would follow each other by UNION ALL", "ask for them in several statements")
    if any(part.steps for part in parts):
        raise unsupported("ORDER BY or LIMIT inside UNION ALL", "put it at the end")
    widths = {len(flat.items) for part in parts for flat in part.flats}
    if len(widths) > 1:
        raise QueryError("the SELECTs of UNION ALL have different numbers of columns")
    first, *others = [flat for part in parts for flat in part.flats]
    names = [name_of(item) for item in first.items]  # the first SELECT names the columns of all
    return Query((first, *(_called(flat, names) for flat in others)), last_steps(tree))


def _renamed(query: Query, alias: Any) -> Query:
    """A query whose columns have other names: WITH w(sex, n) AS (...)."""
    names = [column.name for column in alias.args.get("columns") or []] if alias else []
    widths = {len(flat.items) for flat in query.flats}
    if names and widths != {len(names)}:
        raise QueryError(f"{alias.name} names {len(names)} columns of a subquery that has {widths.pop()}")
    return replace(query, flats=tuple(_called(flat, names) for flat in query.flats)) if names else query


def _called(flat: Flat, names: list[str]) -> Flat:
    return replace(flat, items=tuple(replace(item, name=name) for item, name in zip(flat.items, names, strict=True)))


def _source(table: Any, schema: Schema, known: Named_queries) -> Query | None:
    """The query that FROM takes its rows from, or None where it is the release itself."""
    if not _is_query(table, known):
        return None
    return flatten(table, schema, known) if table.key == "subquery" else known[table.name.lower()]


def _is_query(table: Any, known: Named_queries) -> bool:
    """Whether FROM names a query, and not the release itself."""
    named = table.key == "table" and not table.text("db") and table.name.lower() in known
    return bool(table.key == "subquery" or named)


Statement = Select | Tables


MOST_KNOWN, MOST_CHARACTERS = 64, 2**12  # statements that a thread keeps, and of what length it keeps several


class _Known(threading.local):
    """Cache of a thread's compiled statements: one is priced, then answered, and often sent to many releases."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], tuple[Schema, Statement]] = {}


_KNOWN = _Known()


def compile_statement(text: str, schema: Schema) -> Statement:
    """Compile a statement over the table that a schema describes."""
    known, key = _KNOWN.found, (text, id(schema))
    if key not in known:
        found = _compiled(text, schema)
        if len(known) >= MOST_KNOWN or len(text) > MOST_CHARACTERS:
            known.clear()
        known[key] = schema, found  # the schema too, so that its id stays its own
    return known[key][1]


def _compiled(text: str, schema: Schema) -> Statement:
    try:
        with silence(), counted():
            tree = parse(text)
            try:
                return compile_tree(tree, schema)
            except TooMuchWork:
                raise
            except QueryError as plain:
                if tree.key not in ("select", "union", "subquery"):
                    raise plain from None
            query = flatten(tree, schema)
            tables = tuple(build_table(flat, schema) for flat in query.flats)
            return Tables(tables, tuple(_step(step, tables[0]) for step in query.steps))
    except RecursionError:
        raise too_deep() from None


def selects_of(statement: Statement) -> tuple[Select, ...]:
    """Every plain SELECT that a statement is made of."""
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
