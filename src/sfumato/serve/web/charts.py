"""Charts and their filters as SQL, and their answers as columns of numbers.

Filters are made of whole cells, so that none cuts a bin. A chart with more numbers than a screen can show merges
neighbouring cells of ordered attributes into bins, which are groups of the statement itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from math import isfinite, isnan, prod
from typing import Any

import numpy as np

from sfumato.answers.results import Estimate, Result, when
from sfumato.domain import EPOCH, Axis
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.public.report.distributions import cut_periods, span
from sfumato.serve.web.questions import PLAIN, Amount, Chart, Filter, Label
from sfumato.serve.web.requests import MOST_BINS, MOST_COARSE_POINTS, MOST_POINTS, MOST_SURE_NUMBERS, Book, Refusal
from sfumato.sql.expressions import MOST_VALUES

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


STEPS = (1, 2, 5)  # times powers of ten: cells of a bin


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins of an axis: cells from `first` to `last`, a fixed number of them in each."""

    axis: Axis
    first: int
    last: int
    wide: int

    @property
    def number(self) -> int:
        return -(-(self.last + 1 - self.first) // self.wide)

    def sql(self, column: str) -> str:
        """SQL for the label of a row's bin. Filters decide which rows there are, so the end bins need no limit."""
        spans = [
            (start, min(start + self.wide - 1, self.last)) for start in range(self.first, self.last + 1, self.wide)
        ]
        absent = f"WHEN {column} IS NULL THEN {literal('no value')} " if self.axis.missing else ""
        parts = [
            f"WHEN {column} < {edge(self.axis, last + 1)} THEN {literal(span(self.axis, first, last))}"
            for first, last in spans[:-1]
        ]
        return f"CASE {absent}{' '.join(parts)} ELSE {literal(span(self.axis, *spans[-1]))} END"

    def cut_short(self) -> list[list[str]]:
        """Label of a last bin that has fewer cells than the others, and how many."""
        left = (self.last + 1 - self.first) % self.wide
        return [[span(self.axis, self.last + 1 - left, self.last), f"{left:,} of {self.wide:,}"]] if left else []

    def said(self) -> str:
        return f"{self.axis.name} is shown in {self.number:,} bins of {self.wide:,}"


def cut_short(chart: Chart, book: Book, bins: Mapping[str, Bins]) -> dict[str, list[list[str]]]:
    """Shorter groups at the ends of ordered attributes: pairs such as ["2024-W01", "3 of 7 days"], by attribute.

    A first or last week that the schema's bounds cut has few rows because it has few days; so has a last bin.
    """
    domain, found = book.release.domain, {}
    for name in (name for name in chart.by if name in domain):
        axis = domain[name]
        if name in bins:
            ends = bins[name].cut_short()
        else:
            periods = cut_periods(axis).items()
            ends = [[str(axis.label(cell)), f"{days} of {whole} days"] for cell, (days, whole) in periods]
        if ends:
            found[name] = ends
    return found


def coarser(chart: Chart, book: Book, points: int) -> dict[str, Bins]:
    """Choose bins for the ordered attributes of a chart with too many points; refuse where that does not help."""
    if points <= (MOST_SURE_NUMBERS if chart.slow else MOST_POINTS):
        return {}
    domain, sizes = book.release.domain, {name: _cells(name, book) for name in chart.by}
    ordered = [name for name in chart.by if name in domain and domain[name].ordered and sizes[name] <= MOST_VALUES]
    room = MOST_COARSE_POINTS // max(1, prod(size for name, size in sizes.items() if name not in ordered))
    if not ordered or room < 2 ** len(ordered):
        raise _refused(chart, sizes, points)
    found = {}
    for place, name in enumerate(sorted(ordered, key=lambda one: sizes[one])):  # the shorter may need no bins
        first, last = stretch(domain[name], chart.where)
        most = min(MOST_BINS, int(room ** (1 / (len(ordered) - place))))
        found[name] = bins = Bins(domain[name], first, last, _wide(last + 1 - first, most))
        room //= most if bins.wide > 1 else bins.number + domain[name].missing
    return {name: found[name] for name in ordered if found[name].wide > 1}


def note(bins: Mapping[str, Bins]) -> list[str]:
    """Note for the reader of a binned chart."""
    said = "; ".join(one.said() for one in bins.values())
    return [f"coarser than the release: {said}; a filter that leaves fewer values shows each"] if bins else []


def _wide(cells: int, most: int) -> int:
    """Least round number of cells to a bin that makes few enough bins.

    >>> _wide(100, 40), _wide(30, 40), _wide(1_000_000, 40)
    (5, 1, 50000)
    """
    power = 1
    while True:
        for step in STEPS:
            if -(-cells // (step * power)) <= most:
                return step * power
        power *= 10


def _refused(chart: Chart, sizes: Mapping[str, int], points: int) -> Refusal:
    listed = " and ".join(f"{name} {sizes[name]:,}" for name in chart.by)
    return Refusal(
        "too_large",
        f"a chart shows up to {MOST_POINTS:,} numbers and this one has {min(points, prod(sizes.values())):,}",
        f"choose some values by filters ({listed} values in all)",
    )


def _cells(name: str, book: Book) -> int:
    schema = book.release.schema
    if name in schema.group_columns:
        return len(set(schema.group_columns[name][1]))
    return schema.domain[name].size


def chart_sql(chart: Chart, book: Book, bins: Mapping[str, Bins] | None = None) -> str:
    """SQL statement of a chart, which anybody may copy. bins: of attributes shown in fewer groups."""
    check_amount(chart.amount, chart.of, book)
    for name in chart.by:
        if name not in book.spelled or name in book.release.schema.measures:
            raise Refusal("invalid", f"there is no attribute {name!r}", "the description of the release lists them")
    if len(set(chart.by)) < len(chart.by):
        raise Refusal("invalid", "the same attribute twice", "name two that differ")
    names = {name: alias(f"bins_{place}", book) for place, name in enumerate(chart.by, 1) if name in (bins or {})}
    shown = [
        f"{bins[name].sql(book.spelled[name])} AS {names[name]}" if bins and name in names else book.spelled[name]
        for name in chart.by
    ]
    keys = ", ".join(names.get(name, book.spelled[name]) for name in chart.by)
    number = f"{aggregate(chart.amount, chart.of, book)} AS {alias(ALIASES[chart.amount], book)}"
    table = f"FROM {book.release.schema.dataset}{where(chart.where, book)}"
    return f"SELECT {', '.join(shown)}, {number} {table} GROUP BY {keys}" if keys else f"SELECT {number} {table}"


def as_columns(result: Result, keys: int) -> dict[str, Any]:
    """Convert a chart's answer to columns: labels of each row, and numbers by name; unknown ones are null."""
    numbers = [row[keys] for row in result.rows]
    found = [number for number in numbers if isinstance(number, Estimate)]
    columns: dict[str, Any] = {
        "keys": [list(row[:keys]) for row in result.rows],
        "values": [_plain(one, one.value) for one in found],
        "stderr": [_finite(one.stderr) for one in found],
        "low": [_plain(one, one.low) for one in found],
        "high": [_plain(one, one.high) for one in found],
    }
    if any(one.sure is not None for one in found):
        ends = [(one, one.sure or (one.low, one.high)) for one in found]
        columns["guaranteed_low"] = [_plain(one, low) for one, (low, _) in ends]
        columns["guaranteed_high"] = [_plain(one, high) for one, (_, high) in ends]
    return columns


def leading(result: Result, keys: int) -> dict[str, bool]:
    """Decide whether a group is surely the highest or lowest: its interval lies beyond all others."""
    found = [row[keys] for row in result.rows]
    numbers = [one for one in found if isinstance(one, Estimate) and not isnan(one.value)]
    if len(numbers) < max(2, len(found)):
        return {"highest": False, "lowest": False}
    top, bottom = max(numbers, key=lambda one: one.low), min(numbers, key=lambda one: one.high)
    return {
        "highest": all(one.high < top.low for one in numbers if one is not top),
        "lowest": all(one.low > bottom.high for one in numbers if one is not bottom),
    }


def _plain(one: Estimate, number: float) -> float | str | None:
    return when(number, timed=one.timed) if one.dates else _finite(number)


def _finite(number: float) -> float | None:
    """Round a number to its meaningful digits, which also makes an answer a third as long; not finite: None."""
    return float(f"{number:.10g}") if isfinite(number) else None
