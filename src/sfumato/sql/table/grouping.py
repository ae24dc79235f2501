"""GROUP BY to grouping sets: plain lists, GROUPING SETS, ROLLUP and CUBE, and products of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations, product
from math import prod
from typing import Any

from sfumato.effort import MOST_RULES, MOST_SETS, at_most
from sfumato.errors import QueryError
from sfumato.sql.scope import bare, number, place_in, unsupported
from sfumato.sql.table.syntax import Named, aggregates_in
from sfumato.sql.table.windows import text_of

Keys = tuple[Any, ...]


def grouping_sets(group: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> tuple[Keys, ...]:
    """The sets of keys by which rows are grouped; plain: puts in what an alias stands for."""
    extras = [key for key, value in group.args.items() if value and key not in ("expressions", "all")]
    if extras:
        raise unsupported(f"GROUP BY ... WITH {extras[0].upper()}", f"write GROUP BY {extras[0].upper()} (...)")
    if group.args.get("all"):
        return (tuple(item.node for item in items if not aggregates_in(item.node) and number(item.node) is None),)
    at_most(len(group.expressions), MOST_RULES, "keys are in GROUP BY", "name each key once")
    at_most(prod(map(_number, group.expressions)), MOST_SETS, "grouping sets are in GROUP BY", "name fewer keys")
    parts = [_sets(node, items, plain) for node in group.expressions]
    return tuple(_once(key for keys in chosen for key in keys) for chosen in product(*parts))


def _number(node: Any) -> int:
    """How many sets one item of GROUP BY stands for, counted before any of them is listed."""
    at_most(len(node.expressions), MOST_RULES, f"keys are in {node.key.upper()}", "name each key once")
    if node.key == "rollup":
        return len(node.expressions) + 1
    if node.key == "cube":
        return 1 << len(node.expressions)
    return sum(map(_number, node.expressions)) if node.key == "groupingsets" else 1


def _sets(node: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> list[Keys]:
    """The sets that one item of GROUP BY stands for."""
    if node.key == "rollup":
        steps = [_keys(part, items, plain) for part in node.expressions]
        return [_once(key for step in steps[:length] for key in step) for length in range(len(steps), -1, -1)]
    if node.key == "cube":
        steps = [_keys(part, items, plain) for part in node.expressions]
        chosen = (some for length in range(len(steps), -1, -1) for some in combinations(steps, length))
        return [_once(key for step in some for key in step) for some in chosen]
    if node.key == "groupingsets":
        return [keys for part in node.expressions for keys in _sets(part, items, plain)]
    return [_keys(node, items, plain)]


def _keys(node: Any, items: tuple[Named, ...], plain: Callable[[Any], Any]) -> Keys:
    """One key, or several in parentheses."""
    node = bare(node)
    if node.key == "tuple":
        return tuple(key for part in node.expressions for key in _keys(part, items, plain))
    if node.key == "literal" and not node.args.get("is_string"):
        place = place_in(node, len(items))
        if place is None:
            raise QueryError(
                f"GROUP BY {node.name} is not a place in the select list; its places are 1 to {len(items)}"
            )
        node = items[place].node
    found = bare(plain(node))
    if aggregates_in(found):
        raise unsupported("an aggregate in GROUP BY", "group by attributes, or by expressions of them")
    return (found,)


def _once(keys: Iterable[Any]) -> Keys:
    return tuple({text_of(key): key for key in keys}.values())
