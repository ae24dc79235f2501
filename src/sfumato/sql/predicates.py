"""Conditions to predicates: what a WHERE, a FILTER or a CASE WHEN says about rows."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import partial, reduce
from operator import and_
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.domain import END, START, Axis, Place, ValueSet
from sfumato.domain.predicates import Predicate, union
from sfumato.errors import QueryError
from sfumato.sql.beyond import lies_beyond
from sfumato.sql.plan import Cut
from sfumato.sql.scope import Constant, Scope, bare, constant, in_words, unsupported

if TYPE_CHECKING:
    from sqlglot import exp

Span = tuple[Place, Place]
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
_MISSING = "rows with a missing value are not in a release, so every row has a value: leave the condition out"
_WRITE = "compare an attribute with a constant: age >= 18, sex = 'F', age BETWEEN 20 AND 40, sex IN ('F', 'M')"


def read_condition(node: exp.Expression, scope: Scope) -> Predicate:
    """The rows for which a condition holds."""
    read = _READERS.get(node.key)
    if read is None:
        raise unsupported(f"{in_words(node)} in a condition", _WRITE)
    return read(node, scope)


def is_condition(node: exp.Expression) -> bool:
    """Whether a node can only be true or false."""
    return node.key in _READERS and node.key not in ("column", "paren", "literal")


def compare(operator: str, left: Any, right: Any, scope: Scope, text: Quote) -> Predicate:
    """The rows for which `left operator right` holds; text: quotes the comparison, should it come to that."""
    left, right = bare(left), bare(right)
    if right.key == "column" and left.key != "column":
        return compare(_MIRRORED[operator], right, left, scope, text)
    if right.key == "column":
        raise unsupported(f"the comparison of two columns ({text()})", _WRITE)
    value = _needed(right, text)
    if left.key != "column":
        return _compare_constants(operator, _needed(left, text), value, text)
    axis = scope.axis_of(left, "a condition")
    if operator not in ("eq", "neq"):
        _require_order(axis, text)
    return _select(axis, _SIDES[operator](*_meaning(axis, value)), scope, text)


def _select(axis: Axis, values: ValueSet, scope: Scope, text: Quote) -> Predicate:
    """The predicate of a set of values, noting the cells that it cuts."""
    if lies_beyond(axis, values):
        scope.beyond.append(axis.name)
    values = _fitted(axis, values)
    cover = axis.cover(values)
    cells = np.flatnonzero(cover.sure != cover.possible)
    if len(cells):
        labels = ", ".join(str(axis.label(int(cell))) for cell in cells[:3]) + (", ..." if len(cells) > 3 else "")
        scope.cuts.append(Cut(axis.name, f"{text()} cuts the bin{'s' if len(cells) > 1 else ''} {labels}"))
    return Predicate.where(axis.name, values)


def _fitted(axis: Axis, values: ValueSet) -> ValueSet:
    """The same set as far as the axis goes, in the one form that sets with the same values share.

    Then age <= 20 equals age < 21, and sex IN ('F', 'M') is everything where there are no other values.
    """
    low, high = (float(axis.edges[0]), 0), (float(axis.edges[-1]), int(not axis.discrete))
    spans = []
    for start, end in values.spans:
        a, b = (_whole(start), _whole(end)) if axis.discrete else (start, end)
        if a < b and a < high and low < b:
            spans.append((START if a <= low else a, END if b >= high else b))
    return _together(spans)


def _whole(place: Place) -> Place:
    """The place just before the first whole number that follows."""
    value, after = place
    if math.isinf(value):
        return place
    return (math.floor(value) + 1.0 if after or not value.is_integer() else value), 0


def _meaning(axis: Axis, value: Constant) -> Span:
    """The values that a literal stands for: usually one; all values of a cell where it is that cell's label."""
    if axis.kind == "boolean" and value in (0, 1):
        value = bool(value)
    try:
        place = axis.read(value)
    except QueryError:
        labels = [] if axis.values else [str(label) for label in axis.labels()]
        if str(value) not in labels:
            raise
        cell = labels.index(str(value))
        closed = int(not axis.discrete and cell == axis.size - 1)
        return (float(axis.edges[cell]), 0), (float(axis.edges[cell + 1]), closed)
    return (place, 0), (place, 1)


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


