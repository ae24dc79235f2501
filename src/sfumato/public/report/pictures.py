"""SVG pictures of the report: bars and columns with fading error bars, heat maps of pairs, the scale of odds.

A bar is solid up to the low end of its interval and fades out to the high end. In a heat map colour shows where rows
are more or fewer than under independence, and cells that noise could explain are pale. Orange and blue are told apart
by nearly everybody, and by lightness where colour is not seen at all; every number is in a title and in the table
below.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, isfinite, log2, log10
from typing import TYPE_CHECKING

from sfumato.answers.results import Estimate
from sfumato.public.report.markup import Inside, Markup, shortened, tag

if TYPE_CHECKING:
    from sfumato.public.report.pairs import Pair


def picture(name: str, title: str, about: str, height: float, *inside: Inside) -> Markup:
    """SVG with a title and a description, as wide as its container. name: unique on the page, for screen readers."""
    labelled = f"{name}-title {name}-desc"
    heads = (tag("title", title, id=f"{name}-title"), tag("desc", about, id=f"{name}-desc"))
    return tag(
        "svg", heads, *inside, role="img", aria_labelledby=labelled, width="100%", height=height, class_="picture"
    )


def percent(share: float) -> str:
    """Format a position or a width along the picture.

    >>> percent(0.12345678)
    '12.346%'
    """
    return f"{share * 100:.3f}%"


def nice_step(top: float, steps: int) -> float:
    """Least of 1, 2 or 5 times a power of ten by which so many steps reach the top.

    >>> nice_step(1234.0, 4), nice_step(0.7, 3)
    (500.0, 0.5)
    """
    least = top / steps
    if not isfinite(least) or least <= 0:
        return 1.0
    power = 10.0 ** floor(log10(least))
    return next(power * factor for factor in (1.0, 2.0, 5.0, 10.0) if power * factor >= least * 0.999999)


def ticks(top: float, steps: int = 3) -> list[float]:
    """Positions of gridlines from zero to the first at or above the top."""
    step = nice_step(top, steps)
    return [step * place for place in range(ceil(top / step - 1e-9) + 1)]


def short(number: float) -> str:
    """Format a number for the margin of a picture.

    >>> short(1200000), short(2500), short(40), short(0.5)
    ('1.2 M', '2,500', '40', '0.5')
    """
    if abs(number) >= 1e6:
        return f"{number / 1e6:,.4g} M"
    return f"{number:,.0f}" if number == round(number) else f"{number:,.3g}"


def with_error(one: Estimate) -> str:
    """Format a count with the half-width of its interval."""
    half = (one.high - one.low) / 2.0
    if not isfinite(one.value):
        return "unknown"
    return f"{one.value:,.0f} ± {half:,.0f}" if isfinite(half) else f"{one.value:,.0f} ± unknown"


BAR_PITCH = 38  # pixels of one bar with its words
TALL = 190  # of a picture of columns
BELOW, ABOVE = 24, 16
MOST_BAR_LETTERS = 26
MOST_BETWEEN = 8  # letters of labels of which two stand between the first and the last
MOST_MARKED = 60  # columns with a line at their value


def bars(name: str, title: str, labels: Sequence[str], counts: Sequence[Estimate]) -> Markup:
    """Horizontal bars, one under the other, each below its label and its number."""
    top = max((one.high for one in counts if isfinite(one.high)), default=1.0) or 1.0
    inside = []
    for place, (label, one) in enumerate(zip(labels, counts, strict=True)):
        y = place * BAR_PITCH
        low, high, value = (
            min(1.0, max(0.0, end / top)) if isfinite(end) else 0.0 for end in (one.low, one.high, one.value)
        )
        inside += [
            tag("text", tag("title", label), shortened(label, MOST_BAR_LETTERS), x=0, y=y + 14, class_="label"),
            tag("text", with_error(one), x="100%", y=y + 14, class_="number halo", text_anchor="end"),
            tag("rect", x=0, y=y + 21, width="100%", height=9, class_="track"),
            tag("rect", x=0, y=y + 21, width=percent(low), height=9, class_="solid"),
            tag("rect", x=percent(low), y=y + 21, width=percent(high - low), height=9, fill="url(#fade)"),
            tag("line", x1=percent(value), x2=percent(value), y1=y + 19, y2=y + 32, class_="tick")
            if one.value > 0
            else None,
        ]
    about = "; ".join(f"{label}: {with_error(one)}" for label, one in list(zip(labels, counts, strict=True))[:12])
    return picture(name, title, about, len(counts) * BAR_PITCH, inside)


def columns(
    name: str, title: str, labels: Sequence[str], counts: Sequence[Estimate], marks: Sequence[str] | None = None
) -> Markup:
    """Vertical columns along an order, fading upwards; a few labels, or marks, below."""
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
    inside += _below_bars(marks or labels)
    about = f"{len(counts)} columns from {labels[0]} to {labels[-1]}; all numbers are in the table below."
    return picture(name, title, about, TALL, inside)


def _lower_side(counts: Sequence[Estimate]) -> dict[str, str]:
    """Side on which axis numbers cover least: where the columns are lower."""
    third = max(1, len(counts) // 4)
    left, right = (max((one.high for one in part), default=0.0) for part in (counts[:third], counts[-third:]))
    return {"x": "0", "text_anchor": "start"} if left <= right else {"x": "100%", "text_anchor": "end"}


def _below_bars(labels: Sequence[str]) -> list[Markup]:
    """Labels below columns: the first, the last, and one or two between."""
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


LEAST_LEFT, MOST_LEFT, LEFT_LETTER = (0.12, 0.34, 0.024)  # of the width, for labels of rows and each letter
MOST_ROW_LETTERS = 14
ROW_PITCH = 30
FOOT, LETTER, MOST_LETTERS = 22, 3.4, 14  # for slanted labels of columns
MOST_UPRIGHT, MOST_BESIDE = 4, 28  # columns whose labels fit beside each other, and letters of all of them
FULL = 2.0  # doublings at which a colour is as strong as it gets
FAINTEST = 0.07


def heat_map(name: str, pair: Pair) -> Markup:
    """Heat map of a pair."""
    rows, columns = pair.shape
    usual, sure = pair.expected, pair.certainty
    longest = max(min(MOST_ROW_LETTERS, len(label)) for label in pair.rows.labels)
    left = min(MOST_LEFT, max(LEAST_LEFT, 0.03 + LEFT_LETTER * longest))
    wide = (1.0 - left) / columns
    inside = []
    for row in range(rows):
        y = row * ROW_PITCH
        inside.append(
            tag(
                "text",
                tag("title", pair.rows.labels[row]),
                shortened(pair.rows.labels[row], MOST_ROW_LETTERS),
                x=percent(left - 0.015),
                y=y + ROW_PITCH / 2 + 4,
                class_="label",
                text_anchor="end",
            )
        )
        for column in range(columns):
            one = pair.counts[row * columns + column]
            times = (max(one.value, 0.0) + 0.5) / (max(float(usual[row, column]), 0.0) + 0.5)
            said = (
                f"{pair.rows.labels[row]}, {pair.columns.labels[column]}: {with_error(one)}; "
                f"{usual[row, column]:,.0f} expected; {_verdict(float(sure[row, column]), times)}"
            )
            inside.append(
                tag(
                    "rect",
                    tag("title", said),
                    x=percent(left + column * wide),
                    y=y,
                    width=percent(wide),
                    height=ROW_PITCH,
                    class_="more" if times >= 1 else "fewer",
                    fill_opacity=_opacity(times, float(sure[row, column])),
                )
            )
    below, foot = _below_map(pair, left, wide)
    inside += below
    names = (pair.rows.axis.name, pair.columns.axis.name)
    about = (
        f"{rows} by {columns} groups; colour tells more or fewer rows than if both had nothing to do with each other, "
        "and what noise could have made is pale; all numbers are in the table below."
    )
    return picture(name, f"{names[0]} and {names[1]}", about, rows * ROW_PITCH + foot, inside)


def _below_map(pair: Pair, left: float, wide: float) -> tuple[list[Markup], float]:
    """Labels of a heat map's columns, slanted where there are many, and their height."""
    rows, columns = pair.shape
    beside = columns * max(map(len, pair.columns.labels)) <= MOST_BESIDE
    slanted = columns > MOST_UPRIGHT and not beside
    found = []
    for column, label in enumerate(pair.columns.labels):
        how = {"text_anchor": "end", "transform": "rotate(-35)"} if slanted else {"text_anchor": "middle"}
        shown = shortened(label, MOST_LETTERS if slanted else MOST_LETTERS - 2)
        words = tag("text", tag("title", label), shown, x=0, y=0, class_="small", **how)
        x = percent(left + (column + (0.55 if slanted else 0.5)) * wide)
        found.append(tag("svg", words, x=x, y=rows * ROW_PITCH + (12 if slanted else 17), overflow="visible"))
    longest = max(min(MOST_LETTERS, len(label)) for label in pair.columns.labels)
    return found, FOOT + LETTER * longest if slanted else FOOT + 4.0


