"""Select list to columns: aggregates, and what arithmetic makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.effort import OF_A_NODE, spend
from sfumato.errors import QueryError
from sfumato.sql.clauses import check_clauses, table_scope, where
from sfumato.sql.plan import Amount, Column
from sfumato.sql.predicates import read_condition
from sfumato.sql.ratios import LINEAR, Ratio
from sfumato.sql.rows import RowAmount, read_row_amount, rows_with_value
from sfumato.sql.scope import Scope, bare, in_words, keeps_numbers, number, unsupported
from sfumato.sql.statistics.formulas import Value, column_of, is_difference, over, plus, regrouped, times
from sfumato.sql.statistics.order_statistics import READERS as STATISTICS
from sfumato.sql.statistics.order_statistics import counts_units, statistic_name
from sfumato.sql.table.windows import nodes_in

if TYPE_CHECKING:
    from sqlglot import exp

_TOTAL = "windows are totals over groups, SUM(COUNT(*)) OVER (PARTITION BY ...), and ranks of groups"


def read_column(node: exp.Expression, scope: Scope, within: Predicate, *, grouped: bool) -> Column:
    """One aggregate of the select list, with the name it has unless an alias says otherwise.

    within: the rows that WHERE keeps. grouped: whether the query has GROUP BY.
    """
    spend(OF_A_NODE * nodes_in(node), "the select list")
    value = _read(node, scope, within)
    # Without GROUP BY, a total over all groups is the same thing as the one group.
    column = column_of(value if grouped else regrouped(value, True), scope.schema)
    return replace(column, name=_default_name(node, column, scope), difference=is_difference(node))


def _default_name(node: exp.Expression, column: Column, scope: Scope) -> str:
    """count, sum_charge, avg_charge, share, ...: what a column is called that has no alias."""
    aggregate = _innermost(node, ("paren", "cast", "filter"))
    if aggregate.key in STATISTICS and column.rule is not None:
        return statistic_name(aggregate, column.rule)
    if aggregate.key in ("sum", "avg"):
        of = _innermost(aggregate.this, ("paren", "cast"))
        if of.key == "column":
            return f"{aggregate.key}_{scope.name_of(of)}"
    return column.kind


def _innermost(node: Any, wrappings: tuple[str, ...]) -> Any:
    while node.key in wrappings:
        node = node.this
    return node


def _read(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    constant = number(node)
    if constant is not None:
        return constant
    read = _READERS.get(node.key)
    if read is None:
        raise unsupported(f"{in_words(node)} in the select list", LINEAR)
    return read(node, scope, within)


def _count(node: exp.Expression, scope: Scope, within: Predicate) -> Ratio:
    if node.expressions:
        raise unsupported("COUNT of several columns", "write COUNT(*)")
    if node.this is None or node.this.key == "star" or counts_units(node.this, scope):
        return Ratio((Amount(within, None),))
    return Ratio(rows_with_value(bare(node.this), scope).counted(within))


def _count_if(node: exp.Expression, scope: Scope, within: Predicate) -> Ratio:
    return Ratio((Amount(within & read_condition(node.this, scope), None),))


def _sum(node: exp.Expression, scope: Scope, within: Predicate) -> Ratio:
    return Ratio(_amounts(read_row_amount(node.this, scope).within(within)))


def _average(node: exp.Expression, scope: Scope, within: Predicate) -> Ratio:
    rows = read_row_amount(node.this, scope).within(within)
    return Ratio(_amounts(rows), rows.counted(within))


def _amounts(rows: RowAmount) -> tuple[Amount, ...]:
    return tuple(Amount(term.predicate, term.of, term.factor, present=term.present) for term in rows.terms)


def _filter(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    if node.this.key not in ("count", "countif", "sum", "avg", *STATISTICS):
        raise unsupported(f"FILTER on {in_words(node.this)}", LINEAR)
    return _read(node.this, scope, within & read_condition(node.args["expression"].this, scope))


def _window(node: exp.Expression, scope: Scope, within: Predicate) -> Ratio:
    """SUM(aggregate) OVER (): the aggregate for all groups together, or for those of a partition."""
    known = ("this", "over") if scope.windows is None else ("this", "over", "partition_by")
    extras = [key for key, value in node.args.items() if value and key not in known]
    if extras or node.this.key != "sum":
        raise unsupported("a window function", _TOTAL)
    rows = within if scope.windows is None else scope.windows.total(node.args.get("partition_by") or [])
    total = _read(node.this.this, scope, rows)
    if not isinstance(total, Ratio) or total.bottom is not None:
        raise unsupported("a window over something that is not a COUNT or SUM", _TOTAL)
    return total.with_groups(False)


def _subquery(node: exp.Expression, scope: Scope, _within: Predicate) -> Value:
    """(SELECT COUNT(*) FROM census WHERE ...): a total with conditions of its own."""
    check_clauses(node, ("this",), " in a subquery")
    if node.this.key != "select":
        raise unsupported(in_words(node.this))
    check_clauses(node.this, ("expressions", "from", "where"), " in a subquery")
    inner = table_scope(node.this, scope.schema, scope)
    if len(node.this.expressions) != 1:
        raise unsupported("a subquery of several columns", "select one aggregate in it")
    value = _read(node.this.expressions[0].unalias(), inner, where(node.this, inner))
    if isinstance(value, float):
        raise unsupported("a subquery of a constant", "write the constant itself")
    return regrouped(value, False)


def _negative(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    return times(_read(node.this, scope, within), -1.0)


def _sum_of_two(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    left, right = _operands(node, scope, within)
    return plus(left, times(right, -1.0) if node.key == "sub" else right)


def _product(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    return times(*_operands(node, scope, within))


def _quotient(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    left, right = _operands(node, scope, within)
    if right == 0:
        raise QueryError("the query divides by zero")
    return over(left, right)


def _operands(node: exp.Expression, scope: Scope, within: Predicate) -> tuple[Value, Value]:
    return _read(node.this, scope, within), _read(node.args["expression"], scope, within)


def _cast(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    if not keeps_numbers(node):
        raise unsupported("a CAST of an aggregate that rounds it or turns it into text", "CAST to DOUBLE, or leave it")
    return _read(node.this, scope, within)


_READERS: dict[str, Callable[[Any, Scope, Predicate], Value]] = {
    "paren": lambda node, scope, within: _read(node.this, scope, within),
    "cast": _cast,
    "neg": _negative,
    "add": _sum_of_two,
    "sub": _sum_of_two,
    "mul": _product,
    "div": _quotient,
    "count": _count,
    "countif": _count_if,
    "sum": _sum,
    "avg": _average,
    "filter": _filter,
    "window": _window,
    "subquery": _subquery,
    **STATISTICS,
}
