"""Compile a plain SELECT, as text, to a plan: its columns, groups, order, and notes for the reader.

Statistics such as a median come from counts in bins; a note for each says how.

>>> read_workload("SELECT COUNT(*) FROM census; -- and that is all")
['SELECT COUNT(*) FROM census']
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.domain import Axis
from sfumato.domain.predicates import Predicate
from sfumato.effort import MOST_ITEMS, MOST_RULES, at_most, counted
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.plan import Column, Cut, Formula, Key, Order, Quantile, Select, Spread
from sfumato.sql.predicates import beyond_notes, check_clauses, table_scope, where, whole
from sfumato.sql.reading import parse, read_workload, silence, too_deep
from sfumato.sql.scope import Scope, bare, in_words, number, unsupported
from sfumato.sql.select_list import read_column

if TYPE_CHECKING:
    from sqlglot import exp


def statistic_notes(columns: Iterable[Column], schema: Schema) -> list[str]:
    """The notes of all statistics among some columns, each once."""
    found = (note for column in columns for rule in _rules(column) for note in _notes(rule, schema.domain[rule.of]))
    return list(dict.fromkeys(found))


def _rules(column: Column) -> Iterator[Quantile | Spread]:
    if isinstance(column.rule, Formula):
        for part in column.rule.columns:
            yield from _rules(part)
    elif column.rule is not None:
        yield column.rule


def _notes(rule: Quantile | Spread, axis: Axis) -> Iterator[str]:
    binned = bool(axis.kind == "number" or axis.timed or (axis.edges[1:] - axis.edges[:-1] > 1.0).any())
    if isinstance(rule, Spread):
        if binned:
            yield (
                f"{axis.name} is known by its bins only: its variance takes every row at the middle of its bin, and "
                "the interval allows for any place in it"
            )
    elif rule.share in (0.0, 1.0):
        what, there = ("least", "at or below") if rule.share == 0.0 else ("greatest", "at or above")
        yield (
            f"the {what} {axis.name} is the {'first' if what == 'least' else 'last'} with surely a row {there} it: "
            "single rows further out do not show through the noise, and the interval says how far out they may be"
        )
    elif binned:
        yield (
            f"{axis.name} is known by its bins only: a quantile takes rows as spread evenly inside a bin, and its "
            "interval reaches to the ends of bins"
        )


__all__ = ["compile_select", "read_workload"]

_CLAUSES = ("expressions", "from", "where", "group", "order", "limit", "offset")
_SUFFIXES = ("", "_stderr", "_low", "_high", "_real")  # what an answer appends to the name of an aggregate


def compile_select(text: str, schema: Schema) -> Select:
    """The plan of one SELECT statement over the table that a schema describes."""
    try:
        with silence(), counted():
            return compile_tree(parse(text), schema)
    except RecursionError:
        raise too_deep() from None


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


def noted(select: Select, scope: Scope) -> Select:
    """Add the notes to a plan."""
    cuts = _cuts_that_matter(select, scope)
    statistics = statistic_notes(select.aggregates, scope.schema)
    others = (*beyond_notes(scope.beyond, scope.schema), *dict.fromkeys(scope.unmatched))
    return replace(select, cuts=cuts, notes=(*_cut_notes(cuts), *_middle_notes(scope), *statistics, *others))


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
        node = bare(items[_place(node, items, "GROUP BY")].unalias())
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


def unique_names(wanted: list[tuple[str, bool]]) -> list[str]:
    """Names that cannot be mistaken for each other; those of keys, which name attributes, before those of numbers."""
    taken, names = set[str](), {}
    for place, (wish, is_number) in sorted(enumerate(wanted), key=lambda item: item[1][1]):
        suffixes = _SUFFIXES if is_number else _SUFFIXES[:1]
        name, number_of_it = wish, 1
        while any(name + suffix in taken for suffix in suffixes):
            number_of_it += 1
            name = f"{wish}_{number_of_it}"
        taken.update(name + suffix for suffix in suffixes)
        names[place] = name
    return [names[place] for place in range(len(wanted))]


def _order_by(clause: Any, query: _Query, columns: tuple[Key | Column, ...]) -> tuple[Order, ...]:
    rules = clause.expressions if clause else []
    at_most(len(rules), MOST_RULES, "keys are in ORDER BY", "name each key once")
    return tuple(
        Order(_target(bare(rule.this), query, columns), bool(rule.args.get("desc")), bool(rule.args.get("nulls_first")))
        for rule in rules
    )


def _target(node: Any, query: _Query, columns: tuple[Key | Column, ...]) -> int | Key | Column:
    """A place in the select list, or a column that is worked out only to sort by it."""
    if node.key == "literal":
        return _place(node, query.items, "ORDER BY")
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


def _place(node: exp.Expression, items: list[Any], clause: str) -> int:
    """The index in the select list (from 0) that a number in GROUP BY or ORDER BY means."""
    place, length = number(node), len(items)
    if place is None or not place.is_integer() or not 1 <= place <= length:
        raise QueryError(f"{clause} {node.name} is not a place in the select list; its places are 1 to {length}")
    return int(place) - 1


def _cuts_that_matter(select: Select, scope: Scope) -> tuple[Cut, ...]:
    """The cuts that remain in the whole condition: income < 2500 OR income >= 2500 cuts no cell."""
    predicates = {select.where, *(amount.predicate for amount in select.amounts)}
    cut = {name for predicate in predicates for name in predicate.cuts(scope.schema.domain)} if scope.cuts else set()
    return tuple(dict.fromkeys(found for found in scope.cuts if found.attribute in cut))


def _cut_notes(cuts: tuple[Cut, ...]) -> list[str]:
    return [
        f"{cut.what}: rows are taken as spread evenly inside a bin, and the interval allows for any spread"
        for cut in cuts
    ]


def _middle_notes(scope: Scope) -> list[str]:
    return [
        f"{name} is known by its bins only: sums and averages take every row at the middle of its bin, "
        "and the interval allows for any place in it"
        for name in dict.fromkeys(scope.middles)
    ]


def _alike(first: str, second: str) -> bool:
    return first.lower() == second.lower()
