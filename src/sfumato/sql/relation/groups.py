"""Rows of groups: those of the release by GROUP BY, and those of a relation that is aggregated again.

A group of the release is a set of rows with public keys, and its aggregates are forms of these rows. A group of a
relation's rows adds up their forms: SUM, AVG (a sum over a public number of rows), COUNT, MAX and MIN.

PIVOT as the SELECT that it stands for: an aggregate with a FILTER for each value, grouped by all other columns.

Named windows (WINDOW w AS ...) are written where they are used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from itertools import product
from math import prod
from operator import and_
from typing import Any

from sfumato.domain.predicates import Predicate
from sfumato.effort import MOST_ITEMS, at_most, spend
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.column_arithmetic import regrouped
from sfumato.sql.expressions import Classes, cell_classes, read_classes
from sfumato.sql.predicates import read_condition, table_scope
from sfumato.sql.relation.forms import Cell, average, extreme, is_form, total, within
from sfumato.sql.relation.rows import Relation, RowReader
from sfumato.sql.relation.windows import window_cells
from sfumato.sql.scope import Scope, bare, quoted, text_of, unsupported
from sfumato.sql.select_list import read_value
from sfumato.sql.table.build import MOST_LISTED
from sfumato.sql.table.flatten import Flat, holds
from sfumato.sql.table.items import not_grouped
from sfumato.sql.table.syntax import RANKS, is_rank
from sfumato.sql.values.tree import Ref, Tree

OF_A_FORM = 20  # steps to make the form of an aggregate in a group
EVERY_GROUP = "COUNT, AVG and MIN over groups take every group that the schema lists, also those that may be empty"
_ONCE_MORE = "of groups SUM, AVG, COUNT, MAX and MIN are known; ORDER BY n DESC LIMIT 1 shows which is the largest"


def aggregates_of(flat: Flat) -> list[Any]:
    """The aggregates in a SELECT, with their FILTER, each once."""
    found: dict[str, Any] = {}
    for root in (*(item.node for item in flat.items), *(node for step in flat.steps for node in step.nodes)):
        for node in _aggregates(root):
            found.setdefault(text_of(node), node)
    return list(found.values())


def _aggregates(root: Any) -> Iterator[Any]:
    from sqlglot import exp

    waiting = [(root, False)]
    while waiting:
        node, of_window = waiting.pop()
        if isinstance(node, exp.Window):
            inner = node.this
            waiting += [(part, part is inner and not is_rank(node)) for part in node.iter_expressions()]
        elif isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls) and of_window:
            waiting += [(part, part is node.this) for part in node.iter_expressions()]
        elif not of_window and isinstance(node, exp.AggFunc | exp.Filter | exp.Subquery | exp.WithinGroup):
            if node.key not in RANKS:
                yield node
        else:
            waiting += [(part, False) for part in node.iter_expressions()]


def group_release(flat: Flat, schema: Schema, given: Sequence[Cell]) -> tuple[RowReader, Scope]:
    """Rows of a grouped SELECT over the release: one for each group, with its aggregates as forms."""
    scope = table_scope(flat.base, schema)
    rows = reduce(and_, (read_condition(where, scope) for where in flat.wheres), scope.rows)
    items = [item for item in flat.items if not (flat.sets is None and item.measure)]
    sets = (tuple(item.node for item in items),) if flat.sets is None else flat.sets
    keys = {text_of(node): node for chosen in sets for node in chosen}
    classes = {text: _classes(node, scope) for text, node in keys.items()}
    aggregates = aggregates_of(flat)
    groupings = [node for node in aggregates if node.key == "grouping"]
    counted = [node for node in aggregates if node.key != "grouping"]
    values = [read_value(node, scope, rows) for node in counted]
    columns: list[list[Cell]] = [[] for _ in range(len(keys) + len(counted) + len(groupings))]
    for chosen in sets:
        texts = list(dict.fromkeys(map(text_of, chosen)))
        many = prod(len(classes[text][0]) for text in texts)
        at_most(many, MOST_LISTED, "groups would be put together one by one", "group by fewer attributes")
        spend(OF_A_FORM * many * (1 + len(values)), "a table of groups")
        for found, where in _groups([classes[text][0] for text in texts], rows):
            labels = dict(zip(texts, found, strict=True))
            cells: list[Cell] = [labels.get(text) for text in keys]
            cells += [
                value if isinstance(value, float) else regrouped(within(value, where, rows), True) for value in values
            ]
            cells += [int(text_of(node.expressions[0]) not in labels) for node in groupings]
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
    axes = {place: name for place, text in enumerate(keys) if (name := classes[text][1]) is not None}
    relation = Relation((), tuple(map(tuple, columns)), len(columns[0]) if columns else 1, axes)
    reader = RowReader(relation, schema, window_cells, lambda node: not_grouped(node, scope), given)
    for place, node in enumerate((*keys.values(), *counted, *groupings)):
        reader.know(node, Ref(place))
    return reader, scope


def _groups(classes: Sequence[Classes], rows: Predicate) -> list[tuple[tuple[Any, ...], Predicate]]:
    """Key values of each group and the predicate of its rows; groups that no row can be in are left out."""
    found: list[tuple[tuple[Any, ...], Predicate]] = [((), rows)]
    for each in classes:
        parts = (((*labels, label), where & some) for labels, where in found for label, some in each.items())
        found = [(labels, where) for labels, where in parts if where]
    return found


def _classes(node: Any, scope: Scope) -> tuple[Classes, str | None]:
    """Predicates of a key's values, and the attribute whose labels they are, if any."""
    if node.key == "column" and scope.groups_of(node) is None:
        axis = scope.axis_of(node, "GROUP BY")
        return cell_classes(axis), axis.name
    return read_classes(node, scope, "GROUP BY"), None


