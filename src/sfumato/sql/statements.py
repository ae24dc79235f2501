"""A statement, as text, to what a release has to work out for it: one plain SELECT, or tables made of several.

>>> from sfumato.schema import Schema
>>> schema = Schema.from_dict({"dataset": "t", "privacy_unit": "row", "attributes": {
...     "age": {"type": "integer", "lower": 0, "upper": 99}, "smoker": {"type": "boolean"}}})
>>> statement = compile_statement("SELECT FLOOR(age / 50) AS half, COUNT(*) FROM t GROUP BY half", schema)
>>> [block.keys for block in statement.tables[0].parts[0].blocks]
[(0,), (1,)]
"""

from __future__ import annotations

import threading

from sfumato.effort import TooMuchWork, counted
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.compile import compile_tree
from sfumato.sql.plan import Select
from sfumato.sql.reading import parse, silence, too_deep
from sfumato.sql.scope import bare, place_in, unsupported
from sfumato.sql.table.build import build_table
from sfumato.sql.table.flatten import flatten
from sfumato.sql.table.level import RawStep
from sfumato.sql.table.plan import Item, Rule, Sort, Step, Table, Tables, Take
from sfumato.sql.values.tree import Ref

Statement = Select | Tables


MOST_KNOWN, MOST_CHARACTERS = 64, 2**12  # statements that a thread keeps, and of what length it keeps several


class _Known(threading.local):
    """Statements that a thread compiled: a question is measured, then answered, and often asked of many releases."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, int], tuple[Schema, Statement]] = {}


_KNOWN = _Known()


def compile_statement(text: str, schema: Schema) -> Statement:
    """What a statement over the table that a schema describes asks for."""
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
