"""Series limits, as Superset writes them: a JOIN of the table with its own largest groups.

    SELECT month, region, COUNT(*) FROM t JOIN (SELECT region AS region__, COUNT(*) AS mme_inner__ FROM t GROUP BY
    region ORDER BY mme_inner__ DESC LIMIT 5) AS anon_1 ON region = region__ GROUP BY month, region

The subquery is answered first, and its groups become a condition. Noisy values chose these groups, so that intervals
are widened as those of any rows that noise chose (Benjamini, Yekutieli).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from sqlglot import exp

from sfumato.answers.results import Cell, Result
from sfumato.answers.statement import CONDITION, HIGHEST, LOWEST, Chosen, confidence_of_each
from sfumato.serve.pgwire.statements import literal
from sfumato.serve.web.questions import Query


class Joined(NamedTuple):
    """Join of a table with its own groups. pairs: columns of the table, each with one of the groups."""

    select: Any
    join: Any
    groups: Any
    pairs: tuple[tuple[Any, str], ...]


def keep_top_groups(tree: Any, ask: Callable[[str], Result]) -> tuple[Chosen, ...] | None:
    """Replace such a join by a condition on the groups that `ask` finds.

    Returns the selections that noise made; None where there is no such join, or more than one.
    """
    found = [joined for join in tree.find_all(exp.Join) if (joined := _read(join.find_ancestor(exp.Select), join))]
    if len(found) != 1:
        return None
    (joined,) = found
    keys, selections = _top(joined, ask)
    joined.select.args["joins"].remove(joined.join)
    joined.select.where(_condition(joined, keys), copy=False)
    return tuple(selections)


def allowing_for(how: Query, selections: Sequence[Chosen]) -> tuple[Query, tuple[str, ...]]:
    """Manner of an answer about groups that noise chose, and the notes on that choice."""
    allowed = how.selected or how.simultaneous
    notes = tuple(one.note(how.confidence, allowed=allowed, together=False) for one in selections)
    if not allowed:
        return how, notes
    return how.model_copy(update={"confidence": confidence_of_each(how.confidence, selections)}), notes


def _read(select: Any, join: Any) -> Joined | None:
    """Read a join with the largest groups of the same table; None for any other join, which SQL answers or refuses."""
    groups, on = join.this, join.args.get("on")
    source = select.args.get("from") or select.args.get("from_")
    inner = groups.this if isinstance(groups, exp.Subquery) else None
    if not isinstance(inner, exp.Select) or on is None or join.side or join.kind not in ("", "INNER"):
        return None
    tables = [table.name.lower() for table in inner.find_all(exp.Table)]
    if not isinstance(source.this, exp.Table) or set(tables) != {source.this.name.lower()}:
        return None
    if not (inner.args.get("group") and inner.args.get("limit") and inner.args.get("order")):
        return None
    named = {column.alias_or_name.lower(): column.alias_or_name for column in inner.selects}
    pairs = []
    for equal in on.flatten() if isinstance(on, exp.And) else [on]:
        sides = [equal.this, equal.expression] if isinstance(equal, exp.EQ) else []
        of_groups = [_is_of(side, groups.alias, named) for side in sides]
        if of_groups.count(True) != 1:
            return None
        outer, key = sides if of_groups[1] else reversed(sides)
        pairs.append((outer, named[key.name.lower()]))
    own = [column for column in select.find_all(exp.Column) if column.find_ancestor(exp.Subquery) is not groups]
    used = [column for column in own if _is_of(column, groups.alias, named)]
    return Joined(select, join, inner, tuple(pairs)) if len(used) == len(pairs) else None


def _is_of(node: Any, alias: str, named: dict[str, str]) -> bool:
    if not isinstance(node, exp.Column) or node.name.lower() not in named:
        return False
    return node.table.lower() == alias.lower() if node.table else True


def _top(joined: Joined, ask: Callable[[str], Result]) -> tuple[list[tuple[Cell, ...]], list[Chosen]]:
    """Keys of the groups that are kept, and the selection if noise made it."""
    limit, order = joined.groups.args["limit"].expression, joined.groups.args["order"].expressions[0]
    whole = joined.groups.copy()
    whole.set("limit", None)
    result = ask(whole.sql(dialect="duckdb"))
    many = int(limit.name) if limit.is_int else 0
    places = [result.columns.index(name) for _, name in joined.pairs]
    keys = [tuple(row[place] for place in places) for row in result.rows[:many]]
    noisy = any(name in result.estimated for name in _ordered_by(order, joined.groups))
    if not noisy or not 0 < len(keys) < len(result.rows):
        return keys, []
    offset = joined.groups.args.get("offset")
    end = HIGHEST if order.args.get("desc") else LOWEST
    return keys, [Chosen(len(keys), len(result.rows), CONDITION if offset else end)]


def _ordered_by(order: Any, groups: Any) -> set[str]:
    """Columns of the select list that an order goes by; all of them where it is an expression."""
    by, names = order.this, {column.alias_or_name: column.unalias() for column in groups.selects}
    same = {name for name, column in names.items() if column == by or (isinstance(by, exp.Column) and by.name == name)}
    return same or set(names)


def _condition(joined: Joined, keys: Sequence[tuple[Cell, ...]]) -> exp.Expression:
    sides = [outer for outer, _ in joined.pairs]
    if not keys:
        return exp.Boolean(this=False)
    if len(sides) == 1:
        return exp.In(this=sides[0].copy(), expressions=[literal(key) for (key,) in keys if key is not None])  # type: ignore[arg-type]
    each = [
        exp.and_(*(exp.EQ(this=side.copy(), expression=literal(value)) for side, value in zip(sides, key, strict=True)))  # type: ignore[arg-type]
        for key in keys
    ]
    return exp.paren(exp.or_(*each))