def quoted(node: exp.Expression) -> str:
    """How a message shows a condition: on one line, not too long, and with dates as they were written."""
    text = re.sub(r"CAST\(('[^']*') AS DATE\)", r"DATE \1", " ".join(node.sql(dialect="duckdb").split()))
    return text if len(text) <= 80 else text[:77] + "..."


def _comparison(node: exp.Expression, scope: Scope) -> Predicate:
    return compare(node.key, node.this, node.args["expression"], scope, partial(quoted, node))


def _between(node: exp.Expression, scope: Scope) -> Predicate:
    text = partial(quoted, node)
    if node.args.get("symmetric"):
        raise unsupported("BETWEEN SYMMETRIC", "put the smaller limit first and write BETWEEN")
    column, low, high = bare(node.this), node.args["low"], node.args["high"]
    if column.key != "column":
        return compare("gte", column, low, scope, text) & compare("lte", column, high, scope, text)
    axis = scope.axis_of(column, "a condition")
    _require_order(axis, text)
    from_low = _SIDES["gte"](*_meaning(axis, _needed(low, text)))
    to_high = _SIDES["lte"](*_meaning(axis, _needed(high, text)))
    return _select(axis, from_low & to_high, scope, text)


def _in(node: exp.Expression, scope: Scope) -> Predicate:
    text = partial(quoted, node)
    column = bare(node.this)
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        raise unsupported("IN with a subquery or an array", _WRITE)
    if column.key != "column":
        raise unsupported(f"{in_words(column)} in a condition ({text()})", _WRITE)
    axis = scope.axis_of(column, "a condition")
    spans = [_meaning(axis, _needed(value, text)) for value in node.expressions]
    return _select(axis, _together(spans), scope, text)


def _together(spans: Iterable[Span]) -> ValueSet:
    """The union of spans, in one sweep."""
    swept: list[Span] = []
    for start, end in sorted(spans):
        if swept and start <= swept[-1][1]:
            swept[-1] = (swept[-1][0], max(end, swept[-1][1]))
        else:
            swept.append((start, end))
    return ValueSet(tuple(swept))


def _is(node: exp.Expression, scope: Scope) -> Predicate:
    if node.args["expression"].key == "null":
        raise unsupported("IS NULL or IS NOT NULL", _MISSING)
    if node.args["expression"].key != "boolean":
        raise unsupported(quoted(node), _WRITE)
    holds = read_condition(node.this, scope)
    return holds if node.args["expression"].this else ~holds


def _flag(node: exp.Expression, scope: Scope) -> Predicate:
    axis = scope.axis_of(node, "a condition")
    if axis.kind != "boolean":
        raise QueryError(f"{axis.name} alone is not a condition, for it is of type {axis.kind}; {_WRITE}")
    return _select(axis, ValueSet.one_of([axis.read(True)]), scope, lambda: axis.name)


def _literal(node: exp.Expression, _: Scope) -> Predicate:
    raise QueryError(f"{quoted(node)} alone is not a condition; {_WRITE}")


_READERS: dict[str, Callable[[Any, Scope], Predicate]] = {
    "and": lambda node, scope: reduce(and_, [read_condition(part, scope) for part in node.flatten()]),
    "or": lambda node, scope: union([read_condition(part, scope) for part in node.flatten()]),
    "not": lambda node, scope: ~read_condition(node.this, scope),
    "paren": lambda node, scope: read_condition(node.this, scope),
    "boolean": lambda node, _: _all_or_none(node.this),
    "column": _flag,
    "literal": _literal,
    "is": _is,
    "in": _in,
    "between": _between,
    **dict.fromkeys(_SIDES, _comparison),
}
