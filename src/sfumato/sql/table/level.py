"""One SELECT written over the one that it takes its rows from.

What it does with rows of groups (HAVING, ranks, ORDER BY, LIMIT, an outer WHERE) becomes a list of steps, innermost
first.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.effort import MOST_ITEMS, MOST_RULES, at_most
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.clauses import whole
from sfumato.sql.scope import place_in, quoted, unsupported
from sfumato.sql.table.grouping import grouping_sets
from sfumato.sql.table.sums_of_groups import sums_of_rows
from sfumato.sql.table.syntax import (
    Named,
    aggregates_in,
    alias_resolver,
    is_star,
    name_of,
    ranks_replaced,
    substituted,
    totals_in,
)

if TYPE_CHECKING:
    from sqlglot import exp


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
    place = place_in(rule.this, len(items))
    if place is None:
        raise QueryError(
            f"ORDER BY {rule.this.name} is not a place in the select list; its places are 1 to {len(items)}"
        )
    placed = rule.copy()
    placed.set("this", items[place].node.copy())
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
