"""Report sections on single attributes (picture, verdict, table) and on the most associated pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.public.report.distributions import Distribution
from sfumato.public.report.markup import Markup, folded, name_of, part, table, tag, unbroken
from sfumato.public.report.pairs import Pair
from sfumato.public.report.pictures import bars, columns, heat_map, legend, line, percent, with_error

if TYPE_CHECKING:
    from sfumato.domain import Axis

MOST_BARS = 24  # values without an order that are listed under each other
FEW = 7  # periods that are missing, and named

KINDS = {"integer": "whole numbers", "number": "numbers", "date": "dates"}


def attributes(
    found: Sequence[Distribution], unknown: Sequence[Axis], confidence: float, along: str | None = None
) -> Markup:
    """Section with a card for each attribute; unknown: attributes of which the release has no counts.

    along: the time of a series, drawn as a line.
    """
    sure = f"{confidence * 100:.6g} %"
    about = (
        f"How many rows have each value. A bar is solid up to the low end of the number's {sure} interval and "
        "dissolves towards the high end: somewhere there the truth is."
    )
    if any(one.axis.name == along for one in found):
        about += f" Over time, a line runs in the band of the {sure} intervals."
    cards = [_card(f"a{place}", one, sure, one.axis.name == along) for place, one in enumerate(found)]
    left = None
    if unknown:
        names = [joined for axis in unknown for joined in (name_of(axis.name), ", ")][:-1]
        left = tag("p", "Not known from this release by themselves: ", names, ".", class_="soft")
    return part("attributes", "What it shows", about, tag("div", cards, class_="cards"), left)


def _card(name: str, one: Distribution, sure: str, over_time: bool) -> Markup:
    axis, labels = one.axis, one.cut.labels
    listed = not axis.ordered and len(labels) <= MOST_BARS
    title = f"Rows by {axis.name}"
    short = one.cut.cut_short
    if over_time and axis.ordered:
        steps = [int(cells[0]) if one.cut.whole else place for place, cells in enumerate(one.cut.groups)]
        drawn = line(name, title, labels, one.counts, steps)
    elif listed:
        drawn = bars(name, title, labels, one.counts)
    else:
        drawn = columns(name, title, labels, one.counts, _marks(one), pale=short)
    kind = f"{axis.size:,} values" if axis.values else f"{KINDS.get(axis.kind, axis.kind)} in {axis.size:,} steps"
    if over_time:
        gaps = [str(axis.label(cell)) for cell in axis.gaps]
        kind = f"{len(axis.edges) - 1 - len(gaps)} periods" + f", without {', '.join(gaps)}" * (0 < len(gaps) < FEW)
    if not one.cut.whole:
        kind += f", drawn in {len(labels)} groups"
    rows = [
        [label, f"{count.value:,.0f}", f"{count.stderr:,.1f}", f"{count.low:,.0f} to {count.high:,.0f}"]
        for label, count in zip(labels, one.counts, strict=True)
    ]
    return tag(
        "article",
        tag("h3", name_of(axis.name)),
        tag("p", kind, class_="kind"),
        drawn,
        tag("p", unbroken(one.verdict), class_="verdict"),
        tag("p", _shorter(one), class_="kind") if short else None,
        _grades(one),
        folded("All numbers", table(["value", "rows", "± std. error", f"{sure} interval"], rows, numbers=(1, 2, 3))),
        class_="card",
    )


def _shorter(one: Distribution) -> str:
    """Sentence on the columns that span less than the others."""
    listed = ", ".join(f"{one.cut.labels[place]} has {part}" for place, part in one.cut.cut_short.items())
    return f"Paler, because shorter than the others: {listed}. Rows from beyond the bounds count there, too."


def _marks(one: Distribution) -> list[str] | None:
    """Axis labels below columns that span several values or an interval: the first of each, and the last of all."""
    axis, labels = one.axis, one.cut.labels
    if axis.kind != "number" and axis.ordered and not one.cut.whole:  # a span of days is too long to stand there
        return [*(label.split(" to ")[0] for label in labels[:-1]), labels[-1].split(" to ")[-1]]
    if axis.kind != "number" or axis.missing:
        return None
    begins = [f"{float(axis.edges[int(cells[0])]):,.6g}" for cells in one.cut.groups]
    return [*begins[:-1], f"{float(axis.edges[-1]):,.6g}"]


def _grades(one: Distribution) -> Markup:
    """Thin SVG bar of the shares of counts known to within a tenth, to within a half, and worse."""
    parts, at = [], 0.0
    for number, kind in zip(one.grades, ("close", "rough", "lost"), strict=True):
        share = number / len(one.counts)
        parts.append(tag("rect", x=percent(at), y=0, width=percent(share), height=4, class_=kind))
        at += share
    return tag("svg", parts, width="100%", height=4, aria_hidden="true", class_="grades")


def together(pairs: Sequence[Pair], confidence: float) -> Markup:
    """Section with a picture for each pair, the strongest first."""
    if not pairs:
        nothing = "No two attributes depend on each other so much that the noise of this release would let it be seen."
        return part("pairs", "What goes together", nothing)
    about = (
        "The pairs of attributes that depend on each other most, as far as the noise lets it be seen. Colour tells "
        "where there are more or fewer rows than if the two had nothing to do with each other; what noise could have "
        "made fades."
    )
    cards = [_pair_card(f"p{place}", one, confidence) for place, one in enumerate(pairs)]
    return part("pairs", "What goes together", about, legend(), tag("div", cards, class_="cards"))


def _pair_card(name: str, pair: Pair, confidence: float) -> Markup:
    clear, every = int((pair.certainty > 1.0).sum()), len(pair.counts)
    usual = pair.expected.ravel()
    rows = [
        [
            pair.rows.labels[place // pair.columns.size],
            pair.columns.labels[place % pair.columns.size],
            with_error(one),
            f"{usual[place]:,.0f}",
        ]
        for place, one in enumerate(pair.counts)
    ]
    verdict = (
        f"{clear} of {every} cells hold more or fewer rows than noise explains: {confidence * 100:.6g} % sure, of all "
        f"{every} together."
    )
    names = (pair.rows.axis.name, pair.columns.axis.name)
    headers = [*names, "rows, ± half the interval", "expected"]
    return tag(
        "article",
        tag("h3", name_of(names[0]), " and ", name_of(names[1])),
        tag(
            "p",
            f"{pair.words} dependence: {pair.strength:.2f} on a scale from 0 to 1 (Cramér's V, noise taken off)",
            class_="kind",
        ),
        heat_map(name, pair),
        tag("p", unbroken(verdict), class_="verdict"),
        folded("All numbers", table(headers, rows, numbers=(2, 3))),
        class_="card",
    )