def legend() -> Markup:
    """Legend of colours and paleness."""
    keys = [
        (("fewer", 0.9, 0.25), "fewer than expected"),
        (("unsure", 1.0), "could be noise"),
        (("more", 0.25, 0.9), "more than expected"),
    ]
    shown = []
    for (kind, *opacities), words in keys:
        boxes = [
            tag("rect", x=18 * place, y=0, width=14, height=14, class_=kind, fill_opacity=opacity)
            for place, opacity in enumerate(opacities)
        ]
        drawn = tag("svg", boxes, width=18 * len(boxes) - 4, height=14, aria_hidden="true")
        shown.append(tag("span", drawn, words))
    return tag("p", shown, class_="legend")


def _opacity(times: float, sure: float) -> float:
    """Opacity of a cell: strong only where the departure is both large and certain."""
    large = min(1.0, abs(log2(times)) / FULL) ** 0.6
    known = min(1.0, sure) ** 2
    return float(round(FAINTEST + (0.95 - FAINTEST) * large * known, 3))


def _verdict(sure: float, times: float) -> str:
    if sure <= 1.0:
        return "could be noise"
    return "more than noise explains" if times >= 1 else "fewer than noise explains"


def scale(name: str, right: float, words: str) -> Markup:
    """Scale of odds. right: between 0.5, a toss of a coin, and 1, certainty."""
    place = min(1.0, max(0.0, (right - 0.5) * 2.0))
    return picture(
        name,
        words,
        "A line from 50 of 100, the toss of a coin, to 100 of 100, certainty.",
        14,
        tag("rect", x=0, y=5, width="100%", height=4, class_="track"),
        tag("rect", x=0, y=5, width=percent(place), height=4, class_="solid"),
        tag("circle", cx=percent(place), cy=7, r=5, class_="mark"),
    )
