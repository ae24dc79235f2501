"""Pairs of attributes that go together."""

from __future__ import annotations

from collections.abc import Sequence

from sfumato.public.report.markup import Markup, name_of, tag, unbroken
from sfumato.public.report.pairs import Pair
from sfumato.public.report.pictures.drawing import with_error
from sfumato.public.report.pictures.heat_map import heat_map, legend
from sfumato.public.report.sections.pieces import folded, part, table


def together(pairs: Sequence[Pair], confidence: float) -> Markup:
    """A picture for each pair, the strongest first."""
    if not pairs:
        nothing = "No two attributes depend on each other so much that the noise of this release would let it be seen."
        return part("pairs", "What goes together", nothing)
    about = (
        "The pairs of attributes that depend on each other most, as far as the noise lets it be seen. Colour tells "
        "where there are more or fewer rows than if the two had nothing to do with each other; what noise could have "
        "made fades."
    )
    cards = [_card(f"p{place}", one, confidence) for place, one in enumerate(pairs)]
    return part("pairs", "What goes together", about, legend(), tag("div", cards, class_="cards"))


def _card(name: str, pair: Pair, confidence: float) -> Markup:
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
