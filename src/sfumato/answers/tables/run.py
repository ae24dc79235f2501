"""Tables worked out: the selects that they are made of answered, their rows put together, and the steps done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime
from typing import Any, NamedTuple

import numpy as np

from sfumato.answers.answer import moment_of
from sfumato.answers.estimate import Estimate
from sfumato.answers.groups import Groups
from sfumato.answers.remarks import said_once
from sfumato.answers.result import Result
from sfumato.answers.statistics.differences import difference_notes
from sfumato.answers.tables.cells import known_for_sure, shown, work_out
from sfumato.answers.tables.selection import Chosen, Followed, followed
from sfumato.answers.tables.steps import Row, done
from sfumato.domain import Domain
from sfumato.effort import MOST_STEPS, STEPS_OF_A_ROW, counted, spend
from sfumato.errors import QueryError
from sfumato.sql import Column, Key, Select
from sfumato.sql.table.plan import Item, Part, Table, Tables
from sfumato.sql.values.tree import Ref, size

Ask = Callable[[Select], Result]
Choices = tuple[tuple[Chosen, ...], ...]


class Answered(NamedTuple):
    """The answer to a statement, and for each of its tables by which choices, made by noisy values, rows are shown."""

    result: Result
    chosen: Choices


def run_tables(asked: Tables, domain: Domain, ask: Ask, confidence: float) -> Answered:
    """Answer a statement. ask: answers a plain SELECT."""
    rows: list[Row] = []
    notes: list[str] = []
    moments: list[list[str | None]] = []
    chosen: list[tuple[Chosen, ...]] = []
    noisy: set[int] = set()
    for table in asked.tables:
        path = followed(table)
        found = _run(table, domain, ask, notes, path)
        chosen.append(tuple(path.choices))
        noisy |= {place for place, item in enumerate(table.items) if path.looks_at_noise(item.tree)}
        notes += difference_notes(_columns(table, found), found, confidence)
        moments.append([_moment_of(item, place, found, table, domain) for place, item in enumerate(table.items)])
        rows += found
    last = Followed(noisy, len(asked.tables[0].items))
    for step in asked.steps:
        before, rows = len(rows), done(step, rows, {})
        last.step(step, before, len(rows))
    first = asked.tables[0].items
    numbers = [any(table.items[place].number for table in asked.tables) for place in range(len(first))]
    _refuse_mixed(rows, [item.name for item in first])
    cells = tuple(
        tuple(
            known_for_sure(cell, confidence) if number and not isinstance(cell, Estimate) else shown(cell)
            for cell, number in zip(row, numbers, strict=True)
        )
        for row in rows
    )
    estimated = frozenset(item.name for item, number in zip(first, numbers, strict=True) if number)
    names = tuple(item.name for item in first)
    alike = [kinds[0] if len({*kinds}) == 1 else None for kinds in zip(*moments, strict=True)]
    dated = {name: kind for name, kind in zip(names, alike, strict=True) if kind is not None}
    result = Result(names, cells, confidence, said_once(notes), numbers=estimated, dated=dated)
    return Answered(result, tuple((*choices, *last.choices) for choices in chosen))


def _moment_of(item: Item, place: int, rows: list[Row], table: Table, domain: Domain) -> str | None:
    """What an item shows, if it is single days ("day") or times ("hour"): what it stands for says so, or its values."""
    if isinstance(item.tree, Ref):
        found = {_moment_at(item.tree.place, part, table, domain) for part in table.parts} - {""}
        if len(found) == 1 and (kind := found.pop()) is not None:
            return kind
    types = {type(row[place]) for row in rows} - {type(None)}
    return "day" if types == {date} else "hour" if types == {datetime} else None


def _moment_at(place: int, part: Part, table: Table, domain: Domain) -> str | None:
    """The same of a key or an aggregate of one grouping set; empty where it is NULL in all of its rows."""
    names = part.select.group_by
    if place < table.keys:
        source = part.keys[place]
        if source is None:
            return ""
        return moment_of(Key(names[source[1]], names[source[1]]), domain) if source[0] == "attribute" else None
    if place < table.keys + table.aggregates and part.blocks:
        return moment_of(part.select.columns[len(names) + place - table.keys], domain)
    return None


def _refuse_mixed(rows: list[Row], names: list[str]) -> None:
    """Refuse a column that is text in some rows and a number or a truth value in others, as no file can have it."""
    for name, column in zip(names, zip(*rows, strict=True), strict=False):
        if len({_kind(cell) for cell in column if cell is not None}) > 1:
            raise QueryError(f"{name} has values of several types; let all branches of CASE and the like have one")


def _kind(cell: Any) -> str:
    """Which type a column has that holds a cell; dates are shown as text."""
    if isinstance(cell, bool):
        return "truth"
    return "number" if isinstance(cell, int | float) or (isinstance(cell, Estimate) and not cell.dates) else "text"


def _run(table: Table, domain: Domain, ask: Ask, notes: list[str], path: Followed) -> list[Row]:
    """The rows that a table shows; what there is to say about them is added to the notes. path: told of its steps."""
    rows = [row for number, part in enumerate(table.parts) for row in _rows_of(part, number, table, domain, ask, notes)]
    orders = {
        place: {label: cell for cell, label in enumerate(domain[part.select.group_by[source[1]]].labels())}
        for part in table.parts
        for place, source in enumerate(part.keys)
        if source is not None and source[0] == "attribute"
    }
    with counted(MOST_STEPS + STEPS_OF_A_ROW * len(rows)):
        for step in table.steps:
            before, rows = len(rows), done(step, rows, orders)
            path.step(step, before, len(rows))
        spend(len(rows) * sum(size(item.tree) for item in table.items), "the select list")
        notes += table.notes
        return [[work_out(item.tree, row) for item in table.items] for row in rows]


def _rows_of(part: Part, number: int, table: Table, domain: Domain, ask: Ask, notes: list[str]) -> list[Row]:
    """The rows of one grouping set: keys, aggregates, and the number of the set, in the order of their keys."""
    names = part.select.group_by
    groups = Groups.of(part.select, domain)
    codes = [groups.code(name).tolist() for name in names]
    answers: Sequence[tuple[Any, ...]]
    if table.aggregates and part.blocks:
        result = ask(part.select)
        answers = result.rows
        notes += result.notes
    else:  # values alone, which are public
        labels = [[domain[name].label(code) for code in along] for name, along in zip(names, codes, strict=True)]
        answers = list(zip(*labels, strict=True)) if names else [()]
        notes += part.select.notes
    ordinals = [_ordinals([block.keys[place] for block in part.blocks]) for place in range(_width(part))]
    found = []
    for place, block in enumerate(part.blocks):
        there = Groups.of(Select((), names, block.where), domain).present
        start = len(names) + place * table.aggregates
        for row in np.flatnonzero(np.isin(groups.present, there)).tolist():
            keys: list[Any] = []
            order: list[int] = []
            for source in part.keys:
                if source is None:
                    keys.append(None)
                elif source[0] == "attribute":
                    keys.append(answers[row][source[1]])
                    order.append(codes[source[1]][row])
                else:
                    keys.append(block.keys[source[1]])
                    order.append(ordinals[source[1]][keys[-1]])
            numbers = answers[row][start : start + table.aggregates]
            found.append((order, [*keys, *map(_with_real, numbers, table.differences), number]))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def _with_real(cell: Estimate, difference: bool) -> Estimate:
    return replace(cell, real=bool(cell.low > 0.0 or cell.high < 0.0)) if difference else cell


def _columns(table: Table, rows: list[Row]) -> list[Key | Column]:
    """The columns of a table, for what is said of those that are differences."""
    different = [any(_real(row[place]) is not None for row in rows) for place in range(len(table.items))]
    return [
        Column(item.name, (), difference=real) if item.number else Key(item.name, "")
        for item, real in zip(table.items, different, strict=True)
    ]


def _real(cell: Any) -> bool | None:
    """Of a difference, whether its interval excludes zero."""
    return cell.real if isinstance(cell, Estimate) else None


def _width(part: Part) -> int:
    return len(part.blocks[0].keys) if part.blocks else 0


def _ordinals(values: list[Any]) -> dict[Any, int]:
    """The place of each value among those that appear, in order of appearance."""
    return {value: place for place, value in enumerate(dict.fromkeys(values))}
