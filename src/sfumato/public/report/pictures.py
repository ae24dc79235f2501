"""SVG pictures: bars and columns with fading error bars, lines over time, heat maps of pairs, odds; also as files.

A bar is solid up to the low end of its interval and fades out to the high end; a line runs in the band of its
intervals. In a heat map colour shows where rows
are more or fewer than under independence, and cells that noise could explain are pale. Orange and blue are told apart
by nearly everybody, and by lightness where colour is not seen at all; every number is in a title and in the table
below.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import ceil, floor, isfinite, log2, log10
from typing import TYPE_CHECKING

from sfumato.answers.results import Estimate
from sfumato.public.report.markup import Inside, Markup, fades, shortened, tag
from sfumato.public.report.tongue import figure, t

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
        return t("{0} M", figure(number / 1e6, ",.4g"))
    return figure(number) if number == round(number) else figure(number, ",.3g")


def with_error(one: Estimate) -> str:
    """Format a count with the half-width of its interval."""
    half = (one.high - one.low) / 2.0
    if not isfinite(one.value):
        return t("unknown")
    return f"{figure(one.value)} ± {figure(half) if isfinite(half) else t('unknown')}"


LEAST_LEFT, MOST_LEFT, LEFT_LETTER = (0.12, 0.34, 0.024)  # of the width, for labels of rows and each letter
BAR_PITCH = 38  # pixels of one bar with its words
TALL = 190  # of a picture of columns
BELOW, ABOVE = 24, 16
MOST_BAR_LETTERS = 26
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
    name: str,
    title: str,
    labels: Sequence[str],
    counts: Sequence[Estimate],
    marks: Sequence[str] | None = None,
    *,
    pale: Collection[int] = (),
    tall: int = TALL,
    letter: float = LEFT_LETTER,
) -> Markup:
    """Vertical columns along an order, fading upwards; a few labels, or marks, below; numbers at their left.

    pale: indices of columns that hold less than the others by their nature, such as a week that the bounds cut.
    letter: share of the width that a digit takes; the default is for a card of the page, also on a phone.
    """
    top = max((one.high for one in counts if isfinite(one.high)), default=1.0) or 1.0
    grid = ticks(top)
    scale = (tall - BELOW - ABOVE) / grid[-1]
    left = min(MOST_LEFT, letter * (1 + max(len(short(tick)) for tick in grid)))

    def y(number: float) -> float:
        return tall - BELOW - max(0.0, number) * scale

    inside = [tag("line", x1=percent(left), x2="100%", y1=y(tick), y2=y(tick), class_="grid") for tick in grid]
    at = {"x": percent(left - letter / 2), "text_anchor": "end", "class_": "small"}
    inside += [tag("text", short(tick), y=y(tick) + 4, **at) for tick in grid]
    wide = (1.0 - left) / len(counts)
    gap = 0.22 if len(counts) <= 40 else 0.08
    for place, one in enumerate(counts):
        if not (isfinite(one.low) and isfinite(one.high)):
            continue
        begins, ends = left + (place + gap / 2) * wide, left + (place + 1 - gap / 2) * wide
        x, width = percent(begins), percent(ends - begins)
        low, high = max(0.0, one.low), max(0.0, one.high)
        said = tag("title", f"{labels[place]}: {with_error(one)}")
        faint = 0.4 if place in pale else None
        solid = {"x": x, "width": width, "class_": "solid", "opacity": faint}
        fading = {"x": x, "width": width, "fill": "url(#fade-up)", "opacity": faint}
        inside += [
            tag("rect", said, y=y(low), height=y(0) - y(low), **solid),
            tag("rect", said, y=y(high), height=max(0.5, y(low) - y(high)), **fading),
        ]
        if len(counts) <= MOST_MARKED and one.value > 0:
            value = y(one.value)
            inside.append(tag("line", x1=x, x2=percent(ends), y1=value, y2=value, class_="tick"))
    inside += _below_bars(marks or labels, left, tall - 7, letter)
    about = t(
        "{0} columns from {1} to {2}; all numbers are in the table below.", figure(len(counts)), labels[0], labels[-1]
    )
    return picture(name, title, about, tall, inside)


def line(
    name: str,
    title: str,
    labels: Sequence[str],
    counts: Sequence[Estimate],
    places: Sequence[int],
    *,
    tall: int = TALL,
    letter: float = LEFT_LETTER,
) -> Markup:
    """Line over time in the band of its intervals; values may be negative.

    places: step of time of each value; where a step has none the line breaks. Positions are shares of the width, so the
    line is drawn in a frame of its own that stretches.
    """
    known = [(place, one, label) for place, one, label in zip(places, counts, labels, strict=True) if _bounded(one)]
    low, high = min([0.0, *(one.low for _, one, _ in known)]), max([0.0, *(one.high for _, one, _ in known)])
    step, number = nice_step(high - low or 1.0, 4), places[-1] + 1
    grid = [step * at for at in range(floor(low / step + 1e-9), ceil((high or 1.0) / step - 1e-9) + 1)]
    scale = (tall - BELOW - ABOVE) / (grid[-1] - grid[0])
    left = min(MOST_LEFT, letter * (1 + max(len(short(tick)) for tick in grid)))

    def y(value: float) -> float:
        return round(tall - BELOW - (value - grid[0]) * scale, 2)

    inside = [tag("line", x1=percent(left), x2="100%", y1=y(tick), y2=y(tick), class_="grid") for tick in grid]
    at = {"x": percent(left - letter / 2), "text_anchor": "end", "class_": "small"}
    inside += [tag("text", short(tick), y=y(tick) + 4, **at) for tick in grid]
    runs: list[list[tuple[int, Estimate]]] = []
    for place, one, _ in known:
        if not runs or runs[-1][-1][0] != place - 1:
            runs.append([])
        runs[-1].append((place, one))
    drawn = []
    for run in runs:
        ends = [(place + 0.5, one.high) for place, one in run] + [(place + 0.5, one.low) for place, one in run[::-1]]
        if len(run) == 1:  # a band as wide as half a step
            ends = [(ends[at][0] + shift, ends[at][1]) for at, shift in ((0, -0.25), (0, 0.25), (1, 0.25), (1, -0.25))]
        drawn.append(tag("polygon", points=_points(ends, y), class_="solid", opacity=0.3))
        values = _points([(place + 0.5, one.value) for place, one in run], y)
        drawn.append(tag("polyline", points=values, class_="tick", fill="none", vector_effect="non-scaling-stroke"))
    frame = {"x": percent(left), "width": percent(1 - left), "height": tall, "viewBox": f"0 0 {number} {tall}"}
    inside.append(tag("svg", drawn, preserveAspectRatio="none", **frame))
    for place, one, label in known:
        x = percent(left + (place + 0.5) / number * (1.0 - left))
        inside.append(
            tag("circle", tag("title", f"{label}: {with_error(one)}"), cx=x, cy=y(one.value), r=3, class_="dot")
        )
    below = dict(zip(places, labels, strict=True))
    inside += _below_bars([below.get(place, "") for place in range(number)], left, tall - 7, letter)
    about = t(
        "{0} values from {1} to {2}; all numbers are in the table below.", figure(len(known)), labels[0], labels[-1]
    )
    return picture(name, title, about, tall, inside)


def _bounded(one: Estimate) -> bool:
    return isfinite(one.low) and isfinite(one.high) and isfinite(one.value)


def _points(ends: Sequence[tuple[float, float]], y: Callable[[float], float]) -> str:
    return " ".join(f"{x:g},{y(value):g}" for x, value in ends)


def _below_bars(labels: Sequence[str], left: float, y: float, letter: float) -> list[Markup]:
    """Labels below columns: the first, the last, and one or two between where they have room on a phone.

    left: where the columns begin. letter: width of a letter.
    """
    number = len(labels)
    wide = letter * (2 + min(MOST_LETTERS, max(map(len, labels))))  # of one, with a gap
    room = int((1.0 - left) / wide)
    between = {number // 3, 2 * number // 3} if number > 6 and room >= 4 else {number // 2} if room >= 3 else set()
    places = sorted({0, number - 1} | between)
    found = []
    for place in places:
        middle = left + (place + 0.5) / number * (1.0 - left)
        anchor, x = ("start", left) if place == 0 else ("end", 1.0) if place == number - 1 else ("middle", middle)
        found.append(
            tag("text", shortened(labels[place], MOST_LETTERS), x=percent(x), y=y, class_="small", text_anchor=anchor)
        )
    return found


ALONE = (16, 60, 14)  # pixels at the sides of a picture in a file, above it for its title, and below it
STYLE = (
    "svg { font-family: system-ui, sans-serif; font-size: 12px } text { fill: #23201c } .small { fill: #6a635a } "
    ".solid { fill: #5d7b8c } .fading { stop-color: #5d7b8c } .grid { stroke: #e6e0d6 } "
    ".tick { stroke: #2f4552; stroke-width: 1.5 } .dot { fill: #2f4552 }"
)


def as_file(drawn: Markup, title: str, subtitle: str, wide: float, tall: float) -> str:
    """SVG file of a picture with its title above it and the colours of the report's light theme."""
    side, above, below = ALONE
    width, height = wide + 2 * side, tall + above + below
    inside = [
        tag("style", Markup(STYLE)),
        fades(),
        tag("rect", width=width, height=height, fill="#fdfcf9"),
        tag("text", title, x=side, y=26, font_size=16, font_weight=600),
        tag("text", subtitle, x=side, y=46, class_="small"),
        tag("svg", drawn, x=side, y=above, width=wide, height=tall),
    ]
    namespace = "http://www.w3.org/2000/svg"
    return tag("svg", inside, xmlns=namespace, width=width, height=height, viewBox=f"0 0 {width} {height}") + "\n"


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
            said = t(
                "{0}, {1}: {2}; {3} expected; {4}",
                pair.rows.labels[row],
                pair.columns.labels[column],
                with_error(one),
                figure(usual[row, column]),
                _verdict(float(sure[row, column]), times),
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
    about = t(
        "{0} by {1} groups; colour tells more or fewer rows than if both had nothing to do with each other, and what "
        "noise could have made is pale; all numbers are in the table below.",
        rows,
        columns,
    )
    return picture(name, t("{0} and {1}", *names), about, rows * ROW_PITCH + foot, inside)


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
        (("fewer", 0.9, 0.25), t("fewer than expected: full colour for {0} or less", f"1/{2**FULL:g}")),
        (("unsure", 1.0), t("could be noise")),
        (("more", 0.25, 0.9), t("more than expected: full colour for {0} times or more", f"{2**FULL:g}")),
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
        return t("could be noise")
    return t("more than noise explains") if times >= 1 else t("fewer than noise explains")


def scale(name: str, right: float, words: str) -> Markup:
    """Scale of odds. right: between 0.5, a toss of a coin, and 1, certainty."""
    place = min(1.0, max(0.0, (right - 0.5) * 2.0))
    return picture(
        name,
        words,
        t("A line from 50 of 100, the toss of a coin, to 100 of 100, certainty."),
        14,
        tag("rect", x=0, y=5, width="100%", height=4, class_="track"),
        tag("rect", x=0, y=5, width=percent(place), height=4, class_="solid"),
        tag("circle", cx=percent(place), cy=7, r=5, class_="mark"),
    )
