"""Flatten a statement: WITH and subqueries in FROM are written into the SELECT around them, so that one level is left.

The outer SELECT names columns of the inner one; putting their expressions in their place leaves the question unchanged,
and arithmetic across aggregates stays arithmetic of amounts, with the noise that they share. Whatever a SELECT does
with rows of groups (HAVING, ranks, ORDER BY, LIMIT, an outer WHERE) becomes a list of steps, innermost first. GROUP BY
becomes grouping sets: plain lists, GROUPING SETS, ROLLUP and CUBE, and products of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, Any

from sfumato.effort import MOST_ITEMS, MOST_RULES, MOST_SELECTS, MOST_SETS, OF_A_NODE, at_most, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.predicates import check_clauses, table_scope, whole
from sfumato.sql.scope import bare, in_words, nodes_in, number, place_of, quoted, text_of, unsupported
from sfumato.sql.table.sums_of_groups import sums_of_rows
from sfumato.sql.table.syntax import (
    Named,
    aggregates_in,
    alias_resolver,
    is_star,
    name_of,
    own_nodes,
    ranks_replaced,
    substituted,
    totals_in,
)

if TYPE_CHECKING:
    from sqlglot import exp

Keys = tuple[Any, ...]


def grouping_sets(group: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> tuple[Keys, ...]:
    """The sets of keys by which rows are grouped; plain: puts in what an alias stands for."""
    extras = [key for key, value in group.args.items() if value and key not in ("expressions", "all")]
    if extras:
        raise unsupported(f"GROUP BY ... WITH {extras[0].upper()}", f"write GROUP BY {extras[0].upper()} (...)")
    if group.args.get("all"):
        return (tuple(item.node for item in items if not aggregates_in(item.node) and number(item.node) is None),)
    at_most(len(group.expressions), MOST_RULES, "keys are in GROUP BY", "name each key once")
    at_most(prod(map(_number, group.expressions)), MOST_SETS, "grouping sets are in GROUP BY", "name fewer keys")
    parts = [_sets(node, items, plain) for node in group.expressions]
    return tuple(_once(key for keys in chosen for key in keys) for chosen in product(*parts))


def _number(node: Any) -> int:
    """The number of grouping sets of one item of GROUP BY, counted before any is listed."""
    at_most(len(node.expressions), MOST_RULES, f"keys are in {node.key.upper()}", "name each key once")
    if node.key == "rollup":
        return len(node.expressions) + 1
    if node.key == "cube":
        return 1 << len(node.expressions)
    return sum(map(_number, node.expressions)) if node.key == "groupingsets" else 1


def _sets(node: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> list[Keys]:
    """The sets that one item of GROUP BY stands for."""
    if node.key == "rollup":
        steps = [_keys(part, items, plain) for part in node.expressions]
        return [_once(key for step in steps[:length] for key in step) for length in range(len(steps), -1, -1)]
    if node.key == "cube":
        steps = [_keys(part, items, plain) for part in node.expressions]
        chosen = (some for length in range(len(steps), -1, -1) for some in combinations(steps, length))
        return [_once(key for step in some for key in step) for some in chosen]
    if node.key == "groupingsets":
        return [keys for part in node.expressions for keys in _sets(part, items, plain)]
    return [_keys(node, items, plain)]


def _keys(node: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> Keys:
    """Expressions that one item of GROUP BY names: an expression, a column's number, or several in parentheses.

    items: columns of the SELECT, for numbers. plain: replaces names of columns by their expressions.
    """
    node = bare(node)
    if node.key == "tuple":
        return tuple(key for part in node.expressions for key in _keys(part, items, plain))
    if node.key == "literal" and not node.args.get("is_string"):
        node = items[place_of(node, len(items), "GROUP BY")].node
    found = bare(plain(node))
    if aggregates_in(found):
        raise unsupported("an aggregate in GROUP BY", "group by attributes, or by expressions of them")
    return (found,)


def _once(keys: Iterable[Any]) -> Keys:
    return tuple({text_of(key): key for key in keys}.values())


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


def last_steps(tree: exp.Expression) -> tuple[RawStep, ...]:
    """ORDER BY and LIMIT."""
    order, limit = tree.args.get("order"), whole(tree.args.get("limit"), "LIMIT")
    offset = whole(tree.args.get("offset"), "OFFSET") or 0
    steps = [RawStep("sort", tuple(order.expressions))] if order else []
    return (*steps, RawStep("take", (), "", limit, offset)) if limit is not None or offset else tuple(steps)


def written_over(select: exp.Expression, source: Flat | None, schema: Schema) -> Flat:
    """One SELECT written over the one that it takes its rows from."""
    inside = substituted(select, source)
    clauses = (select.args.get(name) for name in ("where", "order", "qualify"))
    written = [*select.expressions, *(clause for clause in clauses if clause)]
    outer = source is not None and source.sets is not None
    if source is not None and outer and (_groups(select) or aggregates_in(written)):
        inside, source, outer = sums_of_rows(select, inside, source), replace(source, sets=None, steps=()), False
    items = _items(select, inside, source, schema)
    columns = {name.lower() for name in (*schema.domain.names, *schema.measures)}
    plain = alias_resolver(items, columns if source is None else set())
    where, group, having = (inside.args.get(name) for name in ("where", "group", "having"))
    conditions = (plain(where.this),) if where else ()
    order, qualify = inside.args.get("order"), inside.args.get("qualify")
    asked = [item.node for item in items] + ([having.this] if having else []) + (order.expressions if order else [])
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


def _groups(select: Any) -> bool:
    return any(select.args.get(name) for name in ("group", "having"))


def _finished(flat: Flat, inside: Any, order: Any, qualify: Any, columns: set[str]) -> Flat:
    """The last steps of a level: ranks, QUALIFY, DISTINCT, ORDER BY, LIMIT."""
    steps = list(flat.steps)
    before = sum(step.kind == "rank" for step in steps)
    rules = [] if order is None else order.expressions
    at_most(len(rules), MOST_RULES, "keys are in ORDER BY", "name each key once")
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
    steps += [step for step in last_steps(inside) if step.kind == "take"]
    return replace(flat, items=items, steps=tuple(steps))


def _placed(rule: Any, items: tuple[Named, ...]) -> Any:
    """A rule of ORDER BY with a place in the select list replaced by what stands there."""
    if rule.this.key != "literal" or rule.this.args.get("is_string"):
        return rule
    placed = rule.copy()
    placed.set("this", items[place_of(rule.this, len(items), "ORDER BY")].node.copy())
    return placed


def _items(written: Any, select: Any, source: Flat | None, schema: Schema) -> tuple[Named, ...]:
    """The select list, with * written out. written: as it was, with the names that a subquery gives its columns."""
    from sqlglot import exp

    starred = len(source.items) if source is not None else len({*schema.domain.names, *schema.measures})
    length = sum(starred if is_star(node) else 1 for node in select.expressions)
    at_most(length, MOST_ITEMS, "columns are in a select list", "ask for them in several statements")
    found: list[Named] = []
    given = {} if source is None else {name_of(item).lower(): name_of(item) for item in source.items}
    for before, node in zip(written.expressions, select.expressions, strict=True):
        if not is_star(node):
            name = given.get(before.name.lower()) if before.key == "column" else None
            found.append(Named(node.alias or name, node.unalias()))
        elif source is not None:
            found += source.items
        else:
            names = dict.fromkeys((*schema.domain.names, *schema.measures))
            found += [Named(name, exp.column(name, quoted=True), measure=name not in schema.domain) for name in names]
    return tuple(found)


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
