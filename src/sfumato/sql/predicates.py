"""Conditions to predicates: the rows that a WHERE, a FILTER or a CASE WHEN selects; and the clauses of a SELECT.

Where rows without a value are kept, a condition has three outcomes: it is neither true nor false of them.

Values beyond an attribute's bounds count at the bound, so a condition on such values finds none; a note says so.

Every SELECT, also one inside parentheses, has its clauses, its table and its WHERE checked here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.domain import END, START, Axis, Place, ValueSet
from sfumato.domain.predicates import Predicate, intersection, union
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.schema.parts import bounds_of
from sfumato.sql.expressions import read_falsity, read_truth
from sfumato.sql.plan import Select, statistic_notes
from sfumato.sql.scope import (
    SCHEMAS,
    TIMESTAMPS,
    Constant,
    Scope,
    Span,
    bare,
    constant,
    fitted,
    in_words,
    number,
    quoted,
    together,
    unsupported,
)
from sfumato.sql.values.dates import has_time, without_zone

if TYPE_CHECKING:
    from sqlglot import exp


def lies_beyond(axis: Axis, values: ValueSet) -> bool:
    """Whether a span of values lies wholly where no row is counted, so that it finds none whatever the table holds.

    >>> import numpy as np
    >>> age = Axis("age", "integer", np.arange(101.0))
    >>> [lies_beyond(age, ValueSet.above(value, inclusive=False)) for value in (98, 99)]
    [False, True]
    """
    low, high = float(axis.edges[0]), float(axis.edges[-1])
    last = high - 1.0 if axis.discrete else high
    return axis.ordered and any(start > (last, 0) or end < (low, 1) for start, end in values.spans)


def beyond_notes(names: list[str], schema: Schema) -> list[str]:
    """A sentence for each attribute that was compared with values beyond its bounds."""
    found = {name: bounds_of(schema.attributes[name]) for name in dict.fromkeys(names)}
    return [
        f"{name} lies from {bounds[0]} to {bounds[1]}: rows beyond count at the bound and are not found there"
        for name, bounds in found.items()
        if bounds is not None
    ]


Quote = Callable[[], str]

# What `column OP literal` selects, where the literal stands for the values from place a to place b.
_SIDES: dict[str, Callable[[Place, Place], ValueSet]] = {
    "eq": lambda a, b: ValueSet(((a, b),)),
    "neq": lambda a, b: ~ValueSet(((a, b),)),
    "lt": lambda a, _: ValueSet(((START, a),)),
    "lte": lambda _, b: ValueSet(((START, b),)),
    "gt": lambda _, b: ValueSet(((b, END),)),
    "gte": lambda a, _: ValueSet(((a, END),)),
}
_MIRRORED = {"eq": "eq", "neq": "neq", "lt": "gt", "lte": "gte", "gt": "lt", "gte": "lte"}
DAY = 86_400  # seconds
_MISSING = "rows without a value are not in this release, so every row has one: leave the condition out"
_LEFT_OUT = "rows without a value were left out of this release, however many there were"
_WRITE = "compare an attribute with a constant: age >= 18, sex = 'F', age BETWEEN 20 AND 40, sex IN ('F', 'M')"


def read_condition(node: exp.Expression, scope: Scope) -> Predicate:
    """The rows for which a condition holds."""
    return _READERS.get(node.key, read_truth)(node, scope)


def read_denial(node: Any, scope: Scope) -> Predicate:
    """The rows for which a condition is false; of a row without a value most are neither true nor false."""
    node = bare(node)
    if node.key == "not":
        return read_condition(node.this, scope)
    if node.key == "and":
        return union([read_denial(part, scope) for part in node.flatten()])
    if node.key == "or":
        return intersection([read_denial(part, scope) for part in node.flatten()])
    if node.key == "is" and node.args["expression"].key == "null":
        return ~_is_null(node, replace(scope, unmatched=[]))
    columns = sorted({scope.attribute_of(part) for part in node.walk() if part.key == "column"})
    unknown = union([rows_without(name, scope) for name in columns])
    if unknown and not _is_simple(node):
        return read_falsity(node, scope)
    denied = ~read_condition(node, scope)
    return denied if node.key == "is" else denied - unknown


def _is_simple(node: Any) -> bool:
    """Whether a condition compares columns and constants directly, so that it is NULL where a column is."""
    sides = [part for key in ("this", "expression", "low", "high") if (part := node.args.get(key)) is not None]
    return node.key in _READERS and all(not hasattr(side, "key") or _is_plain(bare(side)) for side in sides)


def rows_without(name: str, scope: Scope) -> Predicate:
    """The rows that have no value of an attribute, as far as they are kept."""
    kept = name in scope.schema.domain and scope.schema.domain[name].missing
    return Predicate.where(name, ValueSet.missing()) if kept else Predicate.nothing()


def is_condition(node: exp.Expression) -> bool:
    """Whether a node can only be true or false."""
    return node.key in ("like", "ilike") or (node.key in _READERS and node.key not in ("column", "paren", "literal"))


def compare(operator: str, left: Any, right: Any, scope: Scope, text: Quote) -> Predicate:
    """The rows for which `left operator right` holds; text: quotes the comparison for messages."""
    left, right = _uncast(left, scope), _uncast(right, scope)
    if right.key == "column" and left.key != "column":
        return compare(_MIRRORED[operator], right, left, scope, text)
    if not _is_plain(left) or right.key == "column" or not _is_plain(right):
        return read_truth(_comparison_of(operator, left, right), scope)
    value = _needed(right, text)
    if left.key != "column":
        return _compare_constants(operator, _needed(left, text), value, text)
    axis = _axis(left, scope)
    if operator not in ("eq", "neq"):
        _require_order(axis, text)
    return _select(axis, _SIDES[operator](*_meaning(axis, value)), scope, text)


def _uncast(node: Any, scope: Scope) -> Any:
    """A date attribute without a cast that changes nothing of it: CAST(day AS TIMESTAMP) is the day."""
    node = bare(node)
    inner = bare(node.this) if node.key in ("cast", "trycast", "timestrtotime", "date", "tsordstodate") else node
    if inner is node or inner.key != "column" or scope.name_of(inner) not in scope.schema.domain:
        return node
    axis = scope.schema.domain[scope.name_of(inner)]
    to_day = node.args["to"].is_type("date") if node.args.get("to") else node.key != "timestrtotime"
    to_time = node.args["to"].is_type(*TIMESTAMPS) if node.args.get("to") else not to_day
    return inner if axis.kind == "date" and (to_time or (to_day and not axis.timed)) else node


def _is_plain(node: Any) -> bool:
    """Whether one side of a comparison is a column or a constant, and nothing that has to be worked out."""
    return node.key in ("column", "null") or constant(node) is not None


def _comparison_of(operator: str, left: Any, right: Any) -> Any:
    from sqlglot import exp

    kinds = {"eq": exp.EQ, "neq": exp.NEQ, "lt": exp.LT, "lte": exp.LTE, "gt": exp.GT, "gte": exp.GTE}
    return kinds[operator](this=left.copy(), expression=right.copy())


def _select(axis: Axis, values: ValueSet, scope: Scope, text: Quote) -> Predicate:
    """Predicate of an attribute's values in a set; cells that the set cuts are noted in the scope."""
    present = values & ValueSet.present() if axis.missing else values  # no comparison holds where there is no value
    if axis.name in scope.schema.group_columns:
        name, groups = scope.schema.group_columns[axis.name]
        asked = {axis.values[place] for place in np.flatnonzero(axis.cover(present).sure[: len(axis.values)] > 0)}
        cells = [cell for cell, group in enumerate(groups) if group is not None and group in asked]
        return Predicate.where(name, fitted(scope.schema.domain[name], ValueSet.one_of(map(float, cells))))
    if lies_beyond(axis, present):
        scope.beyond.append(axis.name)
    predicate = Predicate.where(axis.name, fitted(axis, present))
    scope.note_cuts([predicate], text)
    return predicate


