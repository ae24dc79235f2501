"""Small queries and rewrites of syntax trees, which leave the tree they are given unchanged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from sfumato.effort import MOST_NODES, OF_A_NODE, at_most, spend
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.sql.scope import in_words, nodes_in, quoted
from sfumato.sql.values.tree import ERROR, error_named

if TYPE_CHECKING:
    from sqlglot import exp

RANKS = ("rank", "denserank", "rownumber", "ntile", "percentrank")
_MOST_QUOTED = 100  # nodes of an expression whose text is the name of its column
_INNER = "inner"  # marks columns that came in with what a subquery calls by another name: no alias of the outer SELECT


@dataclass(frozen=True)
class Named:
    """Item of a select list. name: alias, or column that * stands for. measure: whether it is a column to sum."""

    name: str | None
    node: Any
    measure: bool = False


class Source(Protocol):
    """The source of a SELECT's rows."""

    @property
    def items(self) -> tuple[Named, ...]: ...


class Written:
    """Counts the nodes of a SELECT as expressions are substituted into it, before each substitution."""

    def __init__(self, nodes: int = 0) -> None:
        self.nodes = nodes
        self._sizes: dict[int, int] = {}
        spend(OF_A_NODE * nodes, "a subquery")

    def copy(self, node: Any) -> Any:
        """A copy of an expression, in parentheses where it needs them."""
        size = self._sizes.setdefault(id(node), 0) or nodes_in(node)
        self._sizes[id(node)] = size
        self.nodes += size
        what = "names, constants and operators would be in a SELECT whose subqueries and aliases are written out"
        at_most(self.nodes, MOST_NODES, what, "name each column of a subquery fewer times")
        spend(OF_A_NODE * size, "a subquery")
        return in_parentheses(node)


def own_nodes(select: Any) -> Iterator[Any]:
    """The nodes of a SELECT from the outside in, without those of FROM, JOIN and WITH, which are other SELECTs."""
    from sqlglot import exp

    yield from select.walk(prune=lambda node: isinstance(node, exp.From | exp.Join | exp.With))


def is_star(node: exp.Expression) -> bool:
    return node.key == "star" or (node.key == "column" and node.this.key == "star")


def is_rank(node: exp.Expression) -> bool:
    return node.key == "window" and node.this.key in RANKS


def aggregates_in(nodes: Any) -> list[Any]:
    """Aggregates of rows: not ranks, nor totals over groups, though what these add up may be one."""
    from sqlglot import exp

    return [node for root in _listed(nodes) for node in root.find_all(exp.AggFunc, exp.Subquery) if _is_aggregate(node)]


