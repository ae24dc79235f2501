"""Bars that dissolve where they are not known: solid up to the low end of the interval, fading out to the high end."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from sfumato.answers.estimate import Estimate
from sfumato.public.report.markup import Markup, shortened, tag
from sfumato.public.report.pictures.drawing import percent, picture, short, ticks, with_error

PITCH = 38  # pixels of one bar with its words
TALL = 190  # of a picture of columns
BELOW, ABOVE = 24, 16
MOST_LETTERS = 26
MOST_BETWEEN = 8  # letters of labels of which two stand between the first and the last
MOST_MARKED = 60  # columns with a line at their value


def bars(name: str, title: str, labels: Sequence[str], counts: Sequence[Estimate]) -> Markup:
    """One bar under the other, each below its label and its number."""
    top = max((one.high for one in counts if isfinite(one.high)), default=1.0) or 1.0
    inside = []
    for place, (label, one) in enumerate(zip(labels, counts, strict=True)):
        y = place * PITCH
        low, high, value = (
            min(1.0, max(0.0, end / top)) if isfinite(end) else 0.0 for end in (one.low, one.high, one.value)
        )
        inside += [
            tag("text", tag("title", label), shortened(label, MOST_LETTERS), x=0, y=y + 14, class_="label"),
            tag("text", with_error(one), x="100%", y=y + 14, class_="number halo", text_anchor="end"),
            tag("rect", x=0, y=y + 21, width="100%", height=9, class_="track"),
            tag("rect", x=0, y=y + 21, width=percent(low), height=9, class_="solid"),
            tag("rect", x=percent(low), y=y + 21, width=percent(high - low), height=9, fill="url(#fade)"),
            tag("line", x1=percent(value), x2=percent(value), y1=y + 19, y2=y + 32, class_="tick")
            if one.value > 0
            else None,
        ]
    about = "; ".join(f"{label}: {with_error(one)}" for label, one in list(zip(labels, counts, strict=True))[:12])
    return picture(name, title, about, len(counts) * PITCH, inside)


def columns(
    name: str, title: str, labels: Sequence[str], counts: Sequence[Estimate], marks: Sequence[str] | None = None
) -> Markup:
    """One column beside the other along an order, dissolving upwards; a few labels, or marks, below."""
    top = max((one.high for one in counts if isfinite(one.high)), default=1.0) or 1.0
    grid = ticks(top)
    scale = (TALL - BELOW - ABOVE) / grid[-1]

    def y(number: float) -> float:
        return TALL - BELOW - max(0.0, number) * scale

    inside = [tag("line", x1=0, x2="100%", y1=y(tick), y2=y(tick), class_="grid") for tick in grid]
    wide = 1.0 / len(counts)
    gap = 0.22 if len(counts) <= 40 else 0.08
    for place, one in enumerate(counts):
        if not (isfinite(one.low) and isfinite(one.high)):
            continue
        x, width = percent((place + gap / 2) * wide), percent(wide * (1 - gap))
        low, high = max(0.0, one.low), max(0.0, one.high)
        said = tag("title", f"{labels[place]}: {with_error(one)}")
        inside += [
            tag("rect", said, x=x, y=y(low), width=width, height=y(0) - y(low), class_="solid"),
            tag("rect", said, x=x, y=y(high), width=width, height=max(0.5, y(low) - y(high)), fill="url(#fade-up)"),
        ]
        if len(counts) <= MOST_MARKED and one.value > 0:
            ends = {"x1": x, "x2": percent((place + 1 - gap / 2) * wide), "y1": y(one.value), "y2": y(one.value)}
            inside.append(tag("line", class_="tick", **ends))
    side = _lower_side(counts)
    inside += [tag("text", short(tick), y=y(tick) - 4, class_="small halo", **side) for tick in grid[1:]]
    inside += _below(marks or labels)
    about = f"{len(counts)} columns from {labels[0]} to {labels[-1]}; all numbers are in the table below."
    return picture(name, title, about, TALL, inside)


def _lower_side(counts: Sequence[Estimate]) -> dict[str, str]:
    """Where numbers stand in nobody's way: at the end where the columns are lower."""
    third = max(1, len(counts) // 4)
    left, right = (max((one.high for one in part), default=0.0) for part in (counts[:third], counts[-third:]))
    return {"x": "0", "text_anchor": "start"} if left <= right else {"x": "100%", "text_anchor": "end"}


def _below(labels: Sequence[str]) -> list[Markup]:
    """The first label, the last one, and one or two between."""
    number = len(labels)
    roomy = number > 6 and max(map(len, labels)) <= MOST_BETWEEN
    places = sorted({0, number // 3, 2 * number // 3, number - 1} if roomy else {0, number // 2, number - 1})
    found = []
    for place in places:
        middle = (place + 0.5) / number
        anchor, x = ("start", 0.0) if place == 0 else ("end", 1.0) if place == number - 1 else ("middle", middle)
        found.append(
            tag("text", shortened(labels[place], 14), x=percent(x), y=TALL - 7, class_="small", text_anchor=anchor)
        )
    return found
