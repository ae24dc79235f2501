"""Parse a linear comparison of attributes into weights: SELECT COUNT(*) FROM t WHERE 3 * age - 2 * income > 10."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.schema import Schema
from sfumato.sql.predicates import check_clauses, table_scope
from sfumato.sql.reading import compiling, parse
from sfumato.sql.scope import Scope, bare, number, quoted

if TYPE_CHECKING:
    from sqlglot import exp

WRITE = "write SELECT COUNT(*) FROM {table} WHERE 3 * a - 2 * b > 10, with attributes that are numbers"
_TURNED = {"lt", "lte"}


@dataclass(frozen=True)
class Halfspace:
    """The rows for which the weighted sum of some attributes is above a threshold; name: of the column.

    closed: whether rows on the threshold itself count too. No weights: all rows.
    """

    weights: Mapping[str, float]
    threshold: float
    closed: bool = False
    name: str = "count"


def read_halfspace(text: str, schema: Schema) -> Halfspace:
    """Parse a statement as a halfspace; if it is none, refuse with how to write one."""
    with compiling():
        return _read(parse(text, schema=schema), schema)


def _read(tree: exp.Expression, schema: Schema) -> Halfspace:
    if tree.key != "select" or len(tree.expressions) != 1:
        raise _refusal(schema)
    check_clauses(tree, ("expressions", "from", "where"))
    scope = table_scope(tree, schema)
    counted = bare(tree.expressions[0].unalias())
    if counted.key != "count" or counted.this is None or counted.this.key != "star":
        raise _refusal(schema)
    name, clause = tree.expressions[0].alias or "count", tree.args.get("where")
    if clause is None:
        return Halfspace({}, -1.0, name=name)
    node = bare(clause.this)
    if node.key not in ("gt", "gte", "lt", "lte"):
        raise _refusal(schema)
    left, right = _sum(node.this, scope), _sum(node.args["expression"], scope)
    sign = -1.0 if node.key in _TURNED else 1.0
    weights = {key: sign * (left.get(key, 0.0) - right.get(key, 0.0)) for key in {**left, **right} if key}
    weights = {key: weight for key, weight in weights.items() if weight}
    if not weights:
        raise QueryError(f"{quoted(node)} compares no attribute; {WRITE.format(table=schema.dataset)}")
    threshold = sign * (right.get("", 0.0) - left.get("", 0.0))
    return Halfspace(weights, threshold, node.key in ("gte", "lte"), name)


def _sum(node: Any, scope: Scope) -> dict[str, float]:
    """Weights by attribute of a linear expression; under no name, what is added to all."""
    node = bare(node)
    if (value := number(node)) is not None:
        return {"": value}
    if node.key == "column":
        return {scope.axis_of(node, "a linear condition").name: 1.0}
    if node.key == "neg":
        return {key: -weight for key, weight in _sum(node.this, scope).items()}
    if node.key in ("add", "sub"):
        left, right = _sum(node.this, scope), _sum(node.args["expression"], scope)
        sign = 1.0 if node.key == "add" else -1.0
        return {key: left.get(key, 0.0) + sign * right.get(key, 0.0) for key in {**left, **right}}
    if node.key in ("mul", "div"):
        first, second = bare(node.this), bare(node.args["expression"])
        if node.key == "mul" and number(first) is not None:
            first, second = second, first
        factor = number(second)
        if factor is not None and (node.key == "mul" or factor):
            scale = factor if node.key == "mul" else 1.0 / factor
            return {key: weight * scale for key, weight in _sum(first, scope).items()}
    raise QueryError(
        f"{quoted(node)} is no sum of attributes times numbers; {WRITE.format(table=scope.schema.dataset)}"
    )


def _refusal(schema: Schema) -> QueryError:
    return QueryError(f"this release counts rows on one side of a line; {WRITE.format(table=schema.dataset)}")
