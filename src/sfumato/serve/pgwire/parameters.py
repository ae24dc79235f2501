"""$1, $2, ... in a syntax tree: where they stand, what types casts give them, and the literals that they become.

A value is one literal, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sfumato.effort import MOST_CHARACTERS, at_most
from sfumato.serve.pgwire.encoding import BOOL, DATE, FLOAT8, INT8, TEXT, TIMESTAMP, Value
from sfumato.serve.pgwire.failures import SYNTAX, Failure

if TYPE_CHECKING:
    from sqlglot import exp

BY_NAME = {
    **dict.fromkeys(("int", "integer", "bigint", "smallint", "int2", "int4", "int8", "oid"), INT8),
    **dict.fromkeys(("double", "real", "float", "float4", "float8", "decimal", "numeric"), FLOAT8),
    **dict.fromkeys(("boolean", "bool"), BOOL),
    "date": DATE,
    **dict.fromkeys(("timestamp", "timestampntz", "datetime"), TIMESTAMP),
}


def literal(value: Value) -> exp.Expression:
    """A value as a node of a syntax tree."""
    from sqlglot import exp

    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, list):
        return exp.Array(expressions=[literal(one) for one in value])
    if isinstance(value, int | float):
        number = exp.Literal.number(repr(abs(value)))
        return exp.Neg(this=number) if value < 0 else number
    return exp.Literal.string(value)


def places_of(tree: exp.Expression) -> dict[int, list[Any]]:
    """The nodes of each parameter, by its number."""
    from sqlglot import exp

    found: dict[int, list[Any]] = {}
    for node in tree.find_all(exp.Placeholder, exp.Parameter):
        name = node.name or str(node.this or "")
        if not name.isdigit() or not 1 <= int(name) <= 1000:
            raise Failure(SYNTAX, "a parameter is written $1, $2, ...", "give it a number")
        found.setdefault(int(name), []).append(node)
    if found and sorted(found) != list(range(1, max(found) + 1)):
        raise Failure("42P18", "the numbers of parameters have a gap", "write $1, $2, ... without leaving one out")
    return found


def cast_around(node: Any) -> int | None:
    """The type of a cast right around a parameter."""
    from sqlglot import exp

    if isinstance(node.parent, exp.Cast):
        kind = node.parent.args["to"].sql(dialect="postgres").lower().removeprefix("pg_catalog.")
        return BY_NAME.get(kind.partition("(")[0].split(" ")[0].strip('"'), TEXT)
    return None


def put_values(places: dict[int, list[Any]], values: Sequence[Value], *, casts: bool) -> None:
    """Replace each parameter by its value. casts: whether to keep one around it, which the value has been through."""
    from sqlglot import exp

    length = sum(len(nodes) * _length(values[number - 1]) for number, nodes in places.items())
    at_most(length, MOST_CHARACTERS, "characters are in the values of a statement", "give shorter ones, or fewer")
    for number, nodes in places.items():
        for node in nodes:
            inner = node.parent if isinstance(node.parent, exp.Cast) and not casts else node
            inner.replace(literal(values[number - 1]))


def _length(value: Value) -> int:
    """About how many characters a value has in a statement."""
    if isinstance(value, list):
        return sum(2 + _length(one) for one in value)
    return len(value) + 2 if isinstance(value, str) else 8


def any_as_in(tree: exp.Expression) -> None:
    """`x = ANY (list)`, as drivers write it, is `x IN (...)`, which a release reads."""
    from sqlglot import exp

    for node in list(tree.find_all(exp.EQ)):
        listed = node.expression
        if isinstance(listed, exp.Any) and isinstance(found := listed.this.unnest(), exp.Array) and found.expressions:
            node.replace(exp.In(this=node.this, expressions=found.expressions))