def rows_of_relation(flat: Flat, source: Relation, schema: Schema, given: Sequence[Cell]) -> RowReader:
    """Rows of a SELECT over a relation: filtered by WHERE, and grouped if it has GROUP BY or aggregates."""
    names = {name_in(source, place).lower(): one.tree for place, one in enumerate(source.fields)}
    there = ", ".join(dict.fromkeys(one.name for one in source.fields))

    def unknown(node: Any) -> QueryError:
        return QueryError(f"no column {node.name!r} in the subquery; there are {there}")

    reader = RowReader(source, schema, window_cells, unknown, given)
    reader.fields = names
    for where in flat.wheres:
        reader.filter(where, "WHERE")
    return reader if flat.sets is None else _grouped(flat, reader, schema, given)


def name_in(relation: Relation, place: int) -> str:
    """Name of a field inside a SELECT: qualified by its table where it is ambiguous."""
    one = relation.fields[place]
    alike = sum(other.name.lower() == one.name.lower() and not other.hidden for other in relation.fields)
    return f"{one.table}.{one.name}" if one.hidden or alike > 1 else one.name


def _grouped(flat: Flat, reader: RowReader, schema: Schema, given: Sequence[Cell]) -> RowReader:
    sets = flat.sets or ()
    aggregates = aggregates_of(flat)
    if reader.chosen:
        said = quoted(aggregates[0]) if aggregates else "GROUP BY"
        raise unsupported(
            f"{said} over groups that noisy values choose or rank", "leave that out, or choose in a SELECT around this"
        )
    keys = {text_of(node): node for chosen in sets for node in chosen}
    trees: dict[str, Tree] = {}
    for text, node in keys.items():
        trees[text] = reader.read(node, "GROUP BY")
        if not reader.public(trees[text]):
            raise unsupported(f"GROUP BY {quoted(node)}, which goes by noisy values,", "group by keys")
    of_rows = [_Aggregate(node, reader) for node in aggregates if node.key != "grouping"]
    groupings = [node for node in aggregates if node.key == "grouping"]
    columns: list[list[Cell]] = [[] for _ in range(len(keys) + len(aggregates))]
    for chosen in sets:
        texts = list(dict.fromkeys(map(text_of, chosen)))
        groups: dict[tuple[Any, ...], list[int]] = {} if texts else {(): []}
        spend(reader.rows * (1 + len(texts)), "GROUP BY")
        for row in range(reader.rows):
            groups.setdefault(tuple(reader.value(trees[text], row) for text in texts), []).append(row)
        for labels, rows in groups.items():
            known = dict(zip(texts, labels, strict=True))
            cells = [known.get(text) for text in keys] + [one.over(rows) for one in of_rows]
            cells += [int(text_of(node.expressions[0]) not in known) for node in groupings]
            for column, cell in zip(columns, cells, strict=True):
                column.append(cell)
    axes = {}
    for place, text in enumerate(keys):
        tree = trees[text]
        if isinstance(tree, Ref) and tree.place in reader.axes:
            axes[place] = reader.axes[tree.place]
    found = Relation((), tuple(map(tuple, columns)), len(columns[0]) if columns else 1, axes)
    listed = reader.relation.scopes and any(one.kind in ("count", "avg", "min") for one in of_rows)
    notes = (*reader.notes, *([EVERY_GROUP] if listed else []))
    found = replace(found, scopes=reader.relation.scopes, notes=tuple(dict.fromkeys(notes)))

    def unknown(node: Any) -> QueryError:
        if node.name.lower() in reader.fields:
            return QueryError(f"{node.name} is named but not in GROUP BY; add it there, or use it inside SUM or AVG")
        return QueryError(f"no column {node.name!r} in the subquery; there are {', '.join(reader.fields)}")

    after = RowReader(found, schema, window_cells, unknown, given)
    for place, node in enumerate((*keys.values(), *(one.node for one in of_rows), *groupings)):
        after.know(node, Ref(place))
    return after