def _meaning(axis: Axis, value: Constant) -> Span:
    """The values that a literal stands for: usually one; all values of a cell where it is that cell's label."""
    if axis.kind == "boolean" and value in (0, 1):
        value = bool(value)
    if axis.kind == "date" and isinstance(value, str):
        value = without_zone(value)
    if axis.kind == "date" and not axis.timed and isinstance(value, str) and has_time(value):
        return _moment(axis, value)
    try:
        place = axis.read(value)
    except QueryError:
        cell = None if axis.values else axis.cell_by_label.get(str(value))
        if cell is None:
            raise
        closed = int(axis.closed and cell == axis.places - 1)
        return (float(axis.edges[cell]), 0), (float(axis.edges[cell + 1]), closed)
    return (place, 0), (place, 1)


def _moment(axis: Axis, text: str) -> Span:
    """Span of one microsecond from a time inside a day; a comparison with it cuts the cell of that day."""
    try:
        past = datetime.fromisoformat(text) - datetime(1970, 1, 1)
    except (ValueError, TypeError):  # no time, or one of a zone
        wanted = "write it as '2024-12-31' or '2024-12-31 12:00'"
        raise QueryError(f"{axis.name} is a date; {wanted}, not {text!r}") from None
    days = past.total_seconds() / DAY
    return (days, 0), (days + 1e-6 / DAY, 0)


