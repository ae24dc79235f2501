"""WITH and subqueries in FROM, written into the SELECT around them, so that one SELECT over the release is left.

The outer SELECT names columns of the inner one; putting their expressions in its place leaves the question unchanged,
and arithmetic across aggregates stays arithmetic of amounts, which share their noise as they do. What the levels do
with rows of groups (HAVING, ranks, ORDER BY, LIMIT, an outer WHERE) becomes a list of steps, innermost first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.clauses import check_clauses, table_scope
from sfumato.sql.scope import in_words, quoted, unsupported
from sfumato.sql.table.grouping import grouping_sets
from sfumato.sql.table.syntax import (
    Named,
    aggregates_in,
    alias_resolver,
    is_star,
    name_of,
    ranks_replaced,
    substituted,
    totals_in,
    whole,
)

if TYPE_CHECKING:
    from sqlglot import exp

_CLAUSES = (
    *("expressions", "from", "where", "group", "having", "qualify", "order", "limit", "offset", "distinct", "with"),
)
_ONE_LEVEL = "aggregate once: write the aggregates in the subquery and arithmetic, filters and order outside"


@dataclass(frozen=True)
class RawStep:
    """A step on rows of groups, as syntax: keep, rank, sort, take or once."""

    kind: str
    nodes: tuple[Any, ...] = ()
    word: str = ""
    limit: int | None = None
    offset: int = 0


@dataclass(frozen=True)
class Flat:
    """One SELECT over the release.

    base: the innermost SELECT, whose FROM names the table. sets: grouping sets, None where rows are not grouped.
    """

    base: Any
    wheres: tuple[Any, ...]
    sets: tuple[tuple[Any, ...], ...] | None
    items: tuple[Named, ...]
    steps: tuple[RawStep, ...] = ()

    @property
    def filtered(self) -> bool:
        return any(step.kind in ("keep", "take", "once") for step in self.steps)


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
        return flatten(tree.this, schema, known)
    known = {**(known or {})}
    clause = tree.args.get("with_") or tree.args.get("with")
    for one in clause.expressions if clause else []:
        if clause is not None and clause.args.get("recursive"):
            raise unsupported("WITH RECURSIVE", "write the queries one after the other")
        known[one.alias.lower()] = flatten(one.this, schema, known)
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
        return Query((_level(tree, None, schema),))
    if len(inner.flats) == 1:
        return Query((_level(tree, inner.flats[0], schema),))
    if inner.steps or tree.args.get("group") or totals_in(tree.expressions) or ranks_replaced(tree.expressions, 0)[1]:
        raise unsupported("grouping, ranking or cutting short a UNION ALL in a subquery", "do so in its parts")
    without_end = tree.copy()
    for name in ("order", "limit", "offset"):
        without_end.set(name, None)
    return Query(tuple(_level(without_end, flat, schema) for flat in inner.flats), _end(tree))


def _with_plain_subqueries(tree: exp.Expression, schema: Schema, known: Named_queries) -> exp.Expression:
    """The SELECT with single totals, (SELECT COUNT(*) FROM c), written over the release where c is a query of WITH."""
    from sqlglot import exp

    tree = tree.copy()
    for node in list(tree.find_all(exp.Subquery)):
        inner = node.this.args.get("from_") or node.this.args.get("from")
        if node.find_ancestor(exp.From) is not None or inner is None or _source(inner.this, schema, known) is None:
            continue
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
    if any(part.steps for part in parts):
        raise unsupported("ORDER BY or LIMIT inside UNION ALL", "put it at the end")
    widths = {len(flat.items) for part in parts for flat in part.flats}
    if len(widths) > 1:
        raise QueryError("the SELECTs of UNION ALL have different numbers of columns")
    flats = [flat for part in parts for flat in part.flats]
    names = [name_of(item) for item in flats[0].items]  # the first SELECT names the columns of all
    renamed = [
        replace(flat, items=tuple(replace(item, name=name) for item, name in zip(flat.items, names, strict=True)))
        for flat in flats[1:]
    ]
    return Query((flats[0], *renamed), _end(tree))


def _source(table: Any, schema: Schema, known: Named_queries) -> Query | None:
    """The query that FROM takes its rows from, or None where it is the release itself."""
    if table.key == "subquery":
        return flatten(table, schema, known)
    return known.get(table.name.lower()) if table.key == "table" and not table.text("db") else None


def _end(tree: exp.Expression) -> tuple[RawStep, ...]:
    order, limit = tree.args.get("order"), whole(tree.args.get("limit"), "LIMIT")
    offset = whole(tree.args.get("offset"), "OFFSET") or 0
    steps = [RawStep("sort", tuple(order.expressions))] if order else []
    return (*steps, RawStep("take", (), "", limit, offset)) if limit is not None or offset else tuple(steps)


def _level(select: exp.Expression, source: Flat | None, schema: Schema) -> Flat:
    """One SELECT written over the one that it takes its rows from."""
    inside = substituted(select, source)
    items = _items(inside, source, schema)
    columns = {name.lower() for name in (*schema.domain.names, *schema.measures)}
    plain = alias_resolver(items, columns if source is None else set())
    where, group, having = (inside.args.get(name) for name in ("where", "group", "having"))
    conditions = (plain(where.this),) if where else ()
    order, qualify = inside.args.get("order"), inside.args.get("qualify")
    asked = [item.node for item in items] + ([having.this] if having else []) + (order.expressions if order else [])
    outer = source is not None and source.sets is not None
    clauses = (select.args.get(name) for name in ("where", "order", "qualify"))
    written = [*select.expressions, *(clause for clause in clauses if clause)]
    if outer and (group or having or aggregates_in(written)):
        raise unsupported("an aggregate of what a subquery has aggregated", _ONE_LEVEL)
    steps = list(source.steps) if source is not None and outer else []
    if source is not None and not outer and any(step.kind == "take" for step in source.steps):
        raise unsupported("LIMIT in a subquery that groups nothing", "a release holds no rows to cut short")
    if outer and source is not None:
        base, wheres, sets = source.base, source.wheres, source.sets
        steps += [RawStep("keep", (condition,), "WHERE") for condition in conditions]
    else:
        base, wheres = (select, conditions) if source is None else (source.base, source.wheres + conditions)
        sets = grouping_sets(group, items, plain) if group else None
        if sets is None and (having or any(aggregates_in(node) for node in asked)):
            sets = ((),)
        if sets is None and inside.args.get("distinct"):
            sets = (tuple(item.node for item in items if not item.measure),)
            items = tuple(item for item in items if not item.measure)
        if having:
            steps.append(RawStep("keep", (plain(having.this),), "HAVING"))
    flat = Flat(base, wheres, sets, items, tuple(steps))
    totals = totals_in(asked)
    if totals and flat.filtered:
        raise unsupported(
            f"{quoted(totals[0])} after groups were left out",
            "write the total as a subquery of its own, or leave groups out in a SELECT around this one",
        )
    return _finished(flat, inside, order, qualify, columns if source is None else set())


def _finished(flat: Flat, inside: Any, order: Any, qualify: Any, columns: set[str]) -> Flat:
    """The last steps of a level: ranks, QUALIFY, DISTINCT, ORDER BY, LIMIT."""
    steps = list(flat.steps)
    before = sum(step.kind == "rank" for step in steps)
    rules = [] if order is None else order.expressions
    conditions = [] if qualify is None else [qualify.this]
    plain, first = alias_resolver(flat.items, columns), alias_resolver(flat.items, set())
    nodes = [*(item.node for item in flat.items), *map(plain, conditions), *map(first, rules)]
    nodes, ranks = ranks_replaced(nodes, before)
    steps += [RawStep("rank", (rank,)) for rank in ranks]
    size = len(flat.items)
    items = tuple(replace(item, node=node) for item, node in zip(flat.items, nodes[:size], strict=True))
    steps += [RawStep("keep", (node,), "QUALIFY") for node in nodes[size : size + len(conditions)]]
    distinct = inside.args.get("distinct")
    if distinct is not None and distinct.args.get("on"):
        raise unsupported("DISTINCT ON", "use RANK or ROW_NUMBER in a subquery")
    if distinct is not None and flat.sets is not None:
        steps.append(RawStep("once", tuple(item.node for item in items)))
    if order is not None:
        steps.append(RawStep("sort", tuple(_placed(node, items) for node in nodes[size + len(conditions) :])))
    steps += [step for step in _end(inside) if step.kind == "take"]
    return replace(flat, items=items, steps=tuple(steps))


def _placed(rule: Any, items: tuple[Named, ...]) -> Any:
    """A rule of ORDER BY with a place in the select list replaced by what stands there."""
    if rule.this.key != "literal" or rule.this.args.get("is_string"):
        return rule
    place = rule.this.name
    if not place.isdigit() or not 1 <= int(place) <= len(items):
        raise QueryError(f"ORDER BY {place} is not a place in the select list; its places are 1 to {len(items)}")
    placed = rule.copy()
    placed.set("this", items[int(place) - 1].node.copy())
    return placed


def _items(select: Any, source: Flat | None, schema: Schema) -> tuple[Named, ...]:
    """The select list, with * written out."""
    from sqlglot import exp

    found: list[Named] = []
    for node in select.expressions:
        if not is_star(node):
            found.append(Named(node.alias or None, node.unalias()))
        elif source is not None:
            found += source.items
        else:
            names = dict.fromkeys((*schema.domain.names, *schema.measures))
            found += [Named(name, exp.column(name, quoted=True), measure=name not in schema.domain) for name in names]
    return tuple(found)
