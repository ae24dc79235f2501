"""Aggregates and filters of charts as SQL.

Filters are made of whole cells, so that none of them cuts a bin.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import numpy as np

from sfumato.domain import EPOCH, Axis
from sfumato.errors import QueryError
from sfumato.serve.web.questions import PLAIN, Amount, Filter, Label
from sfumato.serve.web.refusals import Refusal
from sfumato.serve.web.shelf import Book

FUNCTIONS: dict[Amount, str] = {"sum": "SUM", "average": "AVG", "median": "MEDIAN"}
ALIASES: dict[Amount, str] = {"count": "n", "share": "share", "sum": "total", "average": "average", "median": "median"}


def check_amount(amount: Amount, of: str | None, book: Book) -> None:
    """Refuse a sum or average without a column, or of one that cannot be summed."""
    if amount in PLAIN:
        if of is not None:
            raise Refusal("invalid", f"a {amount} is of rows, not of a column", "leave `of` out")
        return
    if of is None:
        raise Refusal("invalid", f"{amount} of which column?", "name one in `of`")
    if of not in summable(book, amount):
        names = ", ".join(summable(book, amount)) or "none"
        raise Refusal("invalid", f"{of!r} has no {amount}", f"columns that have one: {names}")


def summable(book: Book, amount: Amount) -> list[str]:
    """Columns that can be summed and averaged, or have a median."""
    schema = book.release.schema
    numbers = [axis.name for axis in schema.domain if axis.kind in ("integer", "number")]
    return numbers if amount == "median" else [*schema.measures, *numbers]


def aggregate(amount: Amount, of: str | None, book: Book, among: Sequence[str] = ()) -> str:
    """SQL of an aggregate; among: conditions on its rows. A share is of all rows of the answer."""
    rows = f" FILTER (WHERE {' AND '.join(among)})" if among else ""
    if amount == "count":
        return f"COUNT(*){rows}"
    if amount == "share":
        return "COUNT(*) / SUM(COUNT(*)) OVER ()"
    return f"{FUNCTIONS[amount]}({book.spelled[str(of)]}){rows}"


def alias(wanted: str, book: Book) -> str:
    """Choose a name for a number that no column has."""
    taken = {name.lower() for name in book.spelled}
    while wanted in taken or any(f"{wanted}_{end}" in taken for end in ("low", "high", "stderr")):
        wanted += "_"
    return wanted


def conditions(filters: Sequence[Filter], book: Book) -> list[str]:
    """SQL conditions, one for each filter that leaves something out."""
    return [text for text in (_condition(one, book) for one in filters) if text]


def where(filters: Sequence[Filter], book: Book) -> str:
    """WHERE clause with a blank before it; empty where all rows are meant."""
    found = conditions(filters, book)
    return f" WHERE {' AND '.join(found)}" if found else ""


def literal(text: str) -> str:
    """Render a text as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"


def stretch(axis: Axis, filters: Sequence[Filter]) -> tuple[int, int]:
    """First and last cell of an ordered axis that the filters leave."""
    first, last = 0, axis.places - 1
    for one in filters:
        if one.attribute != axis.name:
            continue
        listed = [cell for cell in (_cell(axis, label) for label in one.labels or ()) if cell < axis.places]
        begins = min(listed, default=0) if one.first is None else _cell(axis, one.first)
        ends = max(listed, default=axis.places - 1) if one.last is None else _cell(axis, one.last)
        first, last = max(first, begins), min(last, ends)
    return first, max(first, last)


def _condition(one: Filter, book: Book) -> str:
    schema, name = book.release.schema, _column(one.attribute, book)
    if one.attribute in schema.group_columns:
        if one.labels is None:
            raise Refusal("invalid", f"{one.attribute} has groups, and no first or last", "list them as labels")
        return f"{name} IN ({', '.join(literal(str(label)) for label in one.labels)})"
    axis = schema.domain[one.attribute]
    if one.labels is not None:
        return _of_cells(axis, sorted({_cell(axis, label) for label in one.labels}), name)
    if not axis.ordered:
        raise Refusal("invalid", f"{one.attribute} has no order, so no first or last", "list its values as labels")
    first = 0 if one.first is None else _cell(axis, one.first)
    last = axis.places - 1 if one.last is None else _cell(axis, one.last)
    if first > last:
        raise Refusal("invalid", f"of {one.attribute}, the first value comes after the last", "turn them around")
    return _span(axis, first, last, name)


def _column(attribute: str, book: Book) -> str:
    schema = book.release.schema
    if attribute not in schema.attributes and attribute not in schema.group_columns:
        raise Refusal("invalid", f"there is no attribute {attribute!r}", "the description of the release lists them")
    return book.spelled[attribute]


def _cell(axis: Axis, label: Label) -> int:
    """Find the cell of a label, or else of a value."""
    if label is None and axis.missing:
        return axis.places
    for cell in range(axis.places if axis.values else 0):
        if axis.values[cell] == label and isinstance(axis.values[cell], bool) == isinstance(label, bool):
            return cell
    if not axis.values and isinstance(label, str):
        for cell in range(axis.places):
            if axis.label(cell) == label:
                return cell
    try:
        number = axis.read(label)
    except QueryError as problem:
        raise Refusal.of(problem) from None
    cell = int(np.searchsorted(axis.edges, number, side="right")) - 1
    if not axis.edges[0] <= number <= axis.edges[-1]:
        raise Refusal("invalid", f"{axis.name} has no value {label!r}", "the description of the release lists them")
    return min(cell, axis.places - 1)


def _of_cells(axis: Axis, cells: list[int], name: str) -> str:
    if len(cells) == axis.size:
        return ""
    present = [cell for cell in cells if cell < axis.places]
    missing = [f"{name} IS NULL"] if len(present) < len(cells) else []
    if axis.kind == "boolean":
        found = [f"{name} = {str(axis.values[cell]).lower()}" for cell in present]
    elif axis.values:
        listed = ", ".join(literal(str(axis.values[cell])) for cell in present)
        found = [f"{name} IN ({listed})" if len(present) > 1 else f"{name} = {listed}"] if present else []
    else:
        breaks = np.flatnonzero(np.diff(present) > 1) + 1
        found = [
            _span(axis, int(run[0]), int(run[-1]), name) for run in np.split(np.array(present), breaks) if len(run)
        ]
    parts = [part for part in found if part] + missing
    return parts[0] if len(parts) == 1 else f"({' OR '.join(parts)})"


def _span(axis: Axis, first: int, last: int, name: str) -> str:
    """Condition for a range of cells. Values beyond the bounds are clipped, so the outermost cells need no limit."""
    lower = f"{name} >= {edge(axis, first)}" if first > 0 else ""
    upper = f"{name} < {edge(axis, last + 1)}" if last < axis.places - 1 else ""
    if not lower and not upper:
        return f"{name} IS NOT NULL" if axis.missing else ""
    return " AND ".join(part for part in (lower, upper) if part)


def edge(axis: Axis, place: int) -> str:
    """Lower edge of a cell as an SQL literal."""
    begins = float(axis.edges[place])
    if axis.kind == "date":
        day = EPOCH + timedelta(days=int(begins // 1))
        hours = round((begins - begins // 1) * 24)
        return f"TIMESTAMP '{day} {hours:02}:00'" if axis.timed else f"DATE '{day}'"
    return str(int(begins)) if begins == int(begins) else repr(begins)