def _is_aggregate(node: Any) -> bool:
    from sqlglot import exp

    if isinstance(node, exp.Subquery):
        return node.find_ancestor(exp.From) is None
    around = node.parent
    if isinstance(around, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
        around = around.parent
    return isinstance(node, exp.AggFunc) and node.key not in RANKS and not isinstance(around, exp.Window)


class Fact(NamedTuple):
    """Properties of an expression. size: number of nodes; aggregated: contains aggregates; columns: their names."""

    size: int
    aggregated: bool
    columns: int


def facts_of(root: Any) -> dict[int, Fact]:
    """Properties of every subexpression, by id of its node, in one traversal."""
    nodes = list(root.walk())  # parents before their children
    spend(OF_A_NODE * len(nodes), "an expression")
    found: dict[int, Fact] = {}
    for node in reversed(nodes):
        parts = [found[id(part)] for part in node.iter_expressions()]
        if is_error_node(node):  # a plain value, whatever it is made of
            found[id(node)] = Fact(1 + sum(part.size for part in parts), False, 0)
            continue
        found[id(node)] = Fact(
            (node.key != "paren") + sum(part.size for part in parts),
            _is_aggregate(node)
            or (node.key == "window" and not is_rank(node))
            or any(part.aggregated for part in parts),
            (node.key == "column") + sum(part.columns for part in parts),
        )
    return found


def totals_in(nodes: Any) -> list[Any]:
    """Window aggregates (totals over groups), without ranks."""
    from sqlglot import exp

    return [node for root in _listed(nodes) for node in root.find_all(exp.Window) if not is_rank(node)]


def ranks_replaced(nodes: Iterable[Any], before: int) -> tuple[list[Any], list[Any]]:
    """The nodes with every rank replaced by a placeholder, and the ranks; before: how many there are already."""
    from sqlglot import exp

    ranks: list[Any] = []

    def replaced(node: exp.Expression) -> exp.Expression:
        if not is_rank(node):
            return node
        if node not in ranks:
            ranks.append(node)
        return exp.Var(this=f"rank {before + ranks.index(node)}")

    return [node.transform(replaced) for node in nodes], ranks


def rank_name(node: Any) -> str | None:
    """The name of a rank that has no alias, as databases call it; None for any other item."""
    return str(node.this.sql_name()).lower() if is_rank(node) else None


def rank_number(node: exp.Expression) -> int | None:
    """The number of the rank whose placeholder, from `ranks_replaced`, a node is; None for any other."""
    name = node.name if node.key == "var" else ""
    return int(name[5:]) if name.startswith("rank ") else None


def alias_resolver(items: Iterable[Named], columns: set[str]) -> Callable[[Any], Any]:
    """A rewrite that replaces an alias by its expression, except where a column has that name."""
    from sqlglot import exp

    known = {item.name.lower(): item.node for item in items if item.name and item.name.lower() not in columns}
    written = Written()

    def resolved(node: exp.Expression) -> exp.Expression:
        if isinstance(node, exp.Column) and not node.table and _INNER not in node.meta and node.name.lower() in known:
            found = known[node.name.lower()]
            return node if found is node or found == node else written.copy(found)
        if isinstance(node, exp.Column) and not node.table and node.name.lower() not in columns:
            return error_of(node.name, known, written) or node
        return node

    return lambda root: root.transform(resolved)  # which changes nothing inside what it has put in


def is_error_node(node: Any) -> bool:
    """Whether a node is the error of a number, as `error_of` writes it."""
    return bool(node.key == "anonymous" and node.name.startswith(f"{ERROR}:"))


def error_of(name: str, known: Mapping[str, Any], written: Written) -> Any:
    """The error of a number that a name means, n_low where n is one; None for any other name.

    known: expressions by name in small letters.
    """
    from sqlglot import exp

    found = error_named(name, known)
    if found is None or not (aggregates_in(known[found[0]]) or totals_in(known[found[0]])):
        return None
    return exp.Anonymous(this=f"{ERROR}:{found[1]}", expressions=[written.copy(known[found[0]])])


def substituted(select: Any, source: Source | None) -> Any:
    """A SELECT with the columns of its source replaced by their expressions."""
    from sqlglot import exp

    if source is None:
        return select
    known = {name_of(item).lower(): item.node for item in source.items}
    table = (select.args.get("from_") or select.args.get("from")).this
    called = (table.alias or table.name).lower()
    own = {item.alias.lower() for item in select.expressions if item.key == "alias"}
    written = Written(sum(1 for _ in own_nodes(select)))

    def replaced(node: Any) -> Any:
        if isinstance(node, exp.Subquery):
            return node.copy()  # which has columns of its own
        if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
            return node
        if node.table and node.table.lower() != called:
            raise QueryError(f"no table {node.table!r} in FROM; write {node.name} without a table before it")
        if node.name.lower() in known:
            found = written.copy(known[node.name.lower()])
            for column in found.find_all(exp.Column):
                column.meta[_INNER] = True
            return found
        if node.name.lower() in own and not node.table:
            return node
        if (error := error_of(node.name, known, written)) is not None:
            return error
        raise QueryError(f"no column {node.name!r} in the subquery; there are {', '.join(known)}")

    copy = exp.Select()  # without FROM and WITH, which the source stands for
    for name, part in select.args.items():
        if name.rstrip("_") in ("from", "with"):
            continue
        if isinstance(part, list):
            copy.set(name, [one.transform(replaced) for one in part])
        else:
            copy.set(name, part.transform(replaced) if isinstance(part, exp.Expression) else part)
    return copy


def keep_names(select: Any, changes: Callable[[Any], bool]) -> None:
    """Alias the columns of a SELECT that a replacement will change, in place. changes: whether a node is replaced."""
    from sqlglot import exp

    for item in list(select.expressions):
        if item.key != "alias" and not is_star(item) and any(changes(node) for node in item.walk()):
            few = next(islice(item.walk(), _MOST_QUOTED, None), None) is None  # levels within levels
            name = (
                item.name if item.key == "column" else default_name(item) or (quoted(item) if few else in_words(item))
            )
            named = exp.Alias(alias=exp.to_identifier(name, quoted=True))
            item.replace(named)
            named.set("this", item)


def name_of(item: Named) -> str:
    """Name of an item, as an outer SELECT refers to it."""
    if item.name:
        return item.name
    return str(item.node.name) if item.node.key == "column" else default_name(item.node) or quoted(item.node)


def default_name(node: Any) -> str | None:
    """The name of a plain aggregate that has no alias."""
    if is_error_node(node):
        of = node.expressions[0]
        return f"{of.name.rpartition('.')[2] or default_name(of)}_{node.name.partition(':')[2]}"
    names = {"count": "count", "countif": "count"}
    if node.key in ("sum", "avg", "max", "min") and node.this is not None and node.this.key == "column":
        return f"{node.key}_{node.this.name}"
    return names.get(node.key)


def in_parentheses(node: Any) -> Any:
    from sqlglot import exp

    copy = node.copy()
    simple = isinstance(copy, exp.Column | exp.Literal | exp.Func | exp.Paren | exp.Window | exp.Var)
    return copy if simple and copy.key not in ("and", "or", "case") else exp.Paren(this=copy)


def _listed(nodes: Any) -> list[Any]:
    return list(nodes) if isinstance(nodes, list | tuple) else [nodes]
