"""PIVOT as the SELECT that it stands for: an aggregate with a FILTER for each value, grouped by all other columns.

Named windows (WINDOW w AS ...) are written where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

from sfumato.effort import MOST_ITEMS, at_most
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.expressions import read_classes
from sfumato.sql.relation.forms import Cell, is_form
from sfumato.sql.scope import Scope, quoted, unsupported

Columns = Callable[[Any], Mapping[str, tuple[Cell, ...]] | None]


def pivoted(node: Any, columns: Columns, schema: Schema) -> Any:
    """The SELECT of a PIVOT: DuckDB's statement, or a table with PIVOT (...) after it. columns: of a table's query."""
    from sqlglot import exp

    if node.key == "pivot":
        pivot, table = node, node.this
        aggregates, fields, group = pivot.args.get("using") or [], pivot.expressions, pivot.args.get("group")
    else:
        (pivot, *more) = node.args["pivots"]
        if more:
            raise unsupported("several PIVOT of one table", "write one")
        table = node.copy()
        table.set("pivots", None)
        aggregates, fields, group = pivot.expressions, pivot.args.get("fields") or [], pivot.args.get("group")
    if pivot.args.get("unpivot"):
        raise unsupported("UNPIVOT", "name the values as a key, with GROUP BY")
    known = columns(table)
    aggregates = aggregates or [exp.Count(this=exp.Star())]
    spread = [_values(one, known, schema) for one in fields]
    at_most(len(aggregates), MOST_ITEMS, "aggregates are in PIVOT", "ask for them in several statements")
    keys = _others(known, fields, aggregates) if group is None else group.expressions
    items = [key.copy() for key in keys]
    for chosen in product(*spread):
        condition = exp.and_(*(exp.EQ(this=of.copy(), expression=exp.convert(value)) for of, value, _ in chosen))
        name = "_".join(label for _, _, label in chosen)
        for aggregate in aggregates:
            suffix = aggregate.alias or (aggregate.sql(dialect="duckdb").lower() if len(aggregates) > 1 else "")
            found = exp.Filter(this=aggregate.unalias().copy(), expression=exp.Where(this=condition.copy()))
            items.append(exp.alias_(found, f"{name}_{suffix}" if suffix else name, quoted=True))
            at_most(len(items), MOST_ITEMS, "columns are in PIVOT", "list fewer values after IN")
    select = exp.select(*items)
    select.set("from_", exp.From(this=table.copy()))
    return select.group_by(*(key.copy() for key in keys)) if keys else select


def _others(known: Mapping[str, Any] | None, fields: list[Any], aggregates: list[Any]) -> list[Any]:
    """The columns that PIVOT does not name, by which it groups where nothing else is said."""
    from sqlglot import exp

    if known is None:
        raise unsupported("PIVOT of the table itself without GROUP BY", "name the keys: ... GROUP BY region")
    named = {column.name.lower() for part in (*fields, *aggregates) for column in part.find_all(exp.Column)}
    return [exp.column(name, quoted=True) for name in known if name.lower() not in named]


def _values(field: Any, known: Mapping[str, tuple[Cell, ...]] | None, schema: Schema) -> list[tuple[Any, Cell, str]]:
    """The expression that is spread over columns, its values, and the names of the columns."""
    node = field.this if field.key == "in" else field
    if field.key == "in":
        found = []
        for one in field.expressions:
            value = one.this if one.key == "pivotalias" else one
            name = one.args["alias"].name if one.key == "pivotalias" else value.name
            found.append((node, value, name))
        return found
    if known is None:
        classes = read_classes(node, Scope(schema, frozenset({schema.dataset.lower()})), "PIVOT")
        values = [value for value in classes if value is not None]
    else:
        cells = next((cells for name, cells in known.items() if name.lower() == node.name.lower()), None)
        if cells is None or any(map(is_form, cells)):
            raise QueryError(f"PIVOT ON {quoted(node)}: name a key there; columns are {', '.join(known)}")
        values = list(dict.fromkeys(cell for cell in cells if cell is not None))
    return [(node, value, str(value)) for value in values]


def with_named_windows(tree: Any) -> Any:
    """The SELECT with each name of a window replaced by what WINDOW says of it."""
    from sqlglot import exp

    named = {one.this.name.lower(): one for one in tree.args.get("windows") or []}
    if not named:
        return tree
    copy = tree.copy()
    copy.set("windows", None)
    for window in list(copy.find_all(exp.Window)):
        name = window.args.get("alias")
        if name is None:
            continue
        if name.name.lower() not in named:
            raise QueryError(f"no window {name.name!r}; WINDOW names {', '.join(named)}")
        for key in ("partition_by", "order", "spec"):
            value = named[name.name.lower()].args.get(key)
            if value and not window.args.get(key):
                window.set(key, [one.copy() for one in value] if isinstance(value, list) else value.copy())
        window.set("alias", None)
    return copy
