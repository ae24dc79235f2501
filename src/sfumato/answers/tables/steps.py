"""Steps on the rows of a table: keep some, rank them, sort them, take the first."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sfumato.answers.estimate import Estimate
from sfumato.answers.tables.cells import work_out
from sfumato.effort import spend
from sfumato.errors import QueryError
from sfumato.sql.table.plan import Keep, Once, Rank, Rule, Sort, Step, Take, trees_of
from sfumato.sql.values.tree import Ref, size

Row = list[Any]
Orders = Mapping[int, Mapping[Any, int]]  # for places whose values have an order of their own: that of the schema


def done(step: Step, rows: list[Row], orders: Orders) -> list[Row]:
    """The rows after a step."""
    spend(len(rows) * sum(map(size, trees_of(step))), "a condition, rank or order on the rows of the answer")
    if isinstance(step, Keep):
        return [row for row in rows if _holds(work_out(step.condition, row))]
    if isinstance(step, Take):
        return rows[step.offset : None if step.limit is None else step.offset + step.limit]
    if isinstance(step, Sort):
        return _sorted(rows, step.rules, orders)
    if isinstance(step, Once):
        seen = {tuple(work_out(tree, row) for tree in step.by): row for row in reversed(rows)}
        return list(seen.values())[::-1]
    return _ranked(step, rows, orders)


def _holds(value: Any) -> bool:
    """Whether a condition is true: a number is where it is not zero, text and NULL are not."""
    value = value.value if isinstance(value, Estimate) else value
    return isinstance(value, int | float) and bool(value)


def _sorted(rows: list[Row], rules: tuple[Rule, ...], orders: Orders) -> list[Row]:
    """Sorted by the last rule first, which leaves the first rule to decide; NULL comes last unless told otherwise."""
    for rule in reversed(rules):
        values = [(_value(rule, row, orders), row) for row in rows]
        known = [pair for pair in values if pair[0] is not None]
        unknown = [row for value, row in values if value is None]
        try:
            known.sort(key=lambda pair: pair[0], reverse=rule.descending)
        except TypeError:
            raise QueryError("ORDER BY has values of several types to compare; sort by one of them") from None
        ordered = [row for _, row in known]
        rows = [*unknown, *ordered] if rule.nulls_first else [*ordered, *unknown]
    return rows


def _value(rule: Rule, row: Row, orders: Orders) -> Any:
    """What a rule compares rows by."""
    value = work_out(rule.by, row)
    if isinstance(value, Estimate):
        return None if math.isnan(value.value) else value.value
    if value is not None and isinstance(rule.by, Ref) and rule.by.place in orders:  # NULL has no place in any order
        return orders[rule.by.place].get(value)
    return value


def _ranked(step: Rank, rows: list[Row], orders: Orders) -> list[Row]:
    """The rows with their rank as one more cell, in the order in which they were."""
    ranks: dict[int, int] = {}
    parts: dict[Any, list[Row]] = {}
    for row in rows:
        parts.setdefault(tuple(work_out(tree, row) for tree in step.within), []).append(row)
    for part in parts.values():
        rank = dense = 0
        before: Any = None
        for number, row in enumerate(_sorted(part, step.rules, orders), 1):
            values = [_value(rule, row, orders) for rule in step.rules]
            if values != before:
                rank, dense, before = number, dense + 1, values
            ranks[id(row)] = {"rank": rank, "denserank": dense}.get(step.kind, number)
    return [[*row, ranks[id(row)]] for row in rows]
