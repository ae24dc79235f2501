"""Charts with more numbers than a screen can show: neighbours of ordered attributes are taken together.

The bins are groups of the statement itself, so that their sums and errors are worked out like those of any question.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from sfumato.domain import Axis
from sfumato.frozen import dataclass
from sfumato.public.report.cuts import span
from sfumato.serve.web.asked.filters import edge, literal, stretch
from sfumato.serve.web.asked.questions import Chart
from sfumato.serve.web.bounds import MOST_BINS, MOST_COARSE_POINTS, MOST_POINTS, MOST_SURE_NUMBERS
from sfumato.serve.web.refusals import Refusal
from sfumato.serve.web.shelf import Book
from sfumato.sql.expressions import MOST_VALUES

STEPS = (1, 2, 5)  # times powers of ten: cells of a bin


@dataclass(frozen=True, eq=False)
class Bins:
    """Cells of an axis from `first` to `last`, so many of them in a bin."""

    axis: Axis
    first: int
    last: int
    wide: int

    @property
    def number(self) -> int:
        return -(-(self.last + 1 - self.first) // self.wide)

    def sql(self, column: str) -> str:
        """The label of the bin that a row belongs to. Filters say which rows there are, so the ends need no limit."""
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
    """Bins for the ordered attributes of a chart that has too many points; refused where that does not help."""
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
    """What a reader of the chart is told."""
    said = "; ".join(one.said() for one in bins.values())
    return [f"coarser than the release: {said}; a filter that leaves fewer values shows each"] if bins else []


def _wide(cells: int, most: int) -> int:
    """The least round number of cells a bin that makes few enough of them.

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
