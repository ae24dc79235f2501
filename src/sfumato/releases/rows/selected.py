"""Answer SELECT * FROM t LIMIT 5 with synthetic rows: drawn as `sample` draws them, numbered, and said to be such.

The same statement gives the same rows. Under a WHERE they are drawn from the conditional distribution (condition.py).
ORDER BY sorts the rows that were drawn, which are not the first of any table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import islice
from typing import Any

import numpy as np

from sfumato.answers.results import Result
from sfumato.answers.table_values import done, shown, work_out
from sfumato.domain import EPOCH, Axis, ValueSet
from sfumato.domain.predicates import Predicate
from sfumato.effort import MOST_STEPS, STEPS_OF_A_ROW, at_most, counted, spend
from sfumato.releases.rows.coding import BATCH, Decoder, draw_blocks, table_columns
from sfumato.releases.rows.condition import TooFewRows, rows_under
from sfumato.releases.rows.model import Block, RandomNumbers, RowModel
from sfumato.schema import Schema
from sfumato.sql.rows import MARK, SyntheticRows
from sfumato.sql.values.dates import as_moment
from sfumato.sql.values.tree import Ref, Tree
from sfumato.sql.values.tree import size as size_of

AHEAD = 4  # rows that are drawn for each one that is wanted, where the values of some did not meet the condition
SEED = 0  # rows are public: nothing hangs on it but that they are the same tomorrow


def synthetic_rows(rows: SyntheticRows, model: RowModel, schema: Schema, confidence: float, *, marked: bool) -> Result:
    """Draw the synthetic rows of a plan. marked: add a numbered column whose name says that rows are synthetic."""
    wanted = rows.number + rows.offset
    at_most(wanted, BATCH, "synthetic rows are asked for", "draw more with `sfumato sample`")
    found: list[list[Any]] = []
    try:
        conditional = rows_under(model, rows.where, schema) if rows.number else model
        for size in (wanted, min(BATCH, AHEAD * wanted)) if rows.number else ():
            with counted():
                found = list(islice(_drawn(rows, conditional, schema, size), wanted))
            if len(found) == wanted:
                break
    except TooFewRows:
        pass
    orders = {
        place: {value: number for number, value in enumerate(schema.domain[name].values)}
        for place, name in enumerate(rows.columns)
        if name in schema.domain and schema.domain[name].values
    }
    with counted(MOST_STEPS + STEPS_OF_A_ROW * len(found)):
        taken = done(rows.order, found, orders)[rows.offset :]
        spend(len(taken) * sum(size_of(item.tree) for item in rows.items), "the select list")
        values = [[work_out(item.tree, row) for item in rows.items] for row in taken]
    names = [item.name for item in rows.items]
    kinds = [_dated(item.tree, [row[at] for row in values], rows, schema) for at, item in enumerate(rows.items)]
    moments = {name: kind for name, kind in zip(names, kinds, strict=True) if kind}
    cells = [list(map(shown, row)) for row in values]
    if marked:
        names, cells = [*names, MARK], [[*row, number] for number, row in enumerate(cells, 1 + rows.offset)]
    many = f"{len(cells):,} synthetic row{'s' if len(cells) != 1 else ''}"
    said = f"{many}, drawn from the release as `sfumato sample` does and nobody's own"
    if rows.number and len(cells) < rows.number:
        said += "; no more met the condition"
    if rows.order.rules:
        said += "; they were drawn first and sorted then, so they are not the first of the table"
    notes = (said, *rows.notes) if rows.number else rows.notes
    return Result(tuple(names), tuple(map(tuple, cells)), confidence, notes, numbers=frozenset(), dated=moments)


def _dated(tree: Tree, cells: Sequence[Any], rows: SyntheticRows, schema: Schema) -> str | None:
    """Time unit of a column that holds days or times alone."""
    name = rows.columns[tree.place] if isinstance(tree, Ref) else ""
    if name in schema.domain and schema.domain[name].kind == "date":
        return "hour" if schema.domain[name].timed else "day"
    kinds = {type(cell) for cell in cells if cell is not None}
    return "day" if kinds == {date} else "hour" if kinds == {datetime} else None


def _drawn(rows: SyntheticRows, model: RowModel, schema: Schema, size: int) -> Iterator[list[Any]]:
    """Values of the plan's columns in each drawn row that meets its condition."""
    names = (*rows.columns, *(name for name in rows.where.names if name not in rows.columns))
    random = RandomNumbers(SEED)
    for block in draw_blocks(model, size, random):
        _, sure, possible = (np.broadcast_to(part, size) for part in rows.where.weights(schema.domain, block.codes))
        here = np.flatnonzero(possible > 0.0)
        values = _values(names, block[here], schema, random) if len(here) else []
        for row, certain in zip(zip(*values, strict=True), (sure[here] == 1.0).tolist(), strict=True):
            if certain or _holds(rows.where, dict(zip(names, row, strict=True)), schema):
                yield list(row[: len(rows.columns)])


def _values(names: Sequence[str], block: Block, schema: Schema, random: RandomNumbers) -> list[list[Any]]:
    """Values of attributes and measures in the rows of a block, by name.

    Categories have their labels; numbers, dates and measures what `sample` draws for their column of the table, unless
    several attributes are read from that.
    """
    (batch,) = Decoder.of(schema).rows(iter((block,)), random)
    drawn = {
        name: column.name
        for column in table_columns(schema)
        for name in (*column.attributes, *column.measures)
        if len(column.attributes) <= 1
    }
    found: list[list[Any]] = []
    for name in names:
        axis = next((one for one in schema.domain if one.name == name), None)
        if name in drawn and (axis is None or not axis.values):
            values = batch.column(drawn[name]).to_pylist()
            found.append([_known(value, axis) for value in values])
        elif axis is not None:
            found.append([axis.label(code) for code in np.asarray(block.codes[name]).tolist()])
        else:
            found.append(batch.column(schema.measures[name].column).to_pylist())
    return found


def _known(value: Any, axis: Axis | None) -> Any:
    """Convert a drawn time to a day, unless cells of its attribute are hours; leave other values as they are."""
    if axis is None or axis.kind != "date" or value is None:
        return value
    moment = value if isinstance(value, date) else as_moment(value)
    return moment.date() if isinstance(moment, datetime) and not axis.timed else moment


def _holds(where: Predicate, row: dict[str, Any], schema: Schema) -> bool:
    """Whether a drawn row meets a condition that cuts its cell, by its values."""
    spend(sum(1 + len(box.sets) for box in where.boxes), "a condition on synthetic rows")
    return any(all(_inside(each, row[name], schema.domain[name]) for name, each in box.sets) for box in where.boxes)


def _inside(values: ValueSet, value: Any, axis: Axis) -> bool:
    if value is None:
        return values.holds_missing
    if axis.values:
        number = float(axis.values.index(value))
    elif isinstance(value, date):
        number = float((value.date() if isinstance(value, datetime) else value).toordinal() - EPOCH.toordinal())
        number += (value.hour / 24 + value.minute / 1440 + value.second / 86_400) if isinstance(value, datetime) else 0
    elif isinstance(value, int | float):
        number = float(value)
    else:  # the label of a bin, which stands for its middle
        cell = axis.cell_by_label[str(value)]
        number = float(axis.edges[cell] + axis.edges[cell + 1]) / 2.0
    return any(start <= (number, 0) and (number, 1) <= end for start, end in values.spans)
