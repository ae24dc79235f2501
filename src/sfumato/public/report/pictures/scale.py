"""From a coin's toss to certainty: how often a guess can be right, as a mark on a line."""

from __future__ import annotations

from sfumato.public.report.markup import Markup, tag
from sfumato.public.report.pictures.drawing import percent, picture


def scale(name: str, right: float, words: str) -> Markup:
    """right: between 0.5, a toss of a coin, and 1, certainty."""
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
