"""The guarantee in plain words, with odds that anybody can picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.public.report.markup import Markup, tag
from sfumato.public.report.odds import BELIEFS, Odds, belief_after
from sfumato.public.report.pictures.scale import scale
from sfumato.public.report.sections.pieces import part, table

if TYPE_CHECKING:
    from sfumato.releases.release import Release

LITTLE = 0.95  # a promise under which guesses are right as often as this is called weak
WEAK = "That is a weak promise: an epsilon as large as this one leaves a determined guesser little to be wrong about."
TOGETHER = {1: "one alone", 2: "two", 3: "three", 4: "four"}


def promise(release: Release, odds: tuple[Odds, ...]) -> Markup:
    """Statement, odds for one, odds for families, and what to make of prior beliefs."""
    promised, unit = release.guarantee, release.schema.privacy_unit
    whom = "one row is" if unit.column is None else f"the rows of one {unit.column} are"
    right = odds[0].right
    first = tag(
        "div",
        tag("p", f"{odds[0].of_hundred}", tag("small", " of 100"), class_="big"),
        tag(
            "p",
            f"Somebody knows the whole table but for one thing: whether {whom} in it, which to them is as likely as "
            "not. Before they see this file they guess right 50 times of 100; with it, at most about "
            f"{odds[0].of_hundred} times.",
        ),
        tag("p", WEAK, class_="warning") if right >= LITTLE else None,
        _aside(release),
    )
    lines = []
    for one in odds:
        words = f"{one.of_hundred} of 100"
        drawn = scale(f"odds-{one.people}", one.right, f"{TOGETHER[one.people]}: right at most {words}")
        lines.append(tag("li", tag("span", TOGETHER[one.people]), drawn, tag("b", _percent(one.right))))
    second = tag(
        "div",
        tag("h3", "For families"),
        tag(
            "p",
            "Who is left out together is easier to notice. How often a guess about all of them can be right:",
            class_="soft",
        ),
        tag("ul", lines, class_="families"),
        _beliefs(release),
    )
    return part("promise", "What it promises", promised.statement, tag("div", first, second, class_="odds"))


def _aside(release: Release) -> Markup | None:
    promised, unit = release.guarantee, release.schema.privacy_unit
    if unit.column is None:
        said = "The promise is about single rows: somebody with several rows is like a family of as many."
    elif unit.contributions > 1:
        said = (
            f"All rows of one {unit.column} are covered together; at most {unit.contributions:,} of them were counted."
        )
    else:
        said = f"All rows of one {unit.column} are covered together; at most one of them was counted."
    if promised.rho is not None:
        said += (
            f" The noise is Gaussian. It promises rho {float(promised.rho):.3g} of zero-concentrated privacy, of which "
            f"epsilon {float(promised.epsilon):.3g} with delta {float(promised.delta):.2g} is one summary; the odds "
            "follow from all of it."
        )
    return tag("p", said, class_="soft")


def _beliefs(release: Release) -> Markup | None:
    """What somebody may think who did not start from a toss of a coin; under pure epsilon it holds for sure."""
    promised = release.guarantee
    if promised.rho is not None:
        return None
    rows = []
    for before in BELIEFS:
        after, otherwise = (belief_after(one, float(promised.epsilon)) for one in (before, 1.0 - before))
        rows.append([f"{before * 100:.3g} %", _percent(1.0 - otherwise), _percent(after)])
    said = "Whoever thought otherwise of one beforehand may change their mind this far, and no further:"
    headers = ["chance before", "at least", "at most"]
    return tag("div", tag("p", said, class_="soft"), table(headers, rows, numbers=(0, 1, 2)), class_="beliefs")


def _percent(share: float) -> str:
    percent = share * 100
    return f"{percent:.1f} %" if 0.95 <= percent < 99.95 else f"{percent:.2g} %" if percent < 1 else f"{percent:.4g} %"
