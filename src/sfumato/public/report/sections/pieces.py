"""What the parts of the page share: a part with its heading, tables, lists."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from sfumato.answers.estimate import Estimate
from sfumato.answers.result import Result
from sfumato.public.report.markup import Inside, Markup, name_of, tag, unbroken


def part(anchor: str, heading: str, about: Inside, *inside: Inside) -> Markup:
    """A part of the page. about: what a reader who looks at nothing else should know."""
    return tag(
        "section",
        tag("h2", heading),
        tag("p", unbroken(about) if isinstance(about, str) else about) if about else None,
        *inside,
        id=anchor,
    )


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = (), kind: str | None = None
) -> Markup:
    """A table. numbers: the columns that are right-aligned; all others may hold names."""

    def cells(name: str, row: Sequence[str]) -> list[Markup]:
        return [
            tag(
                name, text if place in numbers else name_of(text), class_="n" if place in numbers else None, scope=scope
            )
            for place, text in enumerate(row)
            for scope in [("col" if name == "th" else None)]
        ]

    head = tag("thead", tag("tr", cells("th", headers))) if any(headers) else None
    body = tag("tbody", [tag("tr", cells("td", row)) for row in rows])
    return tag("div", tag("table", head, body, class_=kind), class_="table", tabindex=0)


def result_table(result: Result, most: int) -> Markup:
    """An answer as a table, at most so many rows of it."""
    headers, rows = result.texts()
    first = result.rows[0] if result.rows else ()
    numbers, place = set[int](), 0
    for cell in first:
        wide = 3 + result.both if isinstance(cell, Estimate) else 1
        numbers |= set(range(place, place + wide)) if isinstance(cell, Estimate) else set()
        place += wide
    more = tag("p", f"and {len(rows) - most:,} more rows", class_="soft") if len(rows) > most else None
    return tag("div", table(headers, rows[:most], numbers), more)


def listed(items: Iterable[Inside]) -> Markup | None:
    found = [tag("li", item) for item in items]
    return tag("ul", found, class_="plain") if found else None


def folded(summary: str, *inside: Inside) -> Markup:
    """What is there for who wants it; no script opens it."""
    return tag("details", tag("summary", summary), *inside)
