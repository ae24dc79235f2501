"""Flatten a statement: WITH and subqueries in FROM are written into the SELECT around them, so that one level is left.

The outer SELECT names columns of the inner one; putting their expressions in their place leaves the question unchanged,
and arithmetic across aggregates stays arithmetic of amounts, with the noise that they share. Whatever a SELECT does
with rows of groups (HAVING, ranks, ORDER BY, LIMIT, an outer WHERE) becomes a list of steps, innermost first. GROUP BY
becomes grouping sets: plain lists, GROUPING SETS, ROLLUP and CUBE, and products of them.

Row operations of a table: filter, rank, sort, limit and distinct, on whatever stands for a value in its rows.

Rows of public values are worked on while a statement is compiled, rows of estimates when it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import TYPE_CHECKING, Any

from sfumato.effort import MOST_ITEMS, MOST_RULES, MOST_SETS, at_most, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.predicates import whole
from sfumato.sql.scope import bare, number, place_of, text_of, unsupported
from sfumato.sql.table.plan import Keep, Once, Rank, Rule, Sort, Step, Take, trees_of
from sfumato.sql.table.syntax import (
    Named,
    aggregates_in,
    alias_resolver,
    is_error_node,
    is_star,
    name_of,
    rank_name,
    ranks_replaced,
    substituted,
)
from sfumato.sql.values.tree import Ref, Tree, size

if TYPE_CHECKING:
    from sqlglot import exp

Keys = tuple[Any, ...]


def grouping_sets(group: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> tuple[Keys, ...]:
    """Grouping sets of a GROUP BY, as sets of keys; plain: replaces aliases by their expressions."""
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


def written_over(select: exp.Expression, source: Flat | None, own: tuple[Named, ...]) -> Flat:
    """Merge a SELECT with its source, the SELECT in its FROM. own: columns of its table, where that is no SELECT.

    Over a source that groups rows, the SELECT must work on each group by itself.
    """
    inside = substituted(select, source)
    outer = source is not None and source.sets is not None
    items = _items(select, inside, source, own)
    columns = {name_of(item).lower() for item in own}
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
    return _finished(flat, inside, order, qualify, columns if source is None else set())


def _finished(flat: Flat, inside: Any, order: Any, qualify: Any, columns: set[str]) -> Flat:
    """Add the last steps of a SELECT: ranks, QUALIFY, DISTINCT, ORDER BY, LIMIT."""
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
    items = tuple(
        replace(item, node=node, name=item.name or rank_name(item.node))
        for item, node in zip(flat.items, nodes[:size], strict=True)
    )
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
    """Replace a position in ORDER BY by the expression of the select list."""
    if rule.this.key != "literal" or rule.this.args.get("is_string"):
        return rule
    placed = rule.copy()
    placed.set("this", items[place_of(rule.this, len(items), "ORDER BY")].node.copy())
    return placed


def _items(written: Any, select: Any, source: Flat | None, own: tuple[Named, ...]) -> tuple[Named, ...]:
    """The select list, with * written out. written: as it was, with the names that a subquery gives its columns."""
    starred = len(source.items) if source is not None else len(own)
    length = sum(starred if is_star(node) else 1 for node in select.expressions)
    at_most(length, MOST_ITEMS, "columns are in a select list", "ask for them in several statements")
    found: list[Named] = []
    given = {} if source is None else {name_of(item).lower(): name_of(item) for item in source.items}
    for before, node in zip(written.expressions, select.expressions, strict=True):
        if not is_star(node):
            name = given.get(before.name.lower()) if before.key == "column" else None
            name = before.name if before.key == "column" and is_error_node(node) else name
            found.append(Named(node.alias or name, node.unalias()))
        else:
            found += own if source is None else source.items
    return tuple(found)


def columns_of(schema: Schema) -> tuple[Named, ...]:
    """The columns of the release itself."""
    from sqlglot import exp

    names = dict.fromkeys((*schema.domain.names, *schema.measures))
    return tuple(Named(name, exp.column(name, quoted=True), measure=name not in schema.domain) for name in names)


# -- row steps

Row = Sequence[Any]
Orders = Mapping[int, Mapping[Any, int]]  # for places whose values have an order of their own: that of the schema
Value = Callable[[Tree, Row], Any]  # the plain value of an expression on a row; None where it is NULL or unknown


def done(step: Step, rows: list[Any], orders: Orders, value: Value) -> list[Any]:
    """Apply a step to the rows: filter, limit, sort, distinct or rank."""
    spend(len(rows) * sum(map(size, trees_of(step))), "a condition, rank or order on the rows of the answer")
    if isinstance(step, Keep):
        return [row for row in rows if holds(value(step.condition, row))]
    if isinstance(step, Take):
        return rows[step.offset : None if step.limit is None else step.offset + step.limit]
    if isinstance(step, Sort):
        return ordered(rows, step.rules, orders, value)
    if isinstance(step, Once):
        seen = {tuple(value(tree, row) for tree in step.by): row for row in reversed(rows)}
        return list(seen.values())[::-1]
    return [[*row, rank] for row, rank in zip(rows, ranks(step, rows, orders, value), strict=True)]


def holds(value: Any) -> bool:
    """Truth value of a condition: nonzero numbers are true, text and NULL are not."""
    return isinstance(value, int | float) and bool(value)


def ordered(rows: Sequence[Any], rules: tuple[Rule, ...], orders: Orders, value: Value) -> list[Any]:
    """Sort rows by several keys with stable sorts, last key first; NULLs go last unless told otherwise."""
    found = list(rows)
    for rule in reversed(rules):
        values = [(sort_key(rule, row, orders, value), row) for row in found]
        valued = [pair for pair in values if pair[0] is not None]
        unknown = [row for key, row in values if key is None]
        try:
            valued.sort(key=lambda pair: pair[0], reverse=rule.descending)
        except TypeError:
            raise QueryError("ORDER BY has values of several types to compare; sort by one of them") from None
        known = [row for _, row in valued]
        found = [*unknown, *known] if rule.nulls_first else [*known, *unknown]
    return found


def sort_key(rule: Rule, row: Row, orders: Orders, value: Value) -> Any:
    """Sort key of a row: a schema order where the values have one."""
    found = value(rule.by, row)
    if found is not None and isinstance(rule.by, Ref) and rule.by.place in orders:  # NULL has no place in any order
        return orders[rule.by.place].get(found)
    return found


def partitions(rows: Sequence[Any], within: tuple[Tree, ...], value: Value) -> list[list[Any]]:
    """Rows that agree in all expressions, in the order in which they first appear."""
    parts: dict[Any, list[Any]] = {}
    for row in rows:
        parts.setdefault(tuple(value(tree, row) for tree in within), []).append(row)
    return list(parts.values())


def ranks(step: Rank, rows: Sequence[Any], orders: Orders, value: Value) -> list[float]:
    """Rank of each row within its partition."""
    found: dict[int, float] = {}
    for part in partitions(rows, step.within, value):
        rank = dense = 0
        before: Any = None
        for place, row in enumerate(ordered(part, step.rules, orders, value)):
            keys = [sort_key(rule, row, orders, value) for rule in step.rules]
            if keys != before:
                rank, dense, before = place + 1, dense + 1, keys
            found[id(row)] = _rank(step, place, rank, dense, len(part))
    return [found[id(row)] for row in rows]


def _rank(step: Rank, place: int, rank: int, dense: int, rows: int) -> float:
    """Rank by the kind that was asked for; place: of the row, from 0, among `rows` sorted ones."""
    if step.kind == "ntile":  # the first tiles have a row more where rows are no multiple of them
        size_of_tile, larger = divmod(rows, step.tiles)
        first = larger * (size_of_tile + 1)
        return 1 + (place // (size_of_tile + 1) if place < first else larger + (place - first) // size_of_tile)
    if step.kind == "percentrank":
        return (rank - 1) / (rows - 1) if rows > 1 else 0
    return {"rank": rank, "denserank": dense}.get(step.kind, place + 1)
