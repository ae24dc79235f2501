"""Every attribute by itself: a picture, a verdict and a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sfumato.public.report.distributions import Distribution
from sfumato.public.report.markup import Markup, name_of, tag, unbroken
from sfumato.public.report.pictures.bars import bars, columns
from sfumato.public.report.pictures.drawing import percent
from sfumato.public.report.sections.pieces import folded, part, table

if TYPE_CHECKING:
    from sfumato.domain import Axis

MOST_BARS = 24  # values without an order that are listed under each other

KINDS = {"integer": "whole numbers", "number": "numbers", "date": "dates"}


def attributes(found: Sequence[Distribution], unknown: Sequence[Axis], confidence: float) -> Markup:
    """A card for each; unknown: attributes of which the release has no counts."""
    sure = f"{confidence * 100:.6g} %"
    about = (
        f"How many rows have each value. A bar is solid up to the low end of the number's {sure} interval and "
        "dissolves towards the high end: somewhere there the truth is."
    )
    cards = [_card(f"a{place}", one, sure) for place, one in enumerate(found)]
    left = None
    if unknown:
        names = [joined for axis in unknown for joined in (name_of(axis.name), ", ")][:-1]
        left = tag("p", "Not known from this release by themselves: ", names, ".", class_="soft")
    return part("attributes", "What it shows", about, tag("div", cards, class_="cards"), left)


def _card(name: str, one: Distribution, sure: str) -> Markup:
    axis, labels = one.axis, one.cut.labels
    listed = not axis.ordered and len(labels) <= MOST_BARS
    title = f"Rows by {axis.name}"
    drawn = bars(name, title, labels, one.counts) if listed else columns(name, title, labels, one.counts, _marks(one))
    kind = f"{axis.size:,} values" if axis.values else f"{KINDS.get(axis.kind, axis.kind)} in {axis.size:,} steps"
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
        _grades(one),
        folded("All numbers", table(["value", "rows", "± std. error", f"{sure} interval"], rows, numbers=(1, 2, 3))),
        class_="card",
    )


def _marks(one: Distribution) -> list[str] | None:
    """Below the columns of an axis of numbers: where each begins, and where the last one ends."""
    axis = one.axis
    if axis.kind != "number" or axis.missing:
        return None
    begins = [f"{float(axis.edges[int(cells[0])]):,.6g}" for cells in one.cut.groups]
    return [*begins[:-1], f"{float(axis.edges[-1]):,.6g}"]


def _grades(one: Distribution) -> Markup:
    """How many numbers are good, fair and lost, as one thin line."""
    parts, at = [], 0.0
    for number, kind in zip(one.grades, ("close", "rough", "lost"), strict=True):
        share = number / len(one.counts)
        parts.append(tag("rect", x=percent(at), y=0, width=percent(share), height=4, class_=kind))
        at += share
    return tag("svg", parts, width="100%", height=4, aria_hidden="true", class_="grades")
