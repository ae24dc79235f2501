"""Row operations of a table: filter, rank, sort, limit and distinct, on whatever stands for a value in its rows.

Rows of public values are worked on while a statement is compiled, rows of estimates when it is answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sfumato.effort import spend
from sfumato.errors import QueryError
from sfumato.sql.table.plan import Keep, Once, Rank, Rule, Sort, Step, Take, trees_of
from sfumato.sql.values.tree import Ref, Tree, size

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
