"""Opening of the report: summary, guarantee in plain words, and the odds of a membership guess.

The odds. An adversary knows everything about the table but whether one person's rows are in it, takes both for equally
likely, sees the release and guesses. Under (epsilon, delta) no rule of guessing is right more often than (e^epsilon +
delta) / (1 + e^epsilon): of the chances p and q of saying "in" with and without that person, p <= e^epsilon q + delta
and 1 - q <= e^epsilon (1 - p) + delta (Wasserman, Zhou 2010; Kairouz, Oh, Viswanath 2015), and (p + 1 - q) / 2 is
largest where both are met. Under rho-zCDP that holds for every delta with its epsilon, and the Kullback-Leibler
divergence is at most rho, so (Pinsker; Bretagnolle, Huber) a guess is right at most (1 + min(sqrt(rho / 2), sqrt(1 -
e^-rho))) / 2; the least of all these bounds is taken. For several persons together epsilon is multiplied and rho grows
with the square.
"""

from __future__ import annotations

from fractions import Fraction
from math import exp, sqrt
from typing import TYPE_CHECKING

from sfumato.answers.results import Estimate
from sfumato.errors import SfumatoError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import epsilon_for, readable
from sfumato.plain_text import as_rows
from sfumato.public.report.markup import Markup, name_of, part, table, tag
from sfumato.public.report.pictures import scale, with_error
from sfumato.releases.group_privacy import GroupPromise, group_privacy

if TYPE_CHECKING:
    from sfumato.releases.description import Description
    from sfumato.releases.file.manifest import Guarantee
    from sfumato.releases.release import Release

FAMILIES = (1, 2, 3, 4)
BELIEFS = (0.01, 0.1, 0.5)
DELTAS = tuple(Fraction(1, 10**place) for place in (1, 2, 3, 4, 6, 8))


@dataclass(frozen=True)
class Odds:
    """Largest probability that a guess between two equally likely tables is right, for a group of persons."""

    people: int
    right: float

    @property
    def of_hundred(self) -> int:
        """Right guesses of a hundred, at most, rounded."""
        return int(self.right * 100.0 + 0.5)


def odds_of(promised: Guarantee) -> tuple[Odds, ...]:
    """Largest chance to guess right, from even odds, whether one person, or a family of up to four, is in."""
    groups = group_privacy(promised.epsilon, delta=promised.delta, rho=promised.rho, people=FAMILIES)
    return tuple(Odds(one.people, min(_right(one), _of_rho(promised.rho, one.people))) for one in groups)


def belief_after(before: float, epsilon: float) -> float:
    """Largest posterior belief under pure epsilon, from a prior belief.

    >>> round(belief_after(0.5, 1.0), 3), round(belief_after(0.01, 1.0), 3)
    (0.731, 0.027)
    """
    factor = exp(min(epsilon, 700.0))
    return before * factor / (before * factor + 1.0 - before)


def _right(one: GroupPromise) -> float:
    factor = one.factor
    return min(1.0, (factor + one.delta) / (1.0 + factor))


def _of_rho(rho: Fraction | None, people: int) -> float:
    if rho is None:
        return 1.0
    together = rho * people**2
    pairs = [(exp(min(float(epsilon_for(together, delta)), 700.0)), float(delta)) for delta in DELTAS]
    by_delta = min((factor + delta) / (1.0 + factor) for factor, delta in pairs)
    distance = min(sqrt(float(together) / 2.0), sqrt(1.0 - exp(-float(together))))
    return min(1.0, by_delta, (1.0 + distance) / 2.0)


PARTS = {
    "promise": "What it promises",
    "reading": "What you may conclude",
    "attributes": "What it shows",
    "pairs": "What goes together",
    "findings": "What it holds",
    "trust": "How far to trust it",
    "limits": "What it leaves out",
    "ask": "Ask it yourself",
    "certificate": "Certificate",
}


def opening(release: Release, about: Description, odds: tuple[Odds, ...], parts: list[str]) -> Markup:
    """Head of the page: a sentence and six facts. parts: the anchors of what is on the page."""
    rows = _rows(release)
    counted = ["It counts ", tag("b", with_error(rows)), " rows. "] if rows is not None else []
    lede = tag(
        "p",
        counted,
        "The table behind it was measured once, with noise, and can now be asked for ever. How much that gives away "
        "about any one in it is bounded: a guess whether they are in the table is right at most about ",
        f"{odds[0].of_hundred} times of 100, where a coin is right 50 times.",
        class_="lede",
    )
    links = [tag("li", tag("a", PARTS[one], href=f"#{one}")) for one in parts]
    return tag(
        "header",
        tag("p", "A differentially private release", class_="over"),
        tag("h1", name_of(release.schema.dataset)),
        None if release.private else tag("p", NOT_PRIVATE, class_="warning"),
        lede,
        tag(
            "dl",
            [tag("div", tag("dt", name), tag("dd", value)) for name, value in _facts(release, about)],
            class_="facts",
        ),
        tag("nav", tag("ul", links), aria_label="Parts of this page"),
    )


def _facts(release: Release, about: Description) -> list[tuple[str, Markup | str]]:
    promised, schema = release.guarantee, release.schema
    epsilon = readable(promised.epsilon)
    amount = f"ε\u00a0{epsilon}" if len(epsilon) < 9 else f"ε\u00a0{float(promised.epsilon):.4g}"
    amount += f", δ\u00a0{float(promised.delta):.2g}".replace("e-0", "e-") if promised.delta else ""
    unit = schema.privacy_unit.column
    measures = f", {len(schema.measures)} measure{'s' * (len(schema.measures) != 1)}" if schema.measures else ""
    facts: list[tuple[str, Markup | str]] = [
        ("Privacy", amount),
        ("Protects", "any one row" if unit is None else tag("span", "any one ", name_of(unit))),
        ("Holds", f"{len(schema.attributes)} attribute{'s' * (len(schema.attributes) != 1)}{measures}"),
        ("Made by", name_of(release.mechanism)),
    ]
    known = [one for one in about.typical if one.half_width is not None]
    if known:
        middle = known[min(1, len(known) - 1)]
        facts.append(("Typical error", f"± {as_rows(middle.half_width or 0.0)} rows"))
    return facts


def _rows(release: Release) -> Estimate | None:
    try:
        cell = release.query("SELECT COUNT(*) FROM release").rows[0][0]
    except SfumatoError:
        return None
    return cell if isinstance(cell, Estimate) and cell.high < float("inf") else None


NOT_PRIVATE = "NOT PRIVATE: made with a testing generator, whose noise can be undone."
LITTLE = 0.95  # a promise under which guesses are right as often as this is called weak
WEAK = "That is a weak promise: an epsilon as large as this one leaves a determined guesser little to be wrong about."
TOGETHER = {1: "one alone", 2: "two", 3: "three", 4: "four"}


def promise(release: Release, odds: tuple[Odds, ...]) -> Markup:
    """Section on the guarantee: statement, odds for one, odds for families, and prior beliefs."""
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
    """Posterior beliefs from priors other than one half; under pure epsilon the bounds always hold."""
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