def _require_order(axis: Axis, text: Quote) -> None:
    if not axis.ordered:
        raise QueryError(f"{text()}: {axis.name} is of type {axis.kind}, whose values have no order; use =, <> or IN")


def _needed(node: exp.Expression, text: Quote) -> Constant:
    value = constant(node)
    if value is None:
        raise unsupported(f"{in_words(node)} in a condition ({text()})", _MISSING if node.key == "null" else _WRITE)
    return value


def _compare_constants(operator: str, left: Constant, right: Constant, text: Quote) -> Predicate:
    """Whether a comparison such as 1 = 1 holds, which programs that write SQL like to put into a WHERE."""
    if isinstance(left, str) != isinstance(right, str):
        raise QueryError(f"{text()} compares text with a number")
    less, equal = left < right, left == right  # type: ignore[operator]
    holds = {"eq": equal, "neq": not equal, "lt": less, "lte": less or equal, "gt": not (less or equal)}
    return _all_or_none(holds.get(operator, not less))


def _all_or_none(holds: bool) -> Predicate:
    return Predicate.everything() if holds else Predicate.nothing()


def _comparison(node: exp.Expression, scope: Scope) -> Predicate:
    return compare(node.key, node.this, node.args["expression"], scope, partial(quoted, node))


def _between(node: exp.Expression, scope: Scope) -> Predicate:
    text = partial(quoted, node)
    if node.args.get("symmetric"):
        raise unsupported("BETWEEN SYMMETRIC", "put the smaller limit first and write BETWEEN")
    column, low, high = _uncast(node.this, scope), node.args["low"], node.args["high"]
    if column.key != "column" or not _is_plain(bare(low)) or not _is_plain(bare(high)):
        return read_truth(node, scope)
    axis = _axis(column, scope)
    _require_order(axis, text)
    from_low = _SIDES["gte"](*_meaning(axis, _needed(low, text)))
    to_high = _SIDES["lte"](*_meaning(axis, _needed(high, text)))
    return _select(axis, from_low & to_high, scope, text)


def _in_own_values(column: exp.Expression, select: exp.Expression, scope: Scope) -> Predicate:
    """x IN (SELECT x FROM t WHERE ...), a condition on x alone: it then holds of the row itself."""
    instead = "say which values with a condition on them, or list them: sex IN ('F', 'M')"
    axis = _axis(column, scope)
    plain = {"expressions", "from", "from_", "where", "distinct"}
    if select.key != "select" or len(select.expressions) != 1 or {k for k, v in select.args.items() if v} - plain:
        raise unsupported("IN with a subquery", instead)
    inner = table_scope(select, scope.schema, scope)
    chosen = bare(select.expressions[0].unalias())
    rows = where(select, inner)
    same = chosen.key == "column" and _axis(chosen, inner) is axis and set(rows.names) <= {axis.name}
    if not same or axis.missing:
        raise unsupported("IN with a subquery of what rows hold, which only the private table knows,", instead)
    return rows


