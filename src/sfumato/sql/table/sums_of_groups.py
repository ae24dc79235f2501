"""Rewrite SUM over the groups of a subquery as one aggregate of rows: a sum of counts by group is a count of rows.

    SELECT SUM(n) FROM (SELECT g, COUNT(*) AS n FROM t GROUP BY g) WHERE g <> 'x'

says SELECT COUNT(*) FROM t WHERE g <> 'x'. The same holds for sums, for terms that are added, subtracted and multiplied
by a number, and for conditions on the subquery's keys, which are public. Everything else that can be made of groups
depends on which groups there are, or on each noisy value by itself, and is refused in the words that the user wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from sfumato.effort import OF_A_NODE, spend
from sfumato.sql.scope import nodes_in, quoted, unsupported
from sfumato.sql.table.syntax import default_name, totals_in

if TYPE_CHECKING:
    from sqlglot import exp

_ONE_LEVEL = "aggregate once: write the aggregates in the subquery and arithmetic, filters and order outside"
_FIRST = "order by it and take the first: ORDER BY n DESC LIMIT 1 for the largest, ORDER BY n LIMIT 1 for the least"
_ADD_UP = "add up counts and sums of theirs, which may be added, subtracted and multiplied by numbers"
_SAID = "said"
_ADDED_UP = ("count", "countif", "sum")


class Grouped(Protocol):
    """A subquery that groups rows."""

    @property
    def sets(self) -> tuple[tuple[Any, ...], ...] | None: ...

    @property
    def filtered(self) -> bool: ...


def sums_of_rows(select: Any, inside: Any, source: Grouped) -> Any:
    """A SELECT that adds up the groups of its source, rewritten over the rows of these.

    select: as it was written. inside: the same with the columns of its source replaced by their expressions.
    """
    from sqlglot import exp

    spend(4 * OF_A_NODE * nodes_in(inside), "a sum over the groups of a subquery")
    _refuse_others(select, inside, source)

    def replaced(node: exp.Expression) -> exp.Expression:
        condition = None
        if isinstance(node, exp.Filter) and isinstance(node.this, exp.Sum):
            node, condition = node.this, node.expression.this
        if not isinstance(node, exp.Sum):
            return node
        found = _of_rows(node.this, condition)
        if found is None:
            raise unsupported(f"{node.meta.get(_SAID, quoted(node))} over the groups of a subquery", _ADD_UP)
        return exp.Paren(this=found)

    copy = inside.copy()
    for clause in ("expressions", "having", "order", "qualify"):
        roots = [one.args.get(clause) for one in (select, copy)]
        theirs, mine = ([sum_ for sum_ in _sums(root) if sum_.find_ancestor(exp.Sum) is None] for root in roots)
        for said, node in zip(theirs, mine, strict=False):
            node.meta[_SAID] = quoted(said)
    named = []
    for written, item in zip(select.expressions, copy.expressions, strict=True):
        name = item.alias or (written.name if written.key == "column" else default_name(written)) or ""
        changed = item.unalias().transform(replaced)
        named.append(exp.alias_(changed, name, quoted=True) if name else changed)
    copy.set("expressions", named)
    for clause in ("having", "order", "qualify"):
        if copy.args.get(clause):
            copy.set(clause, copy.args[clause].transform(replaced))
    return copy


def _refuse_others(select: Any, inside: Any, source: Grouped) -> None:
    from sqlglot import exp

    for clause in ("where", "group"):
        if inside.args.get(clause) and list(inside.args[clause].find_all(exp.AggFunc)):
            words = quoted(select.args[clause]).strip()
            raise unsupported(f"an aggregate over groups that {words} chooses by noisy values", "leave that out")
    clauses = (select.args.get(name) for name in ("having", "order", "qualify"))
    written = [*select.expressions, *(clause for clause in clauses if clause)]
    if totals_in(written):
        raise unsupported(f"{quoted(totals_in(written)[0])} beside an aggregate of groups", _ONE_LEVEL)
    for node in (node for root in written for node in root.find_all(exp.AggFunc)):
        if node.key != "sum":
            instead = _FIRST if node.key in ("max", "min") else _ONE_LEVEL
            raise unsupported(f"{quoted(node)} of what a subquery has aggregated", instead)
        if source.filtered or source.sets is None or len(source.sets) > 1:
            raise unsupported(
                f"{quoted(node)} over groups that were left out, cut short or made of several grouping sets", _ONE_LEVEL
            )
    parts = [*inside.expressions, *(inside.args[name] for name in ("having", "order") if inside.args.get(name))]
    for place, root in enumerate(parts):
        for node in root.find_all(exp.AggFunc):
            if node.find_ancestor(exp.Sum) is None and node.key != "sum":
                alone = quoted(written[place].unalias()) if place < len(select.expressions) else quoted(node)
                raise unsupported(f"{alone} beside a sum over groups", "put SUM around it")
    for node in (node for root in inside.expressions for node in root.find_all(exp.Sum)):
        if node.find_ancestor(exp.Sum) is None and not list(node.this.find_all(exp.AggFunc)):
            raise unsupported(f"{quoted(node)} over the groups of a subquery", _ADD_UP)


def _sums(clause: Any) -> list[Any]:
    from sqlglot import exp

    roots = clause if isinstance(clause, list) else [clause] if clause else []
    return [node for root in roots for node in root.find_all(exp.Sum, bfs=False)]


def _of_rows(node: Any, condition: Any) -> Any:
    """A sum over groups as an aggregate of their rows; None where it is none. condition: on the rows."""
    from sqlglot import exp

    if isinstance(node, exp.Paren | exp.Neg | exp.Add | exp.Sub | exp.Mul | exp.Div):
        return _arithmetic(node, condition)
    if isinstance(node, exp.Case) and node.this is None and len(node.args["ifs"]) == 1 and _is_nothing(node):
        (branch,) = node.args["ifs"]
        if not list(branch.this.find_all(exp.AggFunc)):
            return _of_rows(branch.args["true"], exp.and_(branch.this, condition) if condition else branch.this)
    inner = node.this if isinstance(node, exp.Filter) else node
    if inner.key not in _ADDED_UP or inner.this is None or list(inner.this.find_all(exp.AggFunc)):
        return None
    conditions = [part.copy() for part in (node.expression.this if node is not inner else None, condition) if part]
    if not conditions:
        return node.copy()
    return exp.Filter(this=inner.copy(), expression=exp.Where(this=exp.and_(*conditions)))


def _arithmetic(node: Any, condition: Any) -> Any:
    """Sums, differences and multiples by a number, as aggregates of rows; None where they are none."""
    from sqlglot import exp

    if isinstance(node, exp.Paren | exp.Neg):
        return _made(type(node), _of_rows(node.this, condition))
    left, right = node.this, node.expression
    if isinstance(node, exp.Add | exp.Sub):
        return _made(type(node), _of_rows(left, condition), _of_rows(right, condition))
    if _is_number(right):
        return _made(type(node), _of_rows(left, condition), right.copy())
    return (
        _made(type(node), left.copy(), _of_rows(right, condition)) if node.key == "mul" and _is_number(left) else None
    )


def _made(kind: Any, *parts: Any) -> Any:
    """Arithmetic of parts; None if one of them is."""
    return None if None in parts else kind(**dict(zip(("this", "expression"), parts, strict=False)))


def _is_nothing(case: Any) -> bool:
    """Whether a CASE adds nothing where its condition does not hold."""
    default = case.args.get("default")
    return default is None or default.key == "null" or (default.key == "literal" and default.name == "0")


def _is_number(node: Any) -> bool:
    bare = node.unnest()
    bare = bare.this if bare.key == "neg" else bare
    return bare.key == "literal" and not bare.args.get("is_string")
