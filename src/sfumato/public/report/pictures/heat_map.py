"""Two attributes at once: colour says where rows are more or fewer than if both had nothing to do with each other.

What the noise could have made fades into the paper. Orange and blue are told apart by nearly everybody, and by their
lightness where colour is not seen at all; every number is in a title and in the table below.
"""

from __future__ import annotations

from math import log2
from typing import TYPE_CHECKING

from sfumato.public.report.markup import Markup, shortened, tag
from sfumato.public.report.pictures.drawing import percent, picture, with_error

if TYPE_CHECKING:
    from sfumato.public.report.pairs import Pair

LEAST_LEFT, MOST_LEFT, LEFT_LETTER = (0.12, 0.34, 0.024)  # of the width, for labels of rows and each letter
MOST_ROW_LETTERS = 14
PITCH = 30
FOOT, LETTER, MOST_LETTERS = 22, 3.4, 14  # for slanted labels of columns
MOST_UPRIGHT, MOST_BESIDE = 4, 28  # columns whose labels fit beside each other, and letters of all of them
FULL = 2.0  # doublings at which a colour is as strong as it gets
FAINTEST = 0.07


def heat_map(name: str, pair: Pair) -> Markup:
    """The picture of a pair."""
    rows, columns = pair.shape
    usual, sure = pair.expected, pair.certainty
    longest = max(min(MOST_ROW_LETTERS, len(label)) for label in pair.rows.labels)
    left = min(MOST_LEFT, max(LEAST_LEFT, 0.03 + LEFT_LETTER * longest))
    wide = (1.0 - left) / columns
    inside = []
    for row in range(rows):
        y = row * PITCH
        inside.append(
            tag(
                "text",
                tag("title", pair.rows.labels[row]),
                shortened(pair.rows.labels[row], MOST_ROW_LETTERS),
                x=percent(left - 0.015),
                y=y + PITCH / 2 + 4,
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
                    height=PITCH,
                    class_="more" if times >= 1 else "fewer",
                    fill_opacity=_opacity(times, float(sure[row, column])),
                )
            )
    below, foot = _below(pair, left, wide)
    inside += below
    names = (pair.rows.axis.name, pair.columns.axis.name)
    about = (
        f"{rows} by {columns} groups; colour tells more or fewer rows than if both had nothing to do with each other, "
        "and what noise could have made is pale; all numbers are in the table below."
    )
    return picture(name, f"{names[0]} and {names[1]}", about, rows * PITCH + foot, inside)


def _below(pair: Pair, left: float, wide: float) -> tuple[list[Markup], float]:
    """The labels of columns, slanted where there are many, and how high they are."""
    rows, columns = pair.shape
    beside = columns * max(map(len, pair.columns.labels)) <= MOST_BESIDE
    slanted = columns > MOST_UPRIGHT and not beside
    found = []
    for column, label in enumerate(pair.columns.labels):
        how = {"text_anchor": "end", "transform": "rotate(-35)"} if slanted else {"text_anchor": "middle"}
        shown = shortened(label, MOST_LETTERS if slanted else MOST_LETTERS - 2)
        words = tag("text", tag("title", label), shown, x=0, y=0, class_="small", **how)
        x = percent(left + (column + (0.55 if slanted else 0.5)) * wide)
        found.append(tag("svg", words, x=x, y=rows * PITCH + (12 if slanted else 17), overflow="visible"))
    longest = max(min(MOST_LETTERS, len(label)) for label in pair.columns.labels)
    return found, FOOT + LETTER * longest if slanted else FOOT + 4.0


def legend() -> Markup:
    """What colours and paleness mean."""
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
    """Strong where the departure is large and known; nothing much where either is lacking."""
    large = min(1.0, abs(log2(times)) / FULL) ** 0.6
    known = min(1.0, sure) ** 2
    return float(round(FAINTEST + (0.95 - FAINTEST) * large * known, 3))


def _verdict(sure: float, times: float) -> str:
    if sure <= 1.0:
        return "could be noise"
    return "more than noise explains" if times >= 1 else "fewer than noise explains"