class _Aggregate:
    """Aggregate over the rows of a relation, with the evaluated columns of its argument and FILTER."""

    def __init__(self, node: Any, reader: RowReader) -> None:
        self.node, inner = node, node
        kept: list[Cell] | None = None
        if inner.key == "filter":
            kept, inner = reader.cells(inner.expression.this, "FILTER"), inner.this
        self.kind, argument, self.distinct = inner.key, bare(inner.this), False
        if self.kind not in ("count", "countif", "sum", "avg", "min", "max", "anyvalue") or inner.expressions:
            raise unsupported(f"{quoted(node)} of what a subquery has aggregated", _ONCE_MORE)
        if argument is not None and argument.key == "distinct":
            if self.kind != "count" or len(argument.expressions) != 1:
                raise unsupported(f"{quoted(node)} of what a subquery has aggregated", _ONCE_MORE)
            self.distinct, argument = True, argument.expressions[0]
        counts_rows = argument is None or argument.key == "star"
        cells = [1] * reader.rows if counts_rows else reader.cells(argument, "an aggregate")
        if (self.distinct or self.kind == "countif") and any(map(is_form, cells)):
            raise unsupported(f"{quoted(node)} of what a subquery has aggregated", _ONCE_MORE)
        if self.kind == "countif":
            cells = [1 if holds(cell) else None for cell in cells]
        self.cells = cells if kept is None else [c if holds(k) else None for c, k in zip(cells, kept, strict=True)]

    def over(self, rows: Sequence[int]) -> Cell:
        """Aggregate of one group. rows: their indices."""
        cells = [self.cells[row] for row in rows]
        spend(len(cells), "an aggregate of groups")
        known = [cell for cell in cells if cell is not None]
        if self.kind in ("count", "countif"):
            return len(set(known)) if self.distinct else len(known)
        if self.kind == "anyvalue":
            return known[0] if known else None
        if self.kind in ("min", "max"):
            return extreme(cells, self.kind == "max")
        return total(cells) if self.kind == "sum" else average(cells)


# -- pivots

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
    """Columns that PIVOT does not name, its default GROUP BY."""
    from sqlglot import exp

    if known is None:
        raise unsupported("PIVOT of the table itself without GROUP BY", "name the keys: ... GROUP BY region")
    named = {column.name.lower() for part in (*fields, *aggregates) for column in part.find_all(exp.Column)}
    return [exp.column(name, quoted=True) for name in known if name.lower() not in named]


def _values(field: Any, known: Mapping[str, tuple[Cell, ...]] | None, schema: Schema) -> list[tuple[Any, Cell, str]]:
    """(expression, value, column name) for each value that PIVOT spreads over columns."""
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
    """SELECT with named windows replaced by their definitions in WINDOW."""
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
