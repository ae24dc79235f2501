"""Relations from other relations side by side: JOIN by public keys, VALUES, and the look-up of public values by key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date
from typing import Any

from sfumato.effort import OF_A_NODE, at_most, spend
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.relation.forms import Cell, is_form
from sfumato.sql.relation.groups import name_in
from sfumato.sql.relation.rows import Field, Relation, RowReader, each_once
from sfumato.sql.relation.windows import window_cells
from sfumato.sql.scope import bare, constant, nodes_in, quoted, unsupported
from sfumato.sql.table.build import MOST_LISTED
from sfumato.sql.table.flatten import holds
from sfumato.sql.table.syntax import own_nodes
from sfumato.sql.values.tree import ERROR, Ref, error_named, relocated

_KINDS = "JOIN, LEFT JOIN, RIGHT JOIN, FULL JOIN and CROSS JOIN are known, with ON or USING"


def values_relation(node: Any) -> Relation:
    """Relation of VALUES (...), (...)."""
    rows = [one.expressions if one.key == "tuple" else [one] for one in node.expressions]
    if len({len(row) for row in rows}) != 1:
        raise QueryError("the rows of VALUES have different numbers of columns")
    alias = node.args.get("alias")
    given = [column.name for column in alias.args.get("columns") or []] if alias else []
    names = given or [f"col{place}" for place in range(len(rows[0]))]
    if len(names) != len(rows[0]):
        raise QueryError(f"{alias.name} names {len(names)} columns of VALUES that have {len(rows[0])}")
    columns = tuple(tuple(_constant(row[place]) for row in rows) for place in range(len(names)))
    fields = tuple(Field(name, Ref(place)) for place, name in enumerate(names))
    return Relation(fields, columns, len(rows))


def _constant(node: Any) -> Cell:
    node = bare(node)
    if node.key == "null":
        return None
    found = constant(node)
    if found is None:
        raise unsupported(f"{quoted(node)} in VALUES", "write constants there")
    return found


def joined(left: Relation, join: Any, right: Relation, schema: Schema) -> Relation:
    """Join of two relations on public keys."""
    kind, side = (str(join.args.get(name) or "").upper() for name in ("kind", "side"))
    method = str(join.args.get("method") or "").upper()
    if kind not in ("", "INNER", "OUTER", "CROSS") or method not in ("", "NATURAL"):
        raise unsupported(f"{method or kind} JOIN", _KINDS)
    left, right = (one.unordered("a join") for one in (left, right))
    using = [one.name for one in join.args.get("using") or []]
    if method == "NATURAL":
        known = {one.name.lower() for one in right.fields}
        using = [one.name for one in left.fields if one.name.lower() in known and not one.hidden]
    both, on = _side_by_side(left, right, using), join.args.get("on")
    equal, others = ([], []) if on is None else _conditions(on, both, len(left.fields))
    equal += [(_place(left, name), _place(right, name)) for name in using]
    if equal:
        pairs = _matches([left.cells(a) for a, _ in equal], [right.cells(b) for _, b in equal])
    else:
        at_most(left.rows * right.rows, MOST_LISTED, "rows would be in a JOIN", "join by keys, with ON or USING")
        pairs = [(one, other) for one in range(left.rows) for other in range(right.rows)]
    at_most(len(pairs), MOST_LISTED, "rows would be in a JOIN", "join by keys that have few rows each")
    spend(len(pairs) * (1 + len(both.columns)), "JOIN")
    reader = RowReader(_taken(both, left, right, pairs), schema, window_cells, _unknown(both))
    reader.fields = {name_in(both, place).lower(): one.tree for place, one in enumerate(both.fields)}
    for condition in others:
        tree = reader.read(condition, "ON")
        if not reader.public(tree):
            raise unsupported(f"{quoted(condition)} in ON, which goes by noisy values,", "join by keys")
        kept = [row for row in range(reader.rows) if holds(reader.value(tree, row))]
        reader.keep(kept)
        pairs = [pairs[row] for row in kept]
    mine, theirs = {one for one, _ in pairs}, {other for _, other in pairs}
    if side in ("LEFT", "FULL"):
        pairs += [(row, None) for row in range(left.rows) if row not in mine]
    if side in ("RIGHT", "FULL"):
        pairs += [(None, row) for row in range(right.rows) if row not in theirs]
    pairs.sort(key=lambda pair: (pair[0] is None, pair[0] or 0, pair[1] or 0))
    return _filled(_taken(both, left, right, pairs), using, side)


Pairs = list[tuple[Any, Any]]  # of rows, by number; None where there is none on that side


def _place(relation: Relation, name: str) -> int:
    for place, one in enumerate(relation.fields):
        if one.name.lower() == name.lower():
            return place
    raise QueryError(f"USING ({name}): no column {name!r}; there are {', '.join(one.name for one in relation.fields)}")


def _matches(mine: Sequence[Sequence[Cell]], theirs: Sequence[Sequence[Cell]]) -> Pairs:
    """Pairs of indices of rows with equal keys; NULL equals nothing."""
    if any(map(is_form, (cell for column in (*mine, *theirs) for cell in column))):
        raise unsupported("a join by noisy numbers", "join by keys")
    spend(sum(map(len, (*mine, *theirs))), "JOIN")
    known: dict[Any, list[int]] = {}
    for row, key in enumerate(zip(*theirs, strict=True)):
        known.setdefault(tuple(map(_comparable, key)), []).append(row)
    found: Pairs = []
    for row, key in enumerate(zip(*mine, strict=True)):
        if None not in key:
            found += [(row, other) for other in known.get(tuple(map(_comparable, key)), ())]
            at_most(len(found), MOST_LISTED, "rows would be in a JOIN", "join by keys that have few rows each")
    return found


def _comparable(value: Cell) -> Cell:
    if isinstance(value, bool):
        return value
    return value.isoformat() if isinstance(value, date) else float(value) if isinstance(value, int) else value


def _side_by_side(left: Relation, right: Relation, using: Sequence[str]) -> Relation:
    """Concatenate the columns of two relations, without rows."""
    shift = len(left.columns)
    same = {name.lower() for name in using}
    fields = (
        *left.fields,
        *(
            replace(
                one,
                tree=relocated(one.tree, lambda place: place + shift),
                hidden=one.hidden or one.name.lower() in same,
            )
            for one in right.fields
        ),
    )
    axes = {**left.axes, **{place + shift: name for place, name in right.axes.items()}}
    differences = left.differences | {place + shift for place in right.differences}
    columns: tuple[tuple[Cell, ...], ...] = ((),) * (shift + len(right.columns))
    notes = tuple(dict.fromkeys((*left.notes, *right.notes)))
    return Relation(fields, columns, 0, axes, differences, (), each_once((*left.scopes, *right.scopes)), notes)


def _taken(both: Relation, left: Relation, right: Relation, pairs: Pairs) -> Relation:
    columns = [tuple(None if a is None else column[a] for a, _ in pairs) for column in left.columns]
    columns += [tuple(None if b is None else column[b] for _, b in pairs) for column in right.columns]
    return replace(both, columns=tuple(columns), rows=len(pairs))


def _filled(found: Relation, using: Sequence[str], side: str) -> Relation:
    """Merge the key columns of USING, from the side that has the row; qualified names keep their own side."""
    if side not in ("RIGHT", "FULL") or not using:
        return found
    for name in using:
        fields = list(found.fields)
        alike = [place for place, one in enumerate(fields) if one.name.lower() == name.lower()]
        mine = next(place for place in alike if not fields[place].hidden)
        pairs = zip(found.cells(mine), found.cells(alike[-1]), strict=True)
        keys = tuple(other if one is None else one for one, other in pairs)
        own = [replace(fields[mine], hidden=True)] if fields[mine].table else []
        fields[mine : mine + 1] = [Field(fields[mine].name, Ref(len(found.columns))), *own]
        found = replace(found, columns=(*found.columns, keys), fields=tuple(fields))
    return found


def _unknown(relation: Relation) -> Any:
    there = ", ".join(dict.fromkeys(one.name for one in relation.fields))
    return lambda node: QueryError(f"no column {node.name!r} in the subqueries; there are {there}")


def _conditions(on: Any, both: Relation, lefts: int) -> tuple[list[tuple[int, int]], list[Any]]:
    """Split ON into equalities of a field of each side, by their indices, and all other conditions."""
    equal, others = [], []
    for part in map(bare, resolved(on, both).flatten() if bare(on).key == "and" else [resolved(on, both)]):
        places = [field_place(side, both) for side in (part.this, part.args["expression"])] if part.key == "eq" else []
        if None not in places and len(places) == 2 and (places[0] < lefts) != (places[1] < lefts):  # type: ignore[operator]
            first, second = sorted(places)  # type: ignore[type-var]
            equal.append((first, second - lefts))  # type: ignore[operator]
        else:
            others.append(part)
    return equal, others  # type: ignore[return-value]


def field_place(node: Any, relation: Relation) -> int | None:
    """Index of the field that a column of a resolved SELECT names; None for any other expression."""
    node = bare(node)
    if node.key != "column" or node.this.key == "star":
        return None
    names = [name_in(relation, place).lower() for place in range(len(relation.fields))]
    return names.index(node.name.lower()) if node.name.lower() in names else None


def resolved(tree: Any, relation: Relation) -> Any:
    """Copy of a SELECT or expression with columns renamed to those of the relation (`name_in`) and * written out."""
    from sqlglot import exp

    spend(OF_A_NODE * nodes_in(tree), "a SELECT over subqueries")
    tables = {one.table for one in relation.fields}
    copy = tree.copy() if isinstance(tree, exp.Select) else exp.Paren(this=tree.copy())
    if isinstance(copy, exp.Select):
        listed = [one for node in copy.expressions for one in _written_out(node, relation)]
        copy.set("expressions", listed)
    for node in [node for node in own_nodes(copy) if isinstance(node, exp.Column)]:
        if isinstance(node.this, exp.Star):
            continue
        name, table = node.name.lower(), node.table.lower()
        if table and table not in tables:
            raise QueryError(f"no table {node.table!r} in FROM; there are {', '.join(filter(None, sorted(tables)))}")
        found = [
            place
            for place, one in enumerate(relation.fields)
            if one.name.lower() == name and (one.table == table if table else not one.hidden)
        ]
        if len(found) > 1:
            where = " or ".join(f"{relation.fields[place].table}.{node.name}" for place in found)
            raise QueryError(f"{node.name} is in several of the tables; write {where}")
        if found:
            node.replace(exp.column(exp.to_identifier(name_in(relation, found[0]))))
        elif table and (error := error_named(name, _numbered(relation, table))) is not None:
            base = exp.column(exp.to_identifier(name_in(relation, _numbered(relation, table)[error[0]])))
            node.replace(exp.Anonymous(this=f"{ERROR}:{error[1]}", expressions=[base]))
        elif table:
            there = ", ".join(one.name for one in relation.fields if one.table == table)
            raise QueryError(f"no column {node.name!r} in the subquery; there are {there}")
    return copy if isinstance(copy, exp.Select) else copy.this


def _numbered(relation: Relation, table: str) -> dict[str, int]:
    """Indices of a table's fields, by name in small letters."""
    return {one.name.lower(): place for place, one in enumerate(relation.fields) if one.table == table}


def _written_out(node: Any, relation: Relation) -> Iterator[Any]:
    """The columns that * stands for."""
    from sqlglot import exp

    star = node.this if node.key == "column" else node
    if star.key != "star":
        yield node
        return
    table = node.table.lower() if node.key == "column" else ""
    left_out = {one.name.lower() for one in star.args.get("except_") or star.args.get("except") or []}
    if any(value for key, value in star.args.items() if key.rstrip("_") != "except"):
        raise unsupported(f"{quoted(node)}", "name the columns")
    for place, one in enumerate(relation.fields):
        if one.name.lower() not in left_out and (one.table == table if table else not one.hidden):
            yield exp.alias_(exp.column(exp.to_identifier(name_in(relation, place))), one.name, quoted=True)