def _exists(node: exp.Expression, scope: Scope) -> Predicate:
    raise unsupported("EXISTS", "say with a condition on its own columns which rows count: no row knows of others")


def _in(node: exp.Expression, scope: Scope) -> Predicate:
    text = partial(quoted, node)
    column = _uncast(node.this, scope)
    if (query := node.args.get("query")) is not None and column.key == "column":
        return _in_own_values(column, bare(query.this), scope)
    if query is not None or node.args.get("unnest") or node.args.get("field"):
        raise unsupported("IN with a subquery or an array", _WRITE)
    if column.key == "tuple":
        raise unsupported(f"{in_words(column)} in a condition ({text()})", _WRITE)
    if column.key != "column":
        return read_truth(node, scope)
    axis = _axis(column, scope)
    spans = [_meaning(axis, _needed(value, text)) for value in node.expressions]
    return _select(axis, together(spans), scope, text)


def _is(node: exp.Expression, scope: Scope) -> Predicate:
    if node.args["expression"].key == "null":
        return _is_null(node, scope)
    if node.args["expression"].key != "boolean":
        raise unsupported(quoted(node), _WRITE)
    return read_condition(node.this, scope) if node.args["expression"].this else read_denial(node.this, scope)


def _is_null(node: exp.Expression, scope: Scope) -> Predicate:
    """The rows without a value; none, and a note says why, where a release keeps none such."""
    column = bare(node.this)
    if column.key != "column" or scope.groups_of(column) is not None:
        return read_truth(node, scope)
    name = scope.name_of(column)
    if name in scope.schema.domain and scope.schema.domain[name].missing:
        return rows_without(name, scope)
    if name not in scope.schema.domain and scope.schema.measures[name].missing == "keep":
        remedy = f"write COUNT({name}) for the rows that have one, and COUNT(*) - COUNT({name}) for the others"
        raise unsupported(f"{name} IS NULL or IS NOT NULL, of a measure,", remedy)
    scope.unmatched.append(f"{quoted(node)} holds for no row: {_LEFT_OUT}")
    return Predicate.nothing()


def _axis(column: Any, scope: Scope) -> Axis:
    """The values that a column can be compared with: those of an attribute, or of groups of it."""
    groups = scope.groups_of(column)
    if groups is None:
        return scope.axis_of(column, "a condition")
    names = tuple(dict.fromkeys(group for group in groups if group is not None))
    return Axis(scope.name_of(column), "category", np.arange(len(names) + 1.0), names, missing=None in groups)


def _flag(node: exp.Expression, scope: Scope) -> Predicate:
    axis = scope.axis_of(node, "a condition")
    if axis.kind != "boolean":
        raise QueryError(f"{axis.name} alone is not a condition, for it is of type {axis.kind}; {_WRITE}")
    return _select(axis, ValueSet.one_of([axis.read(True)]), scope, lambda: axis.name)


def _literal(node: exp.Expression, _: Scope) -> Predicate:
    raise QueryError(f"{quoted(node)} alone is not a condition; {_WRITE}")


_READERS: dict[str, Callable[[Any, Scope], Predicate]] = {
    "and": lambda node, scope: intersection([read_condition(part, scope) for part in node.flatten()]),
    "or": lambda node, scope: union([read_condition(part, scope) for part in node.flatten()]),
    "not": lambda node, scope: read_denial(node.this, scope),
    "paren": lambda node, scope: read_condition(node.this, scope),
    "boolean": lambda node, _: _all_or_none(node.this),
    "column": _flag,
    "literal": _literal,
    "is": _is,
    "in": _in,
    "exists": _exists,
    "between": _between,
    **dict.fromkeys(_SIDES, _comparison),
}


# Plain words for clauses whose internal name would not help.
_CLAUSES = {
    "distinct": "SELECT DISTINCT",
    "group": "GROUP BY",
    "joins": "JOIN",
    "kind": "SELECT AS",
    "laterals": "LATERAL",
    "order": "ORDER BY",
    "sample": "TABLESAMPLE",
    "windows": "WINDOW",
    "with": "WITH (a common table expression)",
}


