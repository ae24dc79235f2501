"""Compile SELECT * FROM t LIMIT 5, a SELECT of columns that groups nothing: rows to be drawn, as a release has none.

Also the condition of rows by itself, as `sfumato sample --where` takes it.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.plan import unique_names
from sfumato.sql.predicates import beyond_notes, check_clauses, read_condition, table_scope, where
from sfumato.sql.reading import compiling, parse
from sfumato.sql.scope import Scope, quoted, unsupported
from sfumato.sql.table.flatten import Flat
from sfumato.sql.table.plan import Item, Rule, Sort
from sfumato.sql.values.translate import translate
from sfumato.sql.values.tree import Lookup, Ref, Tree

MARK = "synthetic_row"  # the column that numbers rows which are nobody's


@dataclass(frozen=True)
class SyntheticRows:
    """A plan of synthetic rows.

    columns: attributes and measures, whose values items and order refer to by place. where: the rows to keep. number:
    how many are asked for, behind the first `offset`.
    """

    columns: tuple[str, ...]
    where: Predicate
    items: tuple[Item, ...]
    order: Sort
    number: int
    offset: int
    notes: tuple[str, ...] = ()


def compile_where(text: str, schema: Schema) -> Predicate:
    """The rows that a condition alone keeps, such as "age < 30 AND sex = 'F'"; refused if none can fulfil it.

    >>> people = Schema(dataset="people", privacy_unit="row", attributes={"ill": {"type": "boolean"}})
    >>> compile_where("ill OR NOT ill", people) == Predicate.everything()
    True
    """
    if not text.strip():
        raise QueryError("the condition is empty; write one as in SQL behind WHERE: age < 30 AND sex = 'F'")
    with compiling():
        tree = parse(f"SELECT * FROM release WHERE {text}\n", schema=schema)
        if tree.key != "select":
            raise unsupported("more than a condition", "write only what stands behind WHERE: age < 30 AND sex = 'F'")
        check_clauses(tree, ("expressions", "from", "where"), " behind a condition")
        scope = table_scope(tree, schema)
        kept = where(tree, scope)
    if not kept:
        why = [*beyond_notes(scope.beyond, schema), *dict.fromkeys(scope.unmatched)]
        raise QueryError("; ".join(["no row can fulfil the condition", *why]))
    return kept


def asks_for_rows(flat: Flat) -> bool:
    """Whether a SELECT names columns, groups nothing, and says how many rows it wants."""
    limited = any(step.kind == "take" and step.limit is not None for step in flat.steps)
    named = any(part.key == "column" for item in flat.items for part in item.node.walk())
    return flat.sets is None and limited and named


def compile_rows(flat: Flat, schema: Schema) -> SyntheticRows:
    """The plan of a SELECT that asks for rows."""
    scope = table_scope(flat.base, schema)
    where = reduce(and_, (read_condition(node, scope) for node in flat.wheres), scope.rows)
    columns: list[str] = []

    def read(node: Any, place: str) -> Tree:
        return translate(node, lambda part: _leaf(part, scope, columns), place)

    rules: list[Rule] = []
    number = offset = 0
    for step in flat.steps:
        if step.kind == "sort":
            rules = [
                Rule(read(one.this, "ORDER BY"), bool(one.args.get("desc")), bool(one.args.get("nulls_first")))
                for one in step.nodes
            ]
        elif step.kind == "take":
            number, offset = step.limit or 0, step.offset
        else:
            raise unsupported("a rank of rows", "a release has no rows; rank groups: RANK() OVER (ORDER BY COUNT(*))")
    trees = [(item.name or _called(item.node, scope), read(item.node, "the select list")) for item in flat.items]
    names = unique_names([(name, False) for name, _ in trees])
    items = tuple(Item(name, tree, False) for name, (_, tree) in zip(names, trees, strict=True))
    return SyntheticRows(tuple(columns), where, items, Sort(tuple(rules)), number, offset)


def _called(node: Any, scope: Scope) -> str:
    return scope.name_of(node) if node.key == "column" else quoted(node)


def _leaf(node: Any, scope: Scope, columns: list[str]) -> Tree | None:
    """The place of a column's value in a drawn row; None for any other node. columns: extended in place."""
    if node.key != "column" or node.this.key == "star":
        return None
    name, groups = scope.attribute_of(node), scope.groups_of(node)
    if name not in columns:
        columns.append(name)
    place = columns.index(name)
    if groups is None:
        return Ref(place)
    return Lookup(place, tuple(zip(scope.schema.domain[name].labels(), groups, strict=True)))
