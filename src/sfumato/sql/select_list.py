"""Select list to columns: aggregates, statistics, and arithmetic of them.

Statistics are MEDIAN, QUANTILE, MIN, MAX, VARIANCE, STDDEV and COUNT(DISTINCT unit), of an attribute in some rows;
CORR, COVAR, REGR and CRAMERS_V of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.effort import OF_A_NODE, at_most, spend
from sfumato.errors import QueryError
from sfumato.schema.parts import ROWS
from sfumato.sql.column_arithmetic import (
    LINEAR,
    Ratio,
    Single,
    Value,
    column_of,
    is_difference,
    over,
    plus,
    regrouped,
    times,
)
from sfumato.sql.expressions import read_classes
from sfumato.sql.plan import CRAMERS_V, Amount, Bivariate, Column, Distinct, Quantile, Spread
from sfumato.sql.predicates import check_clauses, compare, read_condition, rows_without, table_scope, where
from sfumato.sql.rows import RowAmount, read_row_amount, rows_with_value
from sfumato.sql.scope import Scope, bare, in_words, keeps_numbers, nodes_in, number, quoted, unsupported
from sfumato.sql.spellings import COUNT_ROWS

if TYPE_CHECKING:
    from sqlglot import exp

_SPREADS = {  # sample or not, root or not
    "variance": (True, False),
    "variancepop": (False, False),
    "stddev": (True, True),
    "stddevsamp": (True, True),
    "stddevpop": (False, True),
}
_RELATIONS = {  # of two columns: what each is called, and whether it needs squares of the first
    "corr": ("corr", True),
    "covarpop": ("covar_pop", False),
    "covarsamp": ("covar_samp", False),
    "regrslope": ("regr_slope", False),
    "regrintercept": ("regr_intercept", False),
    "regrr2": ("regr_r2", True),
    "regrsxx": ("regr_sxx", False),
    "regrsyy": ("regr_syy", True),
    "regrsxy": ("regr_sxy", False),
}
_NAMES = {
    "approxquantile": "quantile",
    "percentilecont": "quantile",
    "percentiledisc": "quantile",
    "variancepop": "variance",
    "stddevsamp": "stddev",
    "stddevpop": "stddev",
    "withingroup": "quantile",
}
MOST_DISTINCT = 1_000  # values of a COUNT(DISTINCT): each is counted by itself, for every group
_WRITE = "write the name of an attribute, or CASE WHEN ... THEN attribute END"

_NO_ROWS = "a release holds no rows to list; GROUP BY the column, with COUNT(*) of each value"
_TRUTH = "count both sides: COUNT(*) FILTER (WHERE ...), whose interval says whether there are any"
_INSTEAD = {  # what to write for an aggregate that a release cannot give
    **dict.fromkeys(("groupconcat", "arrayagg", "arrayuniqueagg", "jsonarrayagg"), _NO_ROWS),
    **dict.fromkeys(("logicalor", "logicaland"), _TRUTH),
    "mode": "GROUP BY the column ORDER BY COUNT(*) DESC LIMIT 1 shows the most frequent value, and how sure that is",
    **dict.fromkeys(("argmax", "argmin"), "GROUP BY the first, ORDER BY a number of it, LIMIT 1"),
}


def statistic_name(node: exp.Expression, rule: Any) -> str:
    """Default name of a statistic's column: median_age, min_age, stddev_age, ..."""
    if isinstance(rule, Bivariate):
        return f"{rule.statistic}_{rule.of}_{rule.by}"
    return f"{_NAMES.get(node.key, node.key)}_{rule.of}"


def counts_units(node: exp.Expression, scope: Scope) -> bool:
    """Whether COUNT's argument is DISTINCT privacy unit, which counts rows; refused if a unit may have several."""
    if node.key != "distinct":
        return False
    unit = scope.schema.privacy_unit
    one = bare(node.expressions[0]) if len(node.expressions) == 1 else None
    if unit.column is None or one is None or one.key != "column" or str(one.name).lower() != unit.column.lower():
        return False
    if unit.contributions > 1:
        raise unsupported(
            f"COUNT(DISTINCT {quoted(one)})",
            f"up to {unit.contributions} rows of each {unit.column} are counted, and a release does not say whose "
            "rows they are; write COUNT(*) for the rows",
        )
    return True


