"""Write the HTML report of a release file: post-processing only, from queries that any reader could ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

from sfumato.public.report.markup import Markup


def report(
    path: str | PathLike[str],
    *,
    table: str | None = None,
    confidence: float = 0.95,
    require_signature: str | PathLike[str] | None = None,
    most_cells: int | None = None,
    facts: Mapping[str, str] | None = None,
    step: Callable[[str], None] = lambda name: None,
) -> str:
    """Build the HTML page. table: of linked tables, the one that it is about. facts: for its certificate, what only
    the curator knows. step: told each step's name.
    """
    from sfumato.plain_text import printable
    from sfumato.public.certificate.record import certificate
    from sfumato.public.report.attributes import attributes, together
    from sfumato.public.report.distributions import distribution_of
    from sfumato.public.report.limits import ask, certified, findings, limits, trust
    from sfumato.public.report.markup import page
    from sfumato.public.report.opening import odds_of, opening, promise
    from sfumato.public.report.pairs import strongest_pairs
    from sfumato.public.report.reading import reading
    from sfumato.releases.contents.series import SeriesContent
    from sfumato.releases.linked import one_table
    from sfumato.releases.release import open_release
    from sfumato.schema.series import PERIOD

    release = open_release(Path(path), most_cells=most_cells, require_signature=require_signature)
    release = one_table(release, table)
    along, whole = PERIOD if isinstance(release.content, SeriesContent) else None, release
    release = replace(release, content=release.content.complete())
    about, odds = release.describe(confidence=confidence), odds_of(release.guarantee)
    step("asking for every attribute")
    by_time = whole.domain[along] if along else None  # which parts can tell that have fewer columns, or values
    shown = [(whole, by_time) if by_time and axis.name == along else (release, axis) for axis in release.domain]
    asked = [(axis, distribution_of(of, axis, confidence)) for of, axis in shown]
    found = {axis.name: one for axis, one in asked if one is not None and one.known}
    unknown = [axis for axis, _ in asked if axis.name not in found]
    step("looking for attributes that go together")
    told = dict(found)
    if along in told and release.content is not whole.content:
        told.pop(along)
        if (one := distribution_of(release, release.domain[along], confidence)) is not None and one.known:
            told[along] = one
    pairs = strongest_pairs(release, told, confidence)
    step("writing the page")
    proved = certificate(path, facts=facts, require_signature=require_signature, most_cells=most_cells)
    parts: dict[str, Markup | None] = {
        "promise": promise(release, odds),
        "reading": reading(list(found.values()), confidence),
        "findings": findings(release, about),
        "attributes": attributes(list(found.values()), unknown, confidence, along) if found else None,
        "pairs": together(pairs, confidence) if len(found) > 1 else None,
        "trust": trust(release, about),
        "limits": limits(release, about),
        "ask": ask(release, about, printable(Path(path).name)),
        "certificate": certified(proved),
    }
    there = {name: one for name, one in parts.items() if one is not None}
    head = opening(release, about, odds, list(there))
    title = f"{printable(release.schema.dataset)}: a differentially private release"
    return page(title, head, list(there.values()), proved.manifest.written_by)
