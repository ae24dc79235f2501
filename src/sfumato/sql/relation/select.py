"""SELECT over rows of cells: to the relation that it shows, and from a relation to the table of a plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sfumato.domain.predicates import Predicate
from sfumato.effort import at_most
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql.column_arithmetic import column_of, sums_in
from sfumato.sql.plan import Column, Select, unique_names
from sfumato.sql.predicates import noted
from sfumato.sql.relation.forms import Cell, Form, is_form
from sfumato.sql.relation.groups import group_release, rows_of_relation
from sfumato.sql.relation.rows import Field, Relation, each_once
from sfumato.sql.scope import Scope, quoted, unsupported
from sfumato.sql.select_list import read_column
from sfumato.sql.table.build import LISTED, MOST_COLUMNS, read_step
from sfumato.sql.table.flatten import Flat
from sfumato.sql.table.items import Numbers, decided
from sfumato.sql.table.plan import RANK, Item, NumberAt, Places, Rows, Table, step_at, with_own_errors
from sfumato.sql.table.syntax import Named, default_name, totals_in
from sfumato.sql.values.tree import Ref, Tree, relocated


def select_rows(flat: Flat, source: Relation | None, schema: Schema, given: Sequence[Cell] = ()) -> Relation:
    """Relation that a SELECT yields. source: its FROM, None for the release. given: values of its subqueries."""
    scopes: list[Scope] = []
    if source is None:
        reader, scope = group_release(flat, schema, given)
        scopes.append(scope)
    else:
        reader = rows_of_relation(flat, source, schema, given)
    steps = list(flat.steps)
    while steps and steps[0].word == "HAVING":
        reader.filter(steps.pop(0).nodes[0], "HAVING")
    for window in totals_in([*(item.node for item in flat.items), *(node for step in steps for node in step.nodes)]):
        reader.read(window, "the select list")
    for raw in steps:
        reader.do(read_step(raw, reader), raw.word)
    items = [item for item in flat.items if not (source is None and flat.sets is None and item.measure)]
    fields = [Field(_name(item, scopes, source), reader.read(item.node, "the select list")) for item in items]
    if any(reader.numbers.decides(one.tree) for one in fields):
        reader.notes.append(decided("CASE"))
    return reader.relation_of(fields, scopes)


def _name(item: Named, scopes: Sequence[Scope], source: Relation | None) -> str:
    """Name of a result column: its alias, its own name, or its SQL."""
    if item.name:
        return item.name
    node = item.node
    if source is None and scopes:
        if node.key == "column":
            return scopes[0].name_of(node)
        try:
            return read_column(node, scopes[0], Predicate.everything(), grouped=True).name
        except QueryError:
            return quoted(node)
    if node.key == "column":
        return str(node.name.rpartition(".")[2])
    return default_name(node) or quoted(node)


def table_of(relation: Relation, schema: Schema) -> Table:
    """Plan of a relation: a plain SELECT for each set of attributes that its forms are sums over."""
    noisy = {place for place, column in enumerate(relation.columns) if any(map(is_form, column))}
    order = sorted(range(len(relation.columns)), key=lambda place: place in noisy)  # keys before numbers
    keys = len(order) - len(noisy)
    _check_work([relation.columns[place] for place in order[keys:]])
    forms: dict[Form, NumberAt] = {}
    by_names: dict[tuple[str, ...], list[Column]] = {}
    names_of: list[tuple[str, ...]] = []
    for place in order[keys:]:
        for cell in relation.columns[place]:
            if is_form(cell) and cell not in forms:
                column = column_of(cell, schema)
                names = tuple(sorted({name for amount in column.amounts for name in _names(amount, schema)}))
                if names not in by_names:
                    names_of.append(names)
                columns = by_names.setdefault(names, [])
                forms[cell] = NumberAt(names_of.index(names), len(columns))
                columns.append(replace(column, name=f"{len(columns)}"))
    scope = _together(relation.scopes, schema)
    selects = tuple(noted(Select(tuple(by_names[names]), (), Predicate.everything()), scope) for names in names_of)
    rows = tuple(
        tuple(forms[cell] if is_form(cell) else cell for cell in row)
        for row in zip(*(relation.columns[place] for place in order), strict=True)
    )
    rows = rows if order else ((),) * relation.rows
    axes = tuple(relation.axes.get(place) for place in order[:keys])
    moved = {place: at for at, place in enumerate(order)}
    behind = Places(len(order))

    def at(tree: Tree) -> Tree:
        return behind.of_tree(relocated(tree, lambda place: place if place >= RANK else moved[place]))

    numbers = Numbers(lambda place: keys <= place < len(order))
    shown = [(one.name, at(one.tree)) for one in relation.fields]
    beside = with_own_errors([(tree, numbers.is_number(tree)) for _, tree in shown])
    unique = unique_names([(name, own) for (name, _), own in zip(shown, beside, strict=True)])
    items = tuple(
        Item(name, tree, numbers.is_number(tree), numbers.is_number(tree) and not own)
        for name, (_, tree), own in zip(unique, shown, beside, strict=True)
    )
    notes = (*relation.notes, *([LISTED] if relation.scopes and not noisy else []))
    steps = tuple(step_at(step, at) for step in relation.steps)
    differences = tuple(place in relation.differences for place in order[keys:])
    return Table((Rows(selects, rows, axes),), keys, differences, steps, items, notes)


def _names(amount: Any, schema: Schema) -> tuple[str, ...]:
    of = (amount.of,) if amount.of is not None and amount.of not in schema.summed else ()
    return (*amount.predicate.names, *of)


def _check_work(columns: Sequence[Sequence[Cell]]) -> None:
    """Refuse a statement with too many sums."""
    forms = {id(cell): cell for column in columns for cell in column if is_form(cell)}
    amounts = sum(map(sums_in, forms.values()))
    at_most(
        amounts, MOST_COLUMNS, "sums are in the rows of this answer", "group by coarser keys, or ask for fewer rows"
    )


def _together(scopes: Sequence[Scope], schema: Schema) -> Scope:
    """Scope with the notes of several SELECTs (bins cut by conditions, midpoints used, ...)."""
    found = Scope(schema, frozenset())
    for scope in scopes:
        for name in ("cuts", "middles", "beyond", "unmatched"):
            getattr(found, name).extend(getattr(scope, name))
    return found


def concatenated(relations: Sequence[Relation], word: str) -> Relation:
    """The rows of several relations one after the other, under the names of the first."""
    plain = [relation.unordered(word) for relation in relations]
    columns = [[relation.cells(place) for relation in plain] for place in range(len(plain[0].fields))]
    axes = {}
    for place in range(len(columns)):
        trees = [relation.fields[place].tree for relation in plain]
        names = {rel.axes.get(tree.place) for rel, tree in zip(plain, trees, strict=True) if isinstance(tree, Ref)}
        if len(names) == 1 and (name := names.pop()) is not None:
            axes[place] = name
    differences = {
        place
        for place in range(len(columns))
        for relation in plain
        if isinstance(tree := relation.fields[place].tree, Ref) and tree.place in relation.differences
    }
    return Relation(
        tuple(Field(one.name, Ref(place)) for place, one in enumerate(plain[0].fields)),
        tuple(tuple(cell for part in parts for cell in part) for parts in columns),
        sum(relation.rows for relation in plain),
        axes,
        frozenset(differences),
        (),
        each_once(scope for relation in plain for scope in relation.scopes),
        tuple(dict.fromkeys(note for relation in plain for note in relation.notes)),
    )


def distinct(relation: Relation) -> Relation:
    """The rows of a relation, each once."""
    rows = list(zip(*relation.columns, strict=True)) if relation.columns else [()] * relation.rows
    first: dict[Any, int] = {}
    for number, row in enumerate(rows):
        first.setdefault(row, number)
    keys = [tuple(None if is_form(cell) else (cell,) for cell in row) for row in first]
    if len({*keys}) < len(keys):
        raise unsupported("UNION of rows that differ in noisy numbers alone", "write UNION ALL: noise tells them apart")
    kept = list(first.values())
    columns = tuple(tuple(column[row] for row in kept) for column in relation.columns)
    return replace(relation, columns=columns, rows=len(kept))
