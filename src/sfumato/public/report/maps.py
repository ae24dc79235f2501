"""Maps of the report: areas shaded by their counts, those that noise has drowned hatched.

Strong colour is a high count; the scale is logarithmic where one area dwarfs most others. Boundaries are public and the
curator's; the page holds them as one SVG and loads nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import floor, isfinite, log10
from statistics import median
from typing import TYPE_CHECKING

from sfumato.answers.results import Estimate
from sfumato.errors import QueryError, SfumatoError
from sfumato.frozen import dataclass
from sfumato.public.boundaries import Boundaries, Label
from sfumato.public.outlines import Shape
from sfumato.public.report.distributions import ROUGH, half_width
from sfumato.public.report.markup import Markup, folded, joined, name_of, table, tag, told, unbroken
from sfumato.public.report.pictures import picture, short, ticks, with_error
from sfumato.public.report.tongue import figure, many, t

if TYPE_CHECKING:
    from sfumato.releases.release import Release

CARD = 392  # pixels that a map is wide in a card
LOWEST, HIGHEST = 150, 520  # pixels that it may be high
PALEST, DEEPEST = 0.06, 0.94  # opacities at the ends of the scale
DWARFED = 40.0  # times that the highest count exceeds the median where the scale is logarithmic
MOST_POWERS = 6  # that the legend of such a scale names
MOST_SAID = 5  # areas in the description


@dataclass(frozen=True, eq=False)
class Chart:
    """Counts of the areas of one column. Values without a count are not in it."""

    boundaries: Boundaries
    counts: Mapping[Label, Estimate]

    @classmethod
    def of(cls, release: Release, boundaries: Boundaries, confidence: float) -> Chart:
        """Ask the release for the count of every value of the column."""
        name = boundaries.column
        try:
            rows = release.marginal(name, confidence=confidence).rows
        except SfumatoError as problem:
            raise QueryError(f"no map of {name} can be drawn: {problem}") from None
        counts: dict[Label, Estimate] = {}
        for label, count in rows:
            if isinstance(label, str | int) and isinstance(count, Estimate):
                counts[label] = count
        return cls(boundaries, counts)

    @property
    def column(self) -> str:
        return self.boundaries.column

    @property
    def shown(self) -> dict[Label, Estimate]:
        """Counts of areas that are drawn and known, in the order of the values."""
        counts = {label: self.counts.get(label) for label in self.boundaries.areas}
        return {label: one for label, one in counts.items() if one is not None and isfinite(one.value)}

    def scale(self) -> Scale:
        """Scale of the shades, over the counts that noise has not drowned, or all if it has drowned every one."""
        clear = [one.value for one in self.shown.values() if not lost(one)]
        values = clear or [max(one.value, 0.0) for one in self.shown.values()]
        top = max(values, default=1.0) or 1.0
        if len(clear) > 2 and median(clear) * DWARFED < top:
            low, high = floor(log10(min(clear))), floor(log10(top) - 1e-9) + 1
            step = -(-(high - low) // (MOST_POWERS - 1))
            return Scale(tuple(10.0**power for power in range(low, high + step, step)), True)
        return Scale(tuple(ticks(top, 4)), False)


@dataclass(frozen=True)
class Scale:
    """Scale from pale to strong. marks: numbers of the legend, from the first to the last shade."""

    marks: tuple[float, ...]
    logarithmic: bool

    def opacity(self, value: float) -> float:
        """Opacity of a count.

        >>> Scale((0.0, 50.0, 100.0), False).opacity(50), Scale((1.0, 10.0, 100.0), True).opacity(10)
        (0.5, 0.5)
        """
        low, high = self.marks[0], self.marks[-1]
        value = min(high, max(low, value))
        share = log10(value / low) / log10(high / low) if self.logarithmic else (value - low) / (high - low)
        return round(PALEST + (DEEPEST - PALEST) * share, 3)


def lost(count: Estimate) -> bool:
    """Whether noise has drowned a count: it is not above zero, or the half-width of its interval exceeds half of it."""
    return not count.value > 0 or half_width(count) > ROUGH * count.value


def choropleth(name: str, title: str, chart: Chart) -> Markup:
    """Map with its legend and a note of what does not match. name: unique on the page."""
    grid, scale, shown = chart.boundaries.grid, chart.scale(), chart.shown
    wide, tall = (max(1, side) for side in grid.size)
    hatch = f"{name}-hatch"
    drawn, outlined = [], False
    for label, shape in chart.boundaries.areas.items():
        count = shown.get(label)
        titled = tag("title", f"{label}: {t('no number') if count is None else with_error(count)}")
        at = {"d": _path(shape, tall), "fill_rule": "evenodd"}
        if count is None:
            outlined = True
            drawn.append(tag("path", titled, class_="area blank", **at))
        elif lost(count):
            drawn.append(tag("path", titled, class_="area", fill=f"url(#{hatch})", **at))
        else:
            drawn.append(tag("path", titled, class_="area shade", fill_opacity=scale.opacity(count.value), **at))
    height = round(min(HIGHEST, max(LOWEST, CARD * tall / wide)))
    step = max(wide, tall * CARD / height) / CARD * 5
    lines = tag("line", x1=0, y1=0, x2=0, y2=step, class_="hatching", stroke_width=step / 2.5)
    turned = {"patternUnits": "userSpaceOnUse", "patternTransform": "rotate(45)"}
    pattern = tag("defs", tag("pattern", lines, id=hatch, width=step, height=step, **turned))
    frame = tag("svg", pattern, *drawn, viewBox=f"0 0 {wide} {tall}", width="100%", height=height)
    note = chart.boundaries.note
    return joined(
        picture(name, title, _described(shown), height, frame),
        _legend(scale, hatched=any(map(lost, shown.values())), outlined=outlined),
        tag("p", told(note), ".", class_="kind") if note else None,
    )


def _path(shape: Shape, tall: int) -> str:
    """Path of an area, each ring in steps from its first corner; on the page y grows downwards."""
    rings = []
    for ring in (ring for polygon in shape for ring in polygon):
        steps = " ".join(f"{to[0] - at[0]} {at[1] - to[1]}" for at, to in pairwise(ring))
        rings.append(f"M{ring[0][0]} {tall - ring[0][1]}l{steps}z")
    return "".join(rings)


def _described(shown: Mapping[Label, Estimate]) -> str:
    most = sorted(shown.items(), key=lambda pair: -pair[1].value)[:MOST_SAID]
    listed = "; ".join(f"{label}: {with_error(one)}" for label, one in most)
    drowned = sum(map(lost, shown.values()))
    return t(
        "{0} areas, {1} of them lost in the noise. The highest counts: {2}. All numbers are in the table below.",
        figure(len(shown)),
        figure(drowned),
        listed,
    )


def _legend(scale: Scale, *, hatched: bool, outlined: bool) -> Markup:
    box = {"width": 14, "height": 14}
    shown = []
    for mark in scale.marks:
        drawn = tag("rect", class_="area shade", fill_opacity=scale.opacity(mark), **box)
        words = t("1 row") if mark == 1 else t("{0} rows", short(mark))
        words = words if mark == scale.marks[-1] else short(mark)
        shown.append(tag("span", tag("svg", drawn, aria_hidden="true", **box), words))
    if scale.logarithmic:
        shown.append(tag("span", t("equal steps are equal factors")))
    if hatched:
        lines = tag("path", d="M0 7L7 0M0 14L14 0M7 14L14 7", class_="hatching", stroke_width=2)
        drawn = tag("svg", tag("rect", class_="area blank", **box), lines, aria_hidden="true", **box)
        shown.append(tag("span", drawn, t("lost in the noise")))
    if outlined:
        drawn = tag("svg", tag("rect", class_="area blank", **box), aria_hidden="true", **box)
        shown.append(tag("span", drawn, t("no number")))
    return tag("p", shown, class_="legend")


def numbers_of(chart: Chart, header: str, sure: str, summary: str) -> Markup:
    """Table of all counts, in the order of the values."""
    return folded(summary, table_of(header, [(str(label), one) for label, one in chart.counts.items()], sure))


def table_of(header: str, counts: Iterable[tuple[str, Estimate]], sure: str) -> Markup:
    """Table of counts with their standard errors and intervals."""
    rows = [
        [label, figure(one.value), figure(one.stderr, ",.1f"), t("{0} to {1}", figure(one.low), figure(one.high))]
        for label, one in counts
    ]
    headers = [header, t("rows"), t("± std. error"), t("{0} interval", sure)]
    return table(headers, rows, numbers=(1, 2, 3))


def card(name: str, chart: Chart, sure: str, of: str | None) -> Markup:
    """Card of a mapped column that has no other card. of: the attribute whose groups its values are; None if none."""
    every = len(chart.counts)
    kind = many(every, "1 value", "{0} values") if of is None else t("{0} groups of {1}", figure(every), of)
    return tag(
        "article",
        tag("h3", name_of(chart.column)),
        tag("p", kind, class_="kind"),
        choropleth(name, t("Rows by {0}", chart.column), chart),
        _verdict(chart),
        numbers_of(chart, chart.column, sure, t("All numbers")),
        class_="card",
    )


def _verdict(chart: Chart) -> Markup:
    drowned = sum(lost(one) for one in chart.counts.values())
    every = len(chart.counts)
    words = t("All {0} numbers are known to within 50 %.", figure(every))
    if drowned:
        parts = [figure(number) for number in (every, every - drowned, drowned)]
        words = t("Of {0} numbers {1} are known to within 50 % and {2} are lost in the noise.", *parts)
    return tag("p", unbroken(words), class_="verdict")


def charts_of(release: Release, maps: Sequence[Boundaries], confidence: float) -> dict[str, Chart]:
    """Counts of all maps, by column."""
    return {one.column: Chart.of(release, one, confidence) for one in maps}