def _distinct(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    """COUNT(DISTINCT x): the values of an attribute, or of an expression of attributes, that have rows."""
    one = bare(node.expressions[0])
    shown = ", ".join(map(quoted, node.expressions))
    if len(node.expressions) != 1:
        raise unsupported(f"COUNT(DISTINCT {shown})", "name one attribute, or put several together by ||")
    try:
        columns = [scope.name_of(part) for part in one.walk() if part.key == "column"]
        measured = any(name in scope.schema.measures and name not in scope.schema.domain for name in columns)
        classes = {} if measured else read_classes(one, replace(scope, cuts=[]), "COUNT(DISTINCT ...)")
    except QueryError as refusal:
        raise unsupported(f"COUNT(DISTINCT {shown})", str(refusal)) from None
    if one.key == "column" and scope.name_of(one) in scope.schema.domain and scope.axis_of(one, "COUNT").timed:
        raise unsupported(f"COUNT(DISTINCT {shown})", f"hours are known: COUNT(DISTINCT DATE_TRUNC('hour', {shown}))")
    if measured:
        raise unsupported(f"COUNT(DISTINCT {shown}) of a measure", "a release has only sums of measures")
    rows = [values for value, values in classes.items() if value is not None]
    if not all(values.exact(scope.schema.domain) for values in rows):
        raise unsupported(
            f"COUNT(DISTINCT {shown})",
            "values inside a bin are not told apart; count those of a function that has one value in each bin",
        )
    at_most(len(rows), MOST_DISTINCT, f"values of {shown} would be counted", "use a coarser expression, as DATE_TRUNC")
    spend(OF_A_NODE * len(rows), "COUNT(DISTINCT ...)")
    return Single(Distinct(tuple(inside for values in rows if (inside := values & within)), shown))


def _median(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    return _quantile_of(node, node.this, 0.5, scope, within)


def _extreme(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    if node.expressions or node.args.get("count"):
        raise unsupported(f"{quoted(node)}, with more than one argument", f"write {node.key.upper()} of one attribute")
    return _quantile_of(node, node.this, 0.0 if node.key == "min" else 1.0, scope, within)


def _quantile(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    """QUANTILE(x, 0.9), QUANTILE_CONT, QUANTILE_DISC, APPROX_QUANTILE."""
    given = node.args.get("quantile") or node.args.get("expression")
    if given is None:
        raise QueryError(f"{quoted(node)} lacks its share or its order; write QUANTILE(age, 0.9)")
    return _quantile_of(node, node.this, _share(given, node), scope, within)


def _within_group(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    """PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY x)."""
    function, order = node.this, node.args.get("expression")
    rules = order.expressions if order is not None else []
    if function.key not in ("percentilecont", "percentiledisc", "quantile") or len(rules) != 1:
        raise unsupported(" ".join(node.sql().split()), "write PERCENTILE_CONT(0.9) WITHIN GROUP (ORDER BY age)")
    share = _share(function.this, function)
    return _quantile_of(function, rules[0].this, 1.0 - share if rules[0].args.get("desc") else share, scope, within)


def _share(node: exp.Expression, function: exp.Expression) -> float:
    share = number(node)
    if share is None:
        raise unsupported(f"{quoted(node)} as the share of a quantile", "write one number from 0 to 1")
    if not 0.0 <= share <= 1.0:
        raise QueryError(f"{quoted(function)}: the share of a quantile lies between 0 and 1, such as 0.9")
    return share


def _quantile_of(function: exp.Expression, node: Any, share: float, scope: Scope, within: Predicate) -> Single:
    of, rows = _attribute(function, node, scope)
    if not scope.schema.domain[of].ordered:
        raise QueryError(
            f"{quoted(function)}: {of} is of type {scope.schema.domain[of].kind}, whose values have no order; "
            f"count them with GROUP BY {of}"
        )
    return Single(Quantile(within & rows, of, share, whole=function.key == "percentiledisc"))


def _spread(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    of, rows = _attribute(node, node.this, scope)
    if scope.schema.domain[of].kind not in ("integer", "number"):
        raise QueryError(f"{quoted(node)}: {of} is of type {scope.schema.domain[of].kind} and has no variance")
    sample, root = _SPREADS[node.key]
    return Single(Spread(within & rows, of, sample, root))


def _relation(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    """CORR(y, x), COVAR_POP, REGR_SLOPE and the like, over the rows that have both."""
    statistic, squares = _RELATIONS[node.key]
    of, by, rows = _two(node, scope)
    schema = scope.schema
    if of not in schema.domain and by in schema.domain and not squares:
        return Single(Bivariate(within & rows, of, by, statistic, measured=True))
    if of in schema.domain and by not in schema.domain and statistic.startswith("covar"):
        return Single(Bivariate(within & rows, by, of, statistic, measured=True))
    for name in (of, by):
        if name not in schema.domain:
            raise _of_a_measure(quoted(node), name, scope)
    return Single(Bivariate(within & rows, of, by, statistic))


def _cramers_v(node: exp.Expression, scope: Scope, within: Predicate) -> Single:
    """CRAMERS_V(a, b) of two attributes, over the rows that have both."""
    names, rows = [], Predicate.everything()
    for one in map(bare, node.expressions):
        name = scope.name_of(one) if one.key == "column" else ""
        if name not in scope.schema.domain:
            raise unsupported(f"{in_words(one)} inside {quoted(node)}", "write the names of two attributes")
        names.append(name)
        rows &= ~rows_without(name, scope)
    if len(set(names)) != 2 or len(names) != 2:
        raise QueryError(f"{quoted(node)}: write the names of two attributes")
    return Single(Bivariate(within & rows, names[0], names[1], CRAMERS_V))


def _regression_part(node: exp.Expression, scope: Scope, within: Predicate) -> Ratio:
    """REGR_COUNT(y, x), REGR_AVGX and REGR_AVGY: over the rows that have both."""
    of, by, rows = _two(node, scope)
    measured = [name for name in (of, by) if name not in scope.schema.domain]
    if len(measured) == 2:
        raise _of_a_measure(quoted(node), by, scope)
    kept = next((name for name in measured if scope.schema.measures[name].missing == "keep"), None)
    counted = (Amount(within & rows, None, present=kept),)
    if node.key == "regrcount":
        return Ratio(counted)
    of = by if node.key == "regravgx" else of
    return Ratio((Amount(within & rows, of, present=None if of == kept else kept),), counted)


def _two(node: exp.Expression, scope: Scope) -> tuple[str, str, Predicate]:
    """The two columns that a statistic is of, and the rows that have both."""
    names, rows = [], Predicate.everything()
    for one in (bare(node.this), bare(node.args["expression"])):
        if one.key != "column":
            raise unsupported(f"{in_words(one)} inside {quoted(node)}", "write the names of two columns")
        name = scope.name_of(one)
        kind = scope.schema.domain[name].kind if name in scope.schema.domain else "number"
        if kind not in ("integer", "number"):
            raise QueryError(
                f"{quoted(node)}: {name} is of type {kind}; write two columns of numbers, or compare groups with "
                f"AVG ... GROUP BY {name}"
            )
        names.append(name)
        rows &= ~rows_without(name, scope)
    return names[0], names[1], rows


def _attribute(function: exp.Expression, node: Any, scope: Scope) -> tuple[str, Predicate]:
    """The attribute that a statistic is of, and its rows: all, or those that CASE does not leave NULL."""
    node = bare(node)
    if node.key == "distinct":
        if function.key not in ("min", "max") or len(node.expressions) != 1:
            raise unsupported(f"DISTINCT in {quoted(function)}", "leave DISTINCT out")
        node = bare(node.expressions[0])  # the least of the distinct values is the least value
    if node.key in ("case", "if"):
        return _chosen(function, node, scope)
    if node.key != "column":
        raise unsupported(f"{in_words(node)} inside {quoted(function)}", _WRITE)
    name = scope.name_of(node)
    if name not in scope.schema.domain:
        raise _of_a_measure(quoted(function), name, scope)
    return name, ~rows_without(name, scope)


def _of_a_measure(function: str, name: str, scope: Scope) -> QueryError:
    """The refusal of a quantile or variance of a measure, with what to declare for it."""
    measure = scope.schema.measures[name]
    column = "" if measure.column == name else f", column: {measure.column}"
    bounds = f"lower: {float(measure.lower):.15g}, upper: {float(measure.upper):.15g}, bins: 20"
    return QueryError(
        f"{function}: {name} is a measure, of which a release has sums alone (SUM, AVG); for quantiles and variances "
        f"declare it as an attribute too, and release again: attributes: {{{name}: {{type: number, {bounds}{column}}}}}"
    )


def _chosen(function: exp.Expression, node: Any, scope: Scope) -> tuple[str, Predicate]:
    """CASE WHEN sex = 'F' THEN age END: the attribute, where a branch gives it."""
    branches = node.args["ifs"] if node.key == "case" else [node]
    left, rows, names = Predicate.everything(), Predicate.nothing(), set[str]()
    for branch in branches:
        condition = (
            read_condition(branch.this, scope)
            if node.key == "if" or node.this is None
            else compare("eq", node.this, branch.this, scope, lambda: quoted(node))
        )
        if bare(branch.args["true"]).key != "null":
            name, some = _attribute(function, branch.args["true"], scope)
            rows, names = rows | (left & condition & some), names | {name}
        left -= condition
    default = node.args.get("default") or (node.args.get("false") if node.key == "if" else None)
    if default is not None and bare(default).key != "null":
        name, some = _attribute(function, default, scope)
        rows, names = rows | (left & some), names | {name}
    if len(names) != 1:
        raise unsupported(f"CASE between several columns inside {quoted(function)}", _WRITE)
    return names.pop(), rows


STATISTICS: dict[str, Callable[[Any, Scope, Predicate], Single]] = {
    "median": _median,
    "min": _extreme,
    "max": _extreme,
    "withingroup": _within_group,
    **dict.fromkeys(("quantile", "percentilecont", "percentiledisc", "approxquantile"), _quantile),
    **dict.fromkeys(_SPREADS, _spread),
    **dict.fromkeys(_RELATIONS, _relation),
    "anonymousaggfunc": _cramers_v,
}
_OF_TWO = ("regrcount", "regravgx", "regravgy")


_TOTAL = "windows are totals over groups, SUM(COUNT(*)) OVER (PARTITION BY ...), and ranks of groups"


def read_column(node: exp.Expression, scope: Scope, within: Predicate, *, grouped: bool) -> Column:
    """One aggregate of the select list, with the name it has unless an alias says otherwise.

    within: the rows that WHERE keeps. grouped: whether the query has GROUP BY.
    """
    spend(OF_A_NODE * nodes_in(node), "the select list")
    value = read_value(node, scope, within)
    # Without GROUP BY, a total over all groups is the same thing as the one group.
    column = column_of(value if grouped else regrouped(value, True), scope.schema)
    return replace(column, name=_default_name(node, column, scope), difference=is_difference(node))


def _default_name(node: exp.Expression, column: Column, scope: Scope) -> str:
    """Default name of a column without an alias: count, sum_charge, avg_charge, share, ..."""
    aggregate = _innermost(node, ("paren", "cast", "filter"))
    if isinstance(column.rule, Distinct):
        return f"distinct_{column.rule.of}" if column.rule.of.isidentifier() else "distinct"
    if aggregate.key == "count" and aggregate.this is not None and aggregate.this.key == "var":
        return COUNT_ROWS
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


def read_value(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    """An aggregate, or arithmetic of aggregates, of the rows within a predicate."""
    constant = number(node)
    if constant is not None:
        return constant
    read = _READERS.get(node.key)
    if read is None:
        if node.key == "column" and node.this.key == "identifier":
            scope.name_of(node)  # refuses a name that no column has in words that say so
        raise unsupported(f"{in_words(node)} in the select list", _INSTEAD.get(node.key, LINEAR))
    return read(node, scope, within)


def _count(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    if node.expressions:
        raise unsupported("COUNT of several columns", "write COUNT(*)")
    if node.this is not None and node.this.key == "var":
        return _rows_as_they_are("COUNT_ROWS()", scope, within)
    if node.this is None or node.this.key == "star":
        return Ratio((Amount(within, None),))
    if counts_units(node.this, scope):
        return _rows_as_they_are(f"COUNT({quoted(node.this)})", scope, within)
    if node.this.key == "distinct":
        return _distinct(node.this, scope, within)
    return Ratio(rows_with_value(bare(node.this), scope).counted(within))


def _rows_as_they_are(asked: str, scope: Scope, within: Predicate) -> Ratio:
    """The number of rows, each of which counts once, where COUNT(*) is weighted too."""
    if scope.schema.weight is None:
        return Ratio((Amount(within, None),))
    if ROWS not in scope.schema.summed:
        raise unsupported(
            asked,
            "rows were counted by their weights alone; write COUNT(*), or release with weight.unweighted_share above 0",
        )
    return Ratio((Amount(within, ROWS),))


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
    if node.this.key not in ("count", "countif", "sum", "avg", *_OF_TWO, *STATISTICS):
        raise unsupported(f"FILTER on {in_words(node.this)}", LINEAR)
    return read_value(node.this, scope, within & read_condition(node.args["expression"].this, scope))


def _window(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    """SUM(aggregate) OVER (): the aggregate for all groups together, or for those of a partition."""
    known = ("this", "over") if scope.windows is None else ("this", "over", "partition_by")
    extras = [key for key, value in node.args.items() if value and key not in known]
    if extras or node.this.key != "sum":
        raise unsupported("a window function", _TOTAL)
    rows = within if scope.windows is None else scope.windows.total(node.args.get("partition_by") or [])
    total = read_value(node.this.this, scope, rows)
    if not isinstance(total, Ratio) or total.bottom is not None:
        raise unsupported("a window over something that is not a COUNT or SUM", _TOTAL)
    return regrouped(total, False)


def _subquery(node: exp.Expression, scope: Scope, _within: Predicate) -> Value:
    """(SELECT COUNT(*) FROM census WHERE ...): a total with conditions of its own."""
    check_clauses(node, ("this",), " in a subquery")
    if node.this.key != "select":
        raise unsupported(in_words(node.this))
    check_clauses(node.this, ("expressions", "from", "where"), " in a subquery")
    inner = table_scope(node.this, scope.schema, scope)
    if len(node.this.expressions) != 1:
        raise unsupported("a subquery of several columns", "select one aggregate in it")
    value = read_value(node.this.expressions[0].unalias(), inner, where(node.this, inner))
    if isinstance(value, float):
        raise unsupported("a subquery of a constant", "write the constant itself")
    return regrouped(value, False)


def _negative(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    return times(read_value(node.this, scope, within), -1.0)


def _sum_of_two(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    left, right = _operands(node, scope, within)
    return plus(left, times(right, -1.0) if node.key == "sub" else right)


def _product(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    return times(*_operands(node, scope, within))


def _quotient(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    divisor = bare(node.args["expression"])
    while divisor.key == "nullif" and number(divisor.args["expression"]) == 0:  # what is divided by zero is unknown
        divisor = bare(divisor.this)
    left, right = read_value(node.this, scope, within), read_value(divisor, scope, within)
    if right == 0:
        raise QueryError("the query divides by zero")
    return over(left, right)


def _coalesce(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    """COALESCE of a count or sum, which is never NULL here: a sum of no rows is 0."""
    value = read_value(bare(node.this), scope, within)
    if not isinstance(value, Ratio) or value.bottom is not None:
        raise unsupported("COALESCE of a ratio or a quantile inside arithmetic", "put COALESCE around the whole")
    return value


def _operands(node: exp.Expression, scope: Scope, within: Predicate) -> tuple[Value, Value]:
    return read_value(node.this, scope, within), read_value(node.args["expression"], scope, within)


def _cast(node: exp.Expression, scope: Scope, within: Predicate) -> Value:
    if not keeps_numbers(node):
        raise unsupported("a CAST of an aggregate that rounds it or turns it into text", "CAST to DOUBLE, or leave it")
    return read_value(node.this, scope, within)


_READERS: dict[str, Callable[[Any, Scope, Predicate], Value]] = {
    "paren": lambda node, scope, within: read_value(node.this, scope, within),
    "cast": _cast,
    "neg": _negative,
    "add": _sum_of_two,
    "sub": _sum_of_two,
    "mul": _product,
    "div": _quotient,
    "coalesce": _coalesce,
    "count": _count,
    "countif": _count_if,
    "sum": _sum,
    "avg": _average,
    "filter": _filter,
    "window": _window,
    "subquery": _subquery,
    **dict.fromkeys(_OF_TWO, _regression_part),
    **STATISTICS,
}
