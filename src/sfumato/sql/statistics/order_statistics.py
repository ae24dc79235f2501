"""MEDIAN, QUANTILE, MIN, MAX, VARIANCE, STDDEV and COUNT(DISTINCT unit): which rows they are about, and of what."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sfumato.domain.predicates import Predicate
from sfumato.errors import QueryError
from sfumato.sql.predicates import compare, read_condition, rows_without
from sfumato.sql.scope import Scope, bare, in_words, number, quoted, unsupported
from sfumato.sql.statistics.formulas import Single
from sfumato.sql.statistics.rules import Quantile, Spread

if TYPE_CHECKING:
    from sqlglot import exp

_SPREADS = {  # sample or not, root or not
    "variance": (True, False),
    "variancepop": (False, False),
    "stddev": (True, True),
    "stddevsamp": (True, True),
    "stddevpop": (False, True),
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
_WRITE = "write the name of an attribute, or CASE WHEN ... THEN attribute END"


def statistic_name(node: exp.Expression, rule: Any) -> str:
    """median_age, min_age, stddev_age, ...: what a column is called that has no alias."""
    return f"{_NAMES.get(node.key, node.key)}_{rule.of}"


def counts_units(node: exp.Expression, scope: Scope) -> bool:
    """Whether COUNT of this counts rows because it counts units with one row each; other DISTINCTs are refused."""
    if node.key != "distinct":
        return False
    unit = scope.schema.privacy_unit
    named = [bare(part) for part in node.expressions]
    shown = f"COUNT(DISTINCT {', '.join(quoted(part) for part in named)})"
    one = named[0] if len(named) == 1 and named[0].key == "column" else None
    if unit.column is None or one is None or str(one.name).lower() != unit.column.lower():
        raise unsupported(shown, "a release counts rows, and does not say which values occur; write COUNT(*)")
    if unit.contributions > 1:
        raise unsupported(
            shown,
            f"up to {unit.contributions} rows of each {unit.column} are counted, and a release does not say whose "
            "rows they are; write COUNT(*) for the rows",
        )
    return True


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
        raise QueryError(
            f"{quoted(function)}: {name} is a measure, of which a release has sums alone; SUM({name}) and AVG({name}) "
            "have answers, and an attribute with bins would have quantiles and a variance"
        )
    return name, ~rows_without(name, scope)


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


READERS: dict[str, Callable[[Any, Scope, Predicate], Single]] = {
    "median": _median,
    "min": _extreme,
    "max": _extreme,
    "withingroup": _within_group,
    **dict.fromkeys(("quantile", "percentilecont", "percentiledisc", "approxquantile"), _quantile),
    **dict.fromkeys(_SPREADS, _spread),
}
