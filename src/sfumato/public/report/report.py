"""Write the HTML report of a release file: post-processing only, from queries that any reader could ask.

Report sections on single attributes (picture, verdict, table) and on the most associated pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from sfumato.plain_text import printable
from sfumato.public.report.distributions import Cut, Distribution, ends
from sfumato.public.report.maps import Chart, choropleth, numbers_of, table_of
from sfumato.public.report.maps import card as map_card
from sfumato.public.report.markup import Markup, folded, name_of, part, said, table, tag, unbroken
from sfumato.public.report.pairs import Pair
from sfumato.public.report.pictures import bars, columns, heat_map, legend, line, percent, with_error
from sfumato.public.report.reading import reading
from sfumato.public.report.tongue import date_of, figure, many, share, speaking, t, tongue

if TYPE_CHECKING:
    from sfumato.domain import Axis
    from sfumato.schema import Schema


def report(
    path: str | PathLike[str],
    *,
    table: str | None = None,
    confidence: float = 0.95,
    require_signature: str | PathLike[str] | None = None,
    most_cells: int | None = None,
    facts: Mapping[str, str] | None = None,
    maps: Mapping[str, str | PathLike[str]] | None = None,
    language: str = "en",
    step: Callable[[str], None] = lambda name: None,
) -> str:
    """Build the HTML page. table: of linked tables, the one that it is about. facts: for its certificate, what only
    the curator knows. maps: files of public boundaries (GeoJSON), by the column whose values are their areas.
    language: en, de or fr. step: told each step's name.
    """
    with speaking(language):
        return _written(path, table, confidence, require_signature, most_cells, facts, maps, step)


def _written(
    path: str | PathLike[str],
    table: str | None,
    confidence: float,
    require_signature: str | PathLike[str] | None,
    most_cells: int | None,
    facts: Mapping[str, str] | None,
    maps: Mapping[str, str | PathLike[str]] | None,
    step: Callable[[str], None],
) -> str:
    """Page in the language that is spoken."""
    from sfumato.public.boundaries import boundaries_of
    from sfumato.public.certificate.record import certificate
    from sfumato.public.report.distributions import distribution_of
    from sfumato.public.report.maps import charts_of
    from sfumato.public.report.markup import page
    from sfumato.public.report.pairs import strongest_pairs
    from sfumato.public.report.sections import ask, certified, findings, limits, opening, promise, trust
    from sfumato.releases.contents.series import SeriesContent
    from sfumato.releases.group_privacy import odds_of
    from sfumato.releases.linked import one_table
    from sfumato.releases.release import open_release
    from sfumato.schema.series import PERIOD

    release = open_release(Path(path), most_cells=most_cells, require_signature=require_signature)
    release = one_table(release, table)
    tongue().names.update(map(printable, _names(release.schema)))
    areas = [boundaries_of(release.schema, column, file) for column, file in (maps or {}).items()]
    along, whole = PERIOD if isinstance(release.content, SeriesContent) else None, release
    release = replace(release, content=release.content.complete())
    about, promised = release.describe(confidence=confidence), release.guarantee
    odds = odds_of(promised.epsilon, delta=promised.delta, rho=promised.rho)
    step("asking for every attribute")
    by_time = whole.domain[along] if along else None  # which parts can tell that have fewer columns, or values
    shown = [(whole, by_time) if by_time and axis.name == along else (release, axis) for axis in release.domain]
    asked = [(axis, distribution_of(of, axis, confidence)) for of, axis in shown]
    found = {axis.name: one for axis, one in asked if one is not None and one.known}
    unknown = [axis for axis, _ in asked if axis.name not in found]
    drawn = charts_of(release, areas, confidence)
    step("looking for attributes that go together")
    told = dict(found)
    if along in told and release.content is not whole.content:
        told.pop(along)
        if (one := distribution_of(release, release.domain[along], confidence)) is not None and one.known:
            told[along] = one
    pairs = strongest_pairs(release, told, confidence)
    step("writing the page")
    proved = certificate(path, facts=facts, require_signature=require_signature, most_cells=most_cells)
    groups = {name: attribute for name, (attribute, _) in release.schema.group_columns.items()}
    parts: dict[str, Markup | None] = {
        "promise": promise(release, odds),
        "reading": None if release.schema.invariants else reading(list(found.values()), confidence),
        "findings": findings(release, about),
        "attributes": (
            attributes(list(found.values()), unknown, confidence, along, drawn, groups) if found or drawn else None
        ),
        "pairs": together(pairs, confidence) if len(found) > 1 else None,
        "trust": trust(release, about),
        "limits": limits(release, about),
        "ask": ask(release, about, printable(Path(path).name)),
        "certificate": certified(proved),
    }
    there = {name: one for name, one in parts.items() if one is not None}
    complete = release.content
    periods = complete.compared_with(whole.content) if isinstance(complete, SeriesContent) else None
    head = opening(release, about, odds, list(there), periods)
    title = t("{0}: a differentially private release", printable(release.schema.dataset))
    return page(title, head, list(there.values()), proved.manifest.written_by)


def _names(schema: Schema) -> Iterator[str]:
    """Names of columns, which are the same in every language."""
    from sfumato.schema.columns import columns_of

    yield from (one.name for one in columns_of(schema))
    yield from (name for name in (schema.privacy_unit.column, schema.weight and schema.weight.column) if name)


# -- attributes

MOST_BARS = 24  # values without an order that are listed under each other
FEW = 7  # periods that are missing, and named

KINDS = {"integer": "whole numbers in {0} steps", "number": "numbers in {0} steps", "date": "dates in {0} steps"}


def attributes(
    found: Sequence[Distribution],
    unknown: Sequence[Axis],
    confidence: float,
    along: str | None = None,
    maps: Mapping[str, Chart] | None = None,
    groups: Mapping[str, str] | None = None,
) -> Markup:
    """Section with a card for each attribute; unknown: attributes of which the release has no counts.

    along: the time of a series, drawn as a line. maps: by column. groups: the attribute behind each column of groups.
    """
    maps = maps or {}
    sure = share(confidence)
    about = t(
        "How many rows have each value. A bar is solid up to the low end of the number's {0} interval and dissolves "
        "towards the high end: somewhere there the truth is.",
        sure,
    )
    if any(one.axis.name == along for one in found):
        about += " " + t("Over time, a line runs in the band of the {0} intervals.", sure)
    if maps:
        about += " " + t(
            "On a map the colour is stronger where there are more rows, and areas lost in the noise are hatched."
        )
    cards = [
        _card(f"a{place}", one, sure, one.axis.name == along, maps.get(one.axis.name))
        for place, one in enumerate(found)
    ]
    alone = [chart for column, chart in maps.items() if column not in {one.axis.name for one in found}]
    cards += [map_card(f"m{place}", one, sure, (groups or {}).get(one.column)) for place, one in enumerate(alone)]
    left = None
    if unknown:
        names = [joined for axis in unknown for joined in (name_of(axis.name), ", ")][:-1]
        left = tag("p", said("Not known from this release by themselves: {0}.", names), class_="soft")
    return part("attributes", t("What it shows"), about, tag("div", cards, class_="cards"), left)


def _card(name: str, one: Distribution, sure: str, over_time: bool, chart: Chart | None) -> Markup:
    axis, labels = one.axis, one.cut.labels
    listed = not axis.ordered and len(labels) <= MOST_BARS
    title = t("Rows by {0}", one.cut.title)
    short = one.cut.cut_short
    if over_time and axis.ordered:
        steps = [int(cells[0]) if one.cut.whole else place for place, cells in enumerate(one.cut.groups)]
        drawn = line(name, title, labels, one.counts, steps)
    elif listed:
        drawn = bars(name, title, labels, one.counts)
    else:
        drawn = columns(name, title, labels, one.counts, _marks(one), pale=short)
    kind = (
        many(axis.size, "1 value", "{0} values") if axis.values else t(KINDS.get(axis.kind, "{0}"), figure(axis.size))
    )
    kind += t(", in {0}", printable(one.cut.unit)) if one.cut.unit else ""
    if over_time:
        gaps = [date_of(str(axis.label(cell))) for cell in axis.gaps]
        kind = many(len(axis.edges) - 1 - len(gaps), "1 period", "{0} periods")
        kind += t(", without {0}", ", ".join(gaps)) if 0 < len(gaps) < FEW else ""
    if not one.cut.whole:
        kind += t(", drawn in {0} groups", len(labels))
    return tag(
        "article",
        tag("h3", name_of(one.cut.title)),
        tag("p", kind, class_="kind"),
        described(one.cut),
        choropleth(f"{name}-map", t("Map of rows by {0}", one.cut.title), chart) if chart is not None else None,
        drawn,
        tag("p", unbroken(one.verdict), class_="verdict"),
        tag("p", _shorter(one), class_="kind") if short else None,
        _grades(one),
        folded(t("All numbers"), table_of(one.cut.unit or t("value"), zip(labels, one.counts, strict=True), sure)),
        numbers_of(chart, one.cut.title, sure, t("All areas")) if chart is not None and not one.cut.whole else None,
        class_="card",
    )


def described(of: Cut) -> Markup | None:
    """Description of an attribute in the schema, and its column name where the page shows a title instead."""
    about = of.about.description if of.about is not None else None
    name = said("Column {0}.", tag("code", name_of(of.axis.name))) if of.title != of.axis.name else None
    return tag("p", name, " " if name and about else None, about, class_="soft") if name or about else None


def _shorter(one: Distribution) -> str:
    """Sentence on the columns that span less than the others."""
    listed = ", ".join(t("{0} has {1}", one.cut.labels[place], part) for place, part in one.cut.cut_short.items())
    return t("Paler, because shorter than the others: {0}. Rows from beyond the bounds count there, too.", listed)


def _marks(one: Distribution) -> list[str] | None:
    """Axis labels below columns that span several values or an interval: the first of each, and the last of all."""
    axis, labels = one.axis, one.cut.labels
    if axis.kind != "number" and axis.ordered and not one.cut.whole:  # a span of days is too long to stand there
        spans = [ends(axis, int(cells[0]), int(cells[-1])) for cells in one.cut.groups[: len(labels) - axis.missing]]
        return [*(first for first, _ in spans[:-1]), spans[-1][1 - axis.missing], *labels[len(spans) :]]
    if axis.kind != "number" or axis.missing:
        return None
    spans = [ends(axis, int(cells[0]), int(cells[-1])) for cells in one.cut.groups]
    return [*(first for first, _ in spans[:-1]), spans[-1][1]]


def _grades(one: Distribution) -> Markup:
    """Thin SVG bar of the shares of counts known to within a tenth, to within a half, and worse."""
    parts, at = [], 0.0
    for number, kind in zip(one.grades, ("close", "rough", "lost"), strict=True):
        share = number / len(one.counts)
        parts.append(tag("rect", x=percent(at), y=0, width=percent(share), height=4, class_=kind))
        at += share
    return tag("svg", parts, width="100%", height=4, aria_hidden="true", class_="grades")


def together(pairs: Sequence[Pair], confidence: float) -> Markup:
    """Section with a picture for each pair, the strongest first."""
    if not pairs:
        nothing = t(
            "No two attributes depend on each other so much that the noise of this release would let it be seen."
        )
        return part("pairs", t("What goes together"), nothing)
    about = t(
        "The pairs of attributes that depend on each other most, as far as the noise lets it be seen. Colour tells "
        "where there are more or fewer rows than if the two had nothing to do with each other; what noise could have "
        "made fades."
    )
    cards = [_pair_card(f"p{place}", one, confidence) for place, one in enumerate(pairs)]
    return part("pairs", t("What goes together"), about, legend(), tag("div", cards, class_="cards"))


def _pair_card(name: str, pair: Pair, confidence: float) -> Markup:
    clear, every = int((pair.certainty > 1.0).sum()), len(pair.counts)
    usual = pair.expected.ravel()
    rows = [
        [
            pair.rows.labels[place // pair.columns.size],
            pair.columns.labels[place % pair.columns.size],
            with_error(one),
            figure(usual[place]),
        ]
        for place, one in enumerate(pair.counts)
    ]
    verdict = t(
        "{0} of {1} cells hold more or fewer rows than noise explains: {2} sure, of all {1} together.",
        clear,
        every,
        share(confidence),
    )
    names = (pair.rows.title, pair.columns.title)
    headers = [*names, t("rows, ± half the interval"), t("expected")]
    return tag(
        "article",
        tag("h3", said("{0} and {1}", *map(name_of, names))),
        tag(
            "p",
            t(
                "{0} dependence: {1} on a scale from 0 to 1 (Cramér's V, noise taken off)",
                t(pair.words),
                figure(pair.strength, ".2f"),
            ),
            class_="kind",
        ),
        heat_map(name, pair),
        tag("p", unbroken(verdict), class_="verdict"),
        folded(t("All numbers"), table(headers, rows, numbers=(2, 3))),
        class_="card",
    )
