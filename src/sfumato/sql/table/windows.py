"""Totals over groups: which rows SUM(COUNT(*)) OVER (PARTITION BY ...) adds up, seen from one group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.effort import MOST_RULES, OF_A_NODE, at_most, spend
from sfumato.errors import UnsupportedSQL
from sfumato.frozen import dataclass

if TYPE_CHECKING:
    from sqlglot import exp


@dataclass(frozen=True)
class Windows:
    """rows: all that WHERE keeps. keys: for keys of GROUP BY, by their text, the rows with the group's value of it."""

    rows: Predicate
    keys: Mapping[str, Predicate]

    def total(self, partition: Sequence[exp.Expression]) -> Predicate:
        """The rows of all groups that agree with this one in the partition."""
        at_most(len(partition), MOST_RULES, "keys are in a window", "name each key once")
        missing = [node for node in partition if text_of(node) not in self.keys]
        if missing:
            raise UnsupportedSQL(
                f"PARTITION BY {missing[0].sql(dialect='duckdb')} is not supported; name what is in GROUP BY there"
            )
        return reduce(and_, (self.keys[text_of(node)] for node in partition), self.rows)


def text_of(node: Any) -> str:
    """The same text for expressions that mean the same column, whatever its letter case, table and parentheses."""
    from sqlglot import exp

    def plain(part: exp.Expression) -> exp.Expression:
        named = isinstance(part, exp.Column) and not isinstance(part.this, exp.Star)
        return exp.column(part.name.lower(), quoted=True) if named else part

    node = bare_of(node)
    if isinstance(node, exp.Literal | exp.Var | exp.Null | exp.Boolean):
        spend(1)
        return f"{node.key} {node.name}" if isinstance(node, exp.Var) else str(node.sql(dialect="duckdb"))
    spend(OF_A_NODE * nodes_in(node), "an expression that is compared with keys and aggregates")
    copy = node.transform(plain)
    for part in list(copy.find_all(exp.Paren)):
        if isinstance(part.this, exp.Paren | exp.Column | exp.Literal | exp.Func):
            part.replace(part.this)
    text: str = copy.sql(dialect="duckdb")
    return text


def nodes_in(root: Any) -> int:
    """How many names, constants and operators an expression has."""
    return sum(1 for _ in root.walk())


def bare_of(node: Any) -> Any:
    while node.key == "paren":
        node = node.this
    return node
