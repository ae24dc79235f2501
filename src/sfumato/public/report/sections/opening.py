"""The head of the page: what this is, in a sentence and six facts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.answers.estimate import Estimate
from sfumato.errors import SfumatoError
from sfumato.kernel.budget import readable
from sfumato.plain_text import as_rows
from sfumato.public.report.markup import Markup, name_of, tag
from sfumato.public.report.pictures.drawing import with_error

if TYPE_CHECKING:
    from sfumato.public.report.odds import Odds
    from sfumato.releases.description.description import Description
    from sfumato.releases.release import Release

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
    """parts: the anchors of what is on the page."""
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
        None if release.private else _not_private(),
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


def _not_private() -> Markup:
    return tag("p", "NOT PRIVATE: made with a testing generator, whose noise can be undone.", class_="warning")
