"""What a query may name: the table and its columns, constants, and how to call what is not supported."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from sfumato.domain import Axis
from sfumato.errors import QueryError, UnsupportedSQL
from sfumato.schema import Schema
from sfumato.sql.plan import Cut

if TYPE_CHECKING:
    from sqlglot import exp

Constant = str | int | float | bool

SUPPORTED = (
    "a release answers SELECT with COUNT, SUM, AVG and their ratios on one table, with WHERE, FILTER, GROUP BY, "
    "ORDER BY and LIMIT"
)

# Plain words for syntax whose internal name would not help.
_WORDS = {
    "bracket": "[...]",
    "case": "CASE",
    "cast": "CAST",
    "column": "a column outside an aggregate",
    "columns": "COLUMNS(...)",
    "dot": "a field of a column",
    "dpipe": "the || operator",
    "distinct": "DISTINCT",
    "escape": "LIKE",
    "exists": "EXISTS",
    "if": "IF",
    "intdiv": "the // operator (whole-number division)",
    "mod": "the % operator",
    "null": "NULL",
    "nullsafeeq": "IS NOT DISTINCT FROM",
    "nullsafeneq": "IS DISTINCT FROM",
    "parameter": "a parameter",
    "placeholder": "a parameter",
    "pow": "a power",
    "select": "a subquery",
    "star": "*",
    "subquery": "a subquery",
    "trycast": "TRY_CAST",
    **dict.fromkeys(("eq", "neq", "lt", "lte", "gt", "gte"), "a comparison"),
    **dict.fromkeys(("and", "or", "not", "is", "in", "between"), "a condition"),
    **dict.fromkeys(("literal", "boolean"), "a constant"),
    **dict.fromkeys(("add", "sub", "mul", "div", "neg"), "arithmetic"),
    "tuple": "a list in parentheses",
}


@dataclass(frozen=True)
class Scope:
    """The one table of a SELECT, and what there is to say about how it is used.

    table_names: what may stand before the dot of a column, in small letters.
    cuts, middles, beyond: filled while the query is read; `middles` are attributes summed by the middle of their bins,
    `beyond` those asked for beyond their bounds.
    """

    schema: Schema
    table_names: frozenset[str]
    cuts: list[Cut] = field(default_factory=list)
    middles: list[str] = field(default_factory=list)
    beyond: list[str] = field(default_factory=list)

    def name_of(self, column: exp.Expression) -> str:
        """The attribute or measure that a column of the query means; letter case does not matter, as in SQL."""
        table = str(column.text("table"))
        if column.text("db") or (table and table.lower() not in self.table_names):
            raise QueryError(f"no table {table!r} in FROM; write {column.name} without a table before it")
        names = list(dict.fromkeys((*self.schema.domain.names, *self.schema.measures)))
        name = str(column.name)
        if name in names:
            return name
        same = [known for known in names if known.lower() == name.lower()]
        if len(same) == 1:
            return same[0]
        near = get_close_matches(name.lower(), [known.lower() for known in names], n=1)
        hint = "".join(f" (did you mean {known}?)" for known in names if near and known.lower() == near[0])
        raise QueryError(f"no column {name!r}{hint}; there are {', '.join(names)}")

    def axis_of(self, column: exp.Expression, place: str) -> Axis:
        """The axis of a column that must be an attribute because of its place in the query."""
        name = self.name_of(column)
        if name not in self.schema.domain:
            raise QueryError(
                f"{name} is a measure, which a release only sums, so it cannot be used in {place}; "
                f"attributes are {', '.join(self.schema.domain.names)}"
            )
        return self.schema.domain[name]


def unsupported(what: str, remedy: str = SUPPORTED) -> UnsupportedSQL:
    """The error for a construct, in words."""
    return UnsupportedSQL(f"{what} is not supported; {remedy}")


def in_words(node: exp.Expression) -> str:
    """What to call a piece of SQL that is not supported."""
    from sqlglot import exp

    if isinstance(node, exp.Anonymous):
        return f"the function {node.name.upper()}"
    if node.key in _WORDS:
        return _WORDS[node.key]
    if isinstance(node, exp.Func):
        return f"the function {node.sql_name()}"
    return node.key.upper()


def bare(node: Any) -> Any:
    """A node without the parentheses around it."""
    while node is not None and node.key == "paren":
        node = node.this
    return node


def constant(node: exp.Expression) -> Constant | None:
    """The value of an expression made of literals only; None for any other."""
    read = _CONSTANTS.get(node.key)
    return read(node) if read else None


def number(node: exp.Expression) -> float | None:
    """The value of an expression made of numbers only; None for any other."""
    value = constant(node)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _literal(node: exp.Expression) -> Constant:
    text = str(node.this)
    if node.args.get("is_string"):
        return text
    try:
        return _plain(float(text))
    except ValueError:
        raise QueryError(f"{text!r} is not a number") from None


def _plain(value: float) -> int | float:
    """A whole number as int, so that it reads like the value of a category: 3, not 3.0."""
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


def _cast(node: exp.Expression) -> Constant | None:
    """DATE '2024-12-31' is its text; casts of numbers are accepted where they change nothing."""
    value = constant(node.this)
    if isinstance(value, str):
        return value if node.args["to"].is_type("date", "varchar", "text") else None
    return value if keeps_numbers(node) or (isinstance(value, int) and keeps_numbers(node, whole=True)) else None


def keeps_numbers(cast: exp.Expression, *, whole: bool = False) -> bool:
    """Whether a cast leaves all numbers, or at least whole numbers, as they are."""
    from sqlglot import exp

    kind = cast.args["to"].this
    return kind in exp.DataType.NUMERIC_TYPES and (whole or kind not in exp.DataType.INTEGER_TYPES)


def _negated(node: exp.Expression) -> Constant | None:
    value = number(node.this)
    return None if value is None else _plain(-value)


def _arithmetic(node: exp.Expression) -> Constant | None:
    left, right = number(node.this), number(node.args["expression"])
    if left is None or right is None:
        return None
    if node.key == "div" and right == 0:
        raise QueryError("the query divides by zero")
    value = {"add": left + right, "sub": left - right, "mul": left * right}.get(node.key, left / (right or 1.0))
    if not math.isfinite(value):
        raise QueryError("the query contains a number that is too large")
    return _plain(value)


_CONSTANTS: dict[str, Callable[[Any], Constant | None]] = {
    "literal": _literal,
    "boolean": lambda node: bool(node.this),
    "paren": lambda node: constant(node.this),
    "cast": _cast,
    "neg": _negated,
    "add": _arithmetic,
    "sub": _arithmetic,
    "mul": _arithmetic,
    "div": _arithmetic,
}
