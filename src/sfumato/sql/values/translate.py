"""Translate syntax to expression trees: every known function, and a refusal in the user's own words for any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.sql.scope import bare, constant, in_words, unsupported
from sfumato.sql.values.dates import part_name, unit_name
from sfumato.sql.values.tree import Call, Const, Tree

if TYPE_CHECKING:
    from sqlglot import exp

Leaf = Callable[[Any], Tree | None]

KNOWN = (
    "of values that are public, CASE, arithmetic, ROUND, FLOOR, CEIL, ABS, CAST, COALESCE, LIKE, LOWER, UPPER, EXTRACT "
    "and DATE_TRUNC are known"
)


def translate(node: exp.Expression, leaf: Leaf, place: str) -> Tree:
    """The tree of an expression.

    leaf: what a node is a name for, asked first, or None where it is to be taken apart. place: where it stands, for the
    message that refuses it.
    """

    def read(part: Any) -> Tree:
        found = leaf(part)
        if found is not None:
            return found
        if part.key in _SAME:
            return Call(part.key, tuple(read(arg) for arg in _operands(part)))
        reader = _READERS.get(part.key)
        if reader is None:
            raise unsupported(f"{in_words(part)} in {place}", KNOWN)
        tree = reader(part, read)
        if tree is None:
            raise unsupported(f"{in_words(part)} of this form in {place}", KNOWN)
        return Call("not", (tree,)) if part.args.get("negate") else tree

    return read(node)


def _operands(node: Any) -> list[Any]:
    if node.key in ("and", "or"):
        return [bare(part) for part in node.flatten()]
    extra = [node.args[name] for name in ("expression", "decimals", "start", "length") if node.args.get(name)]
    return [part for part in (node.this, *extra, *node.expressions) if part is not None]


def _constant(node: Any, _read: Any) -> Tree | None:
    value = constant(node)
    return None if value is None else Const(value)


def _case(node: Any, read: Callable[[Any], Tree]) -> Tree:
    args: list[Tree] = []
    for branch in node.args["ifs"]:
        condition = read(branch.this)
        if node.this is not None:
            condition = Call("eq", (read(node.this), condition))
        args += [condition, read(branch.args["true"])]
    default = node.args.get("default")
    return Call("case", (*args, Const(None) if default is None else read(default)))


def _if(node: Any, read: Callable[[Any], Tree]) -> Tree:
    other = node.args.get("false")
    return Call("case", (read(node.this), read(node.args["true"]), Const(None) if other is None else read(other)))


def _cast(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    from sqlglot import exp

    kind, inner = node.args["to"].this, read(node.this)
    if kind in exp.DataType.INTEGER_TYPES:
        return Call("to_integer", (inner,))
    if kind in exp.DataType.NUMERIC_TYPES:
        digits = node.args["to"].expressions
        if digits:
            decimals = digits[1].name if len(digits) > 1 else "0"
            few = decimals.isdigit() and len(decimals) <= 2
            return Call("round", (Call("to_number", (inner,)), Const(int(decimals)))) if few else None
        return Call("to_number", (inner,))
    if kind in exp.DataType.TEXT_TYPES:
        return Call("to_text", (inner,))
    if kind == exp.DataType.Type.BOOLEAN:
        return Call("to_boolean", (inner,))
    return Call("to_date", (inner,)) if kind == exp.DataType.Type.DATE else None


def _in(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    if node.args.get("query") or node.args.get("unnest") or node.args.get("field"):
        return None
    return Call("in", (read(node.this), *(read(value) for value in node.expressions)))


def _between(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    if node.args.get("symmetric"):
        return None
    return Call("between", (read(node.this), read(node.args["low"]), read(node.args["high"])))


def _is(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    other = node.args["expression"]
    if other.key == "null":
        return Call("is_null", (read(node.this),))
    if other.key != "boolean":
        return None
    holds = read(node.this)
    return Call("is_true", (holds if other.this else Call("not", (holds,)),))


def _part(word: str, node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    name = part_name(word)
    return None if name is None else Call(f"part:{name}", (read(node),))


def _extract(node: Any, read: Callable[[Any], Tree]) -> Tree:
    word = node.this.name
    found = _part(word, node.args["expression"], read)
    if found is None:
        raise unsupported(f"EXTRACT({word.upper()} ...)", "a date tells its year, quarter, month, week and day")
    return found


def _truncated(node: Any, read: Callable[[Any], Tree]) -> Tree | None:
    unit = unit_name(node.args["unit"].name) if node.args.get("unit") else None
    return None if unit is None else Call(f"start:{unit}", (read(node.this),))


def _anonymous(node: Any, read: Callable[[Any], Tree]) -> Tree:
    """Functions that the parser has no node for."""
    name, args = node.name.lower(), node.expressions
    found = None
    if name in ("date_part", "datepart") and len(args) == 2:
        found = _part(args[0].name, args[1], read)
    elif len(args) == 1 and name in ("isodow", "dayname", "monthname", "decade", "weekday", "yearweek"):
        found = _part(name, args[0], read)
    if found is None:
        raise unsupported(in_words(node), KNOWN)
    return found


def _escaped(node: Any, _read: Any) -> Tree:
    raise unsupported("LIKE with ESCAPE", "leave ESCAPE out, or list the values with IN")


# Nodes whose arguments, in order, are those of the function of the same name.
_SAME = {
    *("add", "sub", "mul", "div", "mod", "intdiv", "pow", "neg", "abs", "floor", "ceil", "trunc", "round"),
    *("eq", "neq", "lt", "lte", "gt", "gte", "and", "or", "not", "coalesce", "nullif", "greatest", "least"),
    *("lower", "upper", "trim", "length", "left", "right", "substring", "concat", "startswith", "endswith", "contains"),
}
_READERS: dict[str, Callable[[Any, Callable[[Any], Tree]], Tree | None]] = {
    "paren": lambda node, read: read(node.this),
    "literal": _constant,
    "boolean": _constant,
    "null": lambda _node, _read: Const(None),
    "case": _case,
    "if": _if,
    "cast": _cast,
    "trycast": _cast,
    "in": _in,
    "between": _between,
    "is": _is,
    "like": lambda node, read: Call("like", (read(node.this), read(node.args["expression"]))),
    "ilike": lambda node, read: Call("ilike", (read(node.this), read(node.args["expression"]))),
    "dpipe": lambda node, read: Call("joined", (read(node.this), read(node.args["expression"]))),
    "escape": _escaped,
    "extract": _extract,
    "timestamptrunc": _truncated,
    "datetrunc": _truncated,
    "anonymous": _anonymous,
    **{
        key: lambda node, read, word=word: _part(word, node.this, read)  # type: ignore[misc]
        for key, word in {
            **{name: name for name in ("year", "quarter", "month", "week", "day", "hour", "dayofweek", "dayofyear")},
            **{"dayofmonth": "day", "weekofyear": "week", "dayofweekiso": "isodow"},
            **{"monthname": "monthname", "dayname": "dayname"},
        }.items()
    },
}
