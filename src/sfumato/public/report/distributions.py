"""Distribution of each attribute: counts by group of cells with intervals, and a verdict on their accuracy.

An axis with too many cells to draw is cut into groups: neighbours along an order; of values without an order the
largest are kept and the others merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, isnan
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.answer import answer_select, select_as
from sfumato.answers.question import Manner
from sfumato.answers.results import Estimate
from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis, Label
from sfumato.domain.predicates import Predicate
from sfumato.domain.values import Place, ValueSet
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.public.report.tongue import date_of, figure, share, t
from sfumato.releases.contents.content import ContentOfCells
from sfumato.sql import Amount, Select
from sfumato.sql import Column as Asked

if TYPE_CHECKING:
    from sfumato.domain import Axis
    from sfumato.releases.contents.content import Content
    from sfumato.releases.release import Release
    from sfumato.schema import Schema
    from sfumato.schema.parts import Column

OTHERS = "all others"


@dataclass(frozen=True, eq=False)
class Cut:
    """Partition of an axis's cells into groups, in order. groups: cells of each. labels: name of each.

    about: what the schema says of the attribute.
    """

    axis: Axis
    groups: tuple[Codes, ...]
    labels: tuple[str, ...]
    about: Column | None = None

    @property
    def title(self) -> str:
        """Title of the attribute: its label, else its name."""
        return (self.about.label if self.about is not None else None) or self.axis.name

    @property
    def unit(self) -> str | None:
        """Unit of its values."""
        return self.about.unit if self.about is not None else None

    @property
    def size(self) -> int:
        return len(self.groups)

    @property
    def whole(self) -> bool:
        """Whether every group is one cell; periods of a series that have no part are in none."""
        return self.size == self.axis.size - len(self.axis.gaps)

    @property
    def kinds(self) -> Codes:
        """Group number of every cell."""
        found = np.zeros(self.axis.size, dtype=np.int64)
        for place, cells in enumerate(self.groups):
            found[cells] = place
        return found

    @property
    def as_asked(self) -> Codes:
        """Group number of every cell, numbered by first appearance along the axis, as contents take them."""
        _, first, kind = np.unique(self.kinds, return_index=True, return_inverse=True)
        place = np.empty(len(first), dtype=np.int64)
        place[np.argsort(first)] = np.arange(len(first))
        return place[kind.reshape(-1)]

    @property
    def cut_short(self) -> dict[int, str]:
        """Text such as "3 of 7 days", by number of a group, for groups at the ends of an order that span less."""
        if self.whole:
            return {cell: t("{0} of {1} days", days, every) for cell, (days, every) in cut_periods(self.axis).items()}
        wide, last = len(self.groups[0]), self.size - 1 - self.axis.missing
        left = len(self.groups[last])
        return {last: t("{0} of {1} steps", left, wide)} if self.axis.ordered and left < wide else {}

    def where(self, place: int) -> Predicate:
        """Predicate of the rows of one group."""
        cells = self.groups[place]
        starts = np.flatnonzero(np.diff(cells, prepend=-2) != 1)
        ends = np.append(starts[1:], len(cells)) - 1
        runs = [self.axis.values_from(int(cells[a]), int(cells[b])) for a, b in zip(starts, ends, strict=True)]
        return Predicate.where(self.axis.name, united(runs))


def cut_periods(axis: Axis) -> dict[int, tuple[int, int]]:
    """Days inside the bounds and days of the whole period, by cell: the first and last, where the bounds cut theirs.

    >>> cut_periods(Axis("x", "date", np.array([19715.0, 19716.0, 19723.0]), by="week"))
    {0: (1, 7)}
    """
    if axis.kind != "date" or axis.timed:
        return {}
    found = {}
    for cell in sorted({0, axis.places - 1}):
        first, last = int(axis.edges[cell]), int(axis.edges[cell + 1]) - 1
        inside = last - first + 1
        whole = inside + _more_days(first, -1, axis.by) + _more_days(last, 1, axis.by)
        if whole > inside:
            found[cell] = inside, whole
    return found


def _more_days(day: int, step: int, by: str) -> int:
    """Number of further days of a day's period, before it (step -1) or after it."""

    def period(of: int) -> Label:
        return Axis("", "date", np.array([of, of + 1.0]), by=by).label(0)

    more = 0
    try:
        while period(day + step * (more + 1)) == period(day):
            more += 1
    except OverflowError:
        pass
    return more


