"""Charts and comparisons of two groups as SQL, and their answers as columns of numbers.

A chart with more numbers than a screen can show merges neighbouring cells of ordered attributes into bins. The bins are
groups of the statement itself, so that their sums and errors are worked out like those of any query.

A comparison says in plain words whether a difference is larger than the noise explains.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan, prod
from typing import Any

from sfumato.answers.results import Estimate, Result, decimals_for, when
from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.plain_text import printable
from sfumato.public.report.distributions import span
from sfumato.serve.web.bounds import MOST_BINS, MOST_COARSE_POINTS, MOST_POINTS, MOST_SURE_NUMBERS
from sfumato.serve.web.filters import ALIASES, aggregate, alias, check_amount, conditions, edge, literal, stretch, where
from sfumato.serve.web.questions import Chart, Compare
from sfumato.serve.web.refusals import Refusal
from sfumato.serve.web.shelf import Book
from sfumato.sql.expressions import MOST_VALUES

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

    def said(self) -> str:
        return f"{self.axis.name} is shown in {self.number:,} bins of {self.wide:,}"


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


NAMES = ("first_group", "second_group", "difference")


def compare_sql(asked: Compare, book: Book) -> str:
    """SQL for two numbers and their difference, which share their noise as they do in the release."""
    if asked.amount == "share":
        if not asked.having or asked.of is not None:
            raise Refusal("invalid", "a share of whom?", "say in `having` whose share in each group is compared")
    else:
        check_amount(asked.amount, asked.of, book)
        if asked.having:
            raise Refusal("invalid", "only a share has `having`", "leave it out, or compare shares")
    first, second = (_number(asked, group, book) for group in (asked.first, asked.second))
    if first == second:
        raise Refusal("invalid", "the two groups are the same", "choose two that differ")
    numbers = (first, second, f"{first} - {second}")
    listed = ", ".join(f"{number} AS {name}" for number, name in zip(numbers, NAMES, strict=True))
    return f"SELECT {listed} FROM {book.release.schema.dataset}"


def _number(asked: Compare, group: Any, book: Book) -> str:
    among = conditions(group, book)
    if asked.amount != "share":
        return aggregate(asked.amount, asked.of, book, among)
    inside = aggregate("count", None, book, [*among, *conditions(asked.having, book)])
    return f"{inside} / {aggregate('count', None, book, among)}"


def as_comparison(result: Result, asked: Compare) -> dict[str, Any]:
    """Result of a comparison: the numbers, whether the difference exceeds the noise, and a sentence on it."""
    (row,) = result.rows
    *_, apart = (cell for cell in row if isinstance(cell, Estimate))
    real = None if apart.value != apart.value else apart.low > 0 or apart.high < 0
    return {"real": real, "statement": _statement(apart, real, asked)}


def _statement(apart: Estimate, real: bool | None, asked: Compare) -> str:
    sure = f"{asked.confidence * 100:.6g} % sure"
    if real is None:
        return "Nothing can be said of this difference: the release did not measure what it takes."
    of = printable(asked.of or "")
    what = {"count": "number of rows", "share": "share", "sum": f"sum of {of}"}.get(
        asked.amount, f"{asked.amount} {of}"
    )
    if not real:
        return (
            f"No difference can be told from the noise: the {what} of the first group may be anything from "
            f"{_apart(apart.low, apart, asked)} to {_apart(apart.high, apart, asked)} than that of the "
            f"second ({sure}). It could be chance."
        )
    least, most = sorted((abs(apart.low), abs(apart.high)))
    more = "higher" if apart.low > 0 else "lower"
    return (
        f"The {what} of the first group is {more} than that of the second, by {_shown(least, apart, asked)} to "
        f"{_shown(most, apart, asked)} ({sure}). That is more than the privacy noise can explain."
    )


def _apart(end: float, apart: Estimate, asked: Compare) -> str:
    return f"{_shown(abs(end), apart, asked)} {'lower' if end < 0 else 'higher'}"


def _shown(number: float, apart: Estimate, asked: Compare) -> str:
    if number == float("inf"):
        return "any amount"
    if asked.amount == "share":
        return f"{number * 100:,.{decimals_for(apart.stderr * 100)}f} points"
    return f"{number:,.{0 if asked.amount == 'count' and apart.stderr >= 1 else decimals_for(apart.stderr)}f}"