def check_clauses(select: exp.Expression, allowed: Collection[str], place: str = "") -> None:
    """Refuse a SELECT with a clause that is not allowed; place: where the SELECT stands, for the message."""
    for key, value in select.args.items():
        clause = key.rstrip("_")  # sqlglot spells from and with with an underscore, depending on its version
        if value and clause not in allowed:
            comma = clause == "joins" and set(filter(value[0].args.get, value[0].args)) == {"this"}
            word = "a list of tables in FROM" if comma else _CLAUSES.get(clause, clause.replace("_", " ").upper())
            raise unsupported(word + place)


def table_scope(select: exp.Expression, schema: Schema, outer: Scope | None = None) -> Scope:
    """The table that FROM names, checked; an inner SELECT shares the remarks of the outer one."""
    source = select.args.get("from_") or select.args.get("from")
    if source is None:
        raise unsupported("a SELECT without FROM", f"write FROM {schema.dataset}")
    table = source.this
    if table.key != "table":
        raise unsupported(f"{in_words(table)} in FROM", f"write FROM {schema.dataset}")
    check_clauses(table, ("this", "db", "catalog", "alias"))
    if table.this.key != "identifier":
        raise unsupported(f"{in_words(table.this)} in FROM", f"write FROM {schema.dataset}")
    name = ".".join(part.name for part in table.parts)
    known = table.text("db").lower() in SCHEMAS or not table.text("db")
    if name.lower() != schema.dataset.lower() and not (
        known and table.name.lower() in (schema.dataset.lower(), "release")
    ):
        raise QueryError(f"no table {name!r} in this release; write FROM {schema.dataset} or FROM release")
    if table.args.get("alias") and table.args["alias"].args.get("columns"):
        raise unsupported("renaming columns in FROM", "use AS in the select list")
    names = frozenset({name.lower(), table.name.lower(), table.alias.lower()} - {""})
    if outer is None:
        return Scope(schema, names)
    return Scope(schema, names, outer.cuts, outer.middles, outer.beyond, outer.unmatched)


def where(select: exp.Expression, scope: Scope) -> Predicate:
    """The rows that WHERE keeps."""
    clause = select.args.get("where")
    return read_condition(clause.this, scope) & scope.rows if clause else scope.rows


def whole(clause: Any, word: str) -> int | None:
    """The number of a LIMIT or OFFSET."""
    if clause is None:
        return None
    expression, options = clause.args.get("expression"), clause.args.get("limit_options")
    if clause.key == "fetch" and not (options and (options.args.get("percent") or options.args.get("with_ties"))):
        expression, options = clause.args.get("count"), None  # FETCH FIRST 3 ROWS ONLY
    if expression is None or options or clause.args.get("expressions"):
        raise unsupported(f"{in_words(clause)} of this form", f"write {word} 10")
    value = number(expression)
    if value is None or value < 0 or not value.is_integer():
        raise QueryError(f"{word} needs a whole number that is not negative")
    return int(value)


def noted(select: Select, scope: Scope) -> Select:
    """Add to a plan the notes that its reader should see.

    Cuts are those that remain in the whole condition: income < 2500 OR income >= 2500 cuts no cell.
    """
    predicates = {select.where, *(amount.predicate for amount in select.amounts)}
    cut = {name for predicate in predicates for name in predicate.cuts(scope.schema.domain)} if scope.cuts else set()
    cuts = tuple(dict.fromkeys(found for found in scope.cuts if found.attribute in cut))
    notes = [
        f"{cut.what}: rows are taken as spread evenly inside a bin, and the interval allows for any spread"
        for cut in cuts
    ]
    notes += [
        f"{name} is known by its bins only: sums and averages take every row at the middle of its bin, "
        "and the interval allows for any place in it"
        for name in dict.fromkeys(scope.middles)
    ]
    notes += statistic_notes(select.aggregates, scope.schema)
    notes += [*beyond_notes(scope.beyond, scope.schema), *dict.fromkeys(scope.unmatched)]
    return replace(select, cuts=cuts, notes=tuple(notes))