def cut(axis: Axis, most: int, sizes: Floats | None = None, about: Column | None = None) -> Cut:
    """Cut an axis into at most so many groups. sizes: of the cells, by which unordered values are kept or merged."""
    cells = np.arange(axis.size)
    there = np.delete(cells, axis.gaps)
    if len(there) <= most:
        labels = tuple(named(axis, int(cell)) for cell in there)
        return Cut(axis, tuple(there[place : place + 1] for place in range(len(there))), labels, about)
    if axis.values and not axis.splits:
        order = cells if sizes is None else np.argsort(-sizes, kind="stable")
        kept, rest = np.sort(order[: most - 1]), np.sort(order[most - 1 :])
        groups = (*(kept[place : place + 1] for place in range(len(kept))), rest)
        return Cut(axis, groups, (*(named(axis, int(cell)) for cell in kept), t(OTHERS)), about)
    wide = -(-axis.places // (most - axis.missing))
    groups = tuple(cells[start : min(start + wide, axis.places)] for start in range(0, axis.places, wide))
    labels = tuple(span(axis, int(group[0]), int(group[-1])) for group in groups)
    if axis.missing:
        groups, labels = (*groups, cells[-1:]), (*labels, shown(None))
    return Cut(axis, groups, labels, about)


def shown(label: Label) -> str:
    """Format a label for readers."""
    if label is None:
        return t("no value")
    return (t("true") if label else t("false")) if isinstance(label, bool) else str(label)


def named(axis: Axis, cell: int) -> str:
    """Label of a cell for readers: a listed value as it is, numbers and dates as the language writes them."""
    label = axis.label(cell)
    if label is None or axis.values:
        return shown(label)
    if axis.kind == "date":
        return date_of(str(label))
    if axis.kind == "integer":
        first, last = int(axis.edges[cell]), int(axis.edges[cell + 1]) - 1
        return str(label) if first == last else t("{0} to {1}", first, last)
    ends = (figure(float(axis.edges[place]), ".15g") for place in (cell, cell + 1))
    return t("[{0}, {1}]", *ends) if cell == axis.places - 1 else t("[{0}, {1})", *ends)


def span(axis: Axis, first: int, last: int) -> str:
    """Label of a range of cells."""
    return named(axis, first) if first == last and axis.kind != "number" else t("{0} to {1}", *ends(axis, first, last))


def ends(axis: Axis, first: int, last: int) -> tuple[str, str]:
    """First and last value of a range of cells."""
    if axis.kind == "number":
        return figure(float(axis.edges[first]), ",.6g"), figure(float(axis.edges[last + 1]), ",.6g")
    if axis.kind == "integer":
        return str(int(axis.edges[first])), str(int(axis.edges[last + 1]) - 1)
    return named(axis, first), named(axis, last)


def united(sets: Sequence[ValueSet]) -> ValueSet:
    """Union of many sets in one sweep over their spans; spans that touch become one."""
    spans: list[tuple[Place, Place]] = []
    for start, end in sorted(span for one in sets for span in one.spans):
        if spans and start <= spans[-1][1]:
            spans[-1] = spans[-1][0], max(spans[-1][1], end)
        else:
            spans.append((start, end))
    return ValueSet(tuple(spans))


MOST_DRAWN, FEWER_DRAWN = 120, 40  # values of an attribute that have a bar each
MANY_CELLS = 2**18  # laid out: every number takes a look at all of them, so that fewer are asked for
CLOSE, ROUGH = 0.1, 0.5  # how wide half an interval is, beside the count
KNOWN = ("{0} is known to within {1}", "{0} are known to within {1}", "are known to within {0}")
LOST = ("{0} is lost in the noise", "{0} are lost in the noise", "are lost in the noise")
GRADES = (KNOWN, KNOWN, LOST)  # of one count, of several, of all


@dataclass(frozen=True, eq=False)
class Distribution:
    """Counts of an attribute, one for each group of a cut; empty where the release does not know them."""

    cut: Cut
    counts: tuple[Estimate, ...]

    @property
    def axis(self) -> Axis:
        return self.cut.axis

    @property
    def known(self) -> bool:
        return any(isfinite(one.low) and isfinite(one.high) for one in self.counts)

    @property
    def grades(self) -> tuple[int, int, int]:
        """Numbers of counts known to within a tenth, to within a half, and worse."""
        widths = [half_width(one) / one.value if one.value > 0 else float("inf") for one in self.counts]
        close = sum(width <= CLOSE for width in widths)
        rough = sum(CLOSE < width <= ROUGH for width in widths)
        return close, rough, len(widths) - close - rough

    @property
    def verdict(self) -> str:
        """Verdict on the accuracy, in a sentence."""
        every = len(self.counts)
        noun = "{0} values" if self.cut.whole else "{0} groups of values"
        widths = (share(CLOSE), share(ROUGH), "")
        said = [
            t(one if number == 1 else more, figure(number), width)
            for number, width, (one, more, _) in zip(self.grades, widths, GRADES, strict=True)
            if number
        ]
        if len(said) == 1:
            place = next(place for place, number in enumerate(self.grades) if number)
            return t("All {0} {1}.", t(noun, figure(every)), t(GRADES[place][2], widths[place]))
        return t("Of {0} {1} and {2}.", t(noun, figure(every)), ", ".join(said[:-1]), said[-1])


def half_width(one: Estimate) -> float:
    return float("inf") if isnan(one.value) else (one.high - one.low) / 2.0


def distribution_of(release: Release, axis: Axis, confidence: float) -> Distribution | None:
    """Query the distribution of one attribute; None where the release has no such counts."""
    about = release.schema.attributes.get(axis.name)
    try:
        if axis.size <= MOST_DRAWN:
            rows = release.marginal(axis.name, confidence=confidence).rows
            found = tuple(row[-1] for row in rows if isinstance(row[-1], Estimate))
            whole = cut(axis, MOST_DRAWN, about=about)
            if len(found) != whole.size or [shown(row[0]) for row in rows] != _as_asked(axis):  # type: ignore[arg-type]
                return None
            return Distribution(whole, found)
        cuts = cut(axis, FEWER_DRAWN if takes_long(release.content) else MOST_DRAWN, about=about)
        return Distribution(cuts, counts_of(release.content, (cuts,), confidence))
    except SfumatoError:
        return None


def _as_asked(axis: Axis) -> list[str]:
    """Labels of the cells that an answer has rows for, in their order."""
    return [shown(axis.label(cell)) for cell in range(axis.size) if cell not in axis.gaps]


def takes_long(content: Content) -> bool:
    """Decide whether queries of this release are so slow that a page should have fewer of them."""
    return content.answers_linear and content.domain.size > MANY_CELLS


def counts_of(
    content: Content, cuts: tuple[Cut, ...], confidence: float, manner: Manner | None = None
) -> tuple[Estimate, ...]:
    """Counts of all groups of one cut, or of all pairs of groups of two, row by row."""
    if isinstance(content, ContentOfCells) and content.groups_by_class:
        return _counts_by_class(content, cuts, confidence, manner or Manner())
    wheres = [cuts[0].where(place) for place in range(cuts[0].size)]
    for other in cuts[1:]:
        across = [other.where(place) for place in range(other.size)]
        wheres = [one & more for one in wheres for more in across]
    return counts_where(content, wheres, confidence, manner)


def _counts_by_class(
    content: ContentOfCells, cuts: tuple[Cut, ...], confidence: float, manner: Manner
) -> tuple[Estimate, ...]:
    """Counts of all combinations of groups of some cuts, row by row, answered as one table."""
    asked = sorted(cuts, key=lambda one: one.axis.name)
    classes = {one.axis.name: one.as_asked for one in asked}
    every = Predicate.everything()
    column = Asked("count", (Amount(every, None),), scale=content.schema.count_step)
    select = Select((column,), tuple(classes), every)
    counts = [row[-1] for row in select_as(content, select, confidence, manner, classes).rows]
    index = np.arange(len(counts)).reshape([one.size for one in asked])
    own = np.ix_(*(classes[one.axis.name][[int(cells[0]) for cells in one.groups]] for one in asked))
    index = index[own].transpose([asked.index(one) for one in cuts])
    return tuple(count for place in index.ravel() if isinstance(count := counts[place], Estimate))


def counts_where(
    content: Content, wheres: Sequence[Predicate], confidence: float, manner: Manner | None = None
) -> tuple[Estimate, ...]:
    """Count of each of some sets of rows."""
    result = content.select_as(_counting(wheres, content.schema), confidence, manner or Manner())
    return tuple(number for number in result.rows[0] if isinstance(number, Estimate))


def errors_where(content: ContentOfCells, wheres: Sequence[Predicate]) -> tuple[float, ...]:
    """Standard error of the count of each of some sets of rows, without guaranteed bounds, which do not change it."""
    result = answer_select(_counting(wheres, content.schema), content.schema, content.view, 0.95)
    return tuple(number.stderr for number in result.rows[0] if isinstance(number, Estimate))


def _counting(wheres: Sequence[Predicate], schema: Schema) -> Select:
    step = schema.count_step
    columns = tuple(Asked(str(place), (Amount(where, None),), scale=step) for place, where in enumerate(wheres))
    return Select(columns, (), Predicate.everything())
