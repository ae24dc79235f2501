"""Build the report's HTML and SVG with all text escaped, its shared elements, and the whole page.

Everything that is not Markup is escaped here, and nowhere else. Names and labels come from a stranger's file:
characters that hide or reorder text are spelled out first (`plain_text.printable`), and right-to-left letters are
isolated from what stands beside them.

The page is one file: no network, no script, one style sheet that its own content security policy names by hash.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Collection, Iterable, Sequence
from html import escape
from importlib.resources import files

from sfumato.answers.results import Estimate, Result
from sfumato.plain_text import printable
from sfumato.public.report.tongue import figures, many, retold, t, template, tongue
from sfumato.version import __version__

VOID = frozenset({"meta", "br", "hr"})

Inside = str | int | float | None | Iterable["Inside"]


class Markup(str):
    """Text that is HTML already: made by `tag`, or written in this package."""

    __slots__ = ()


def text(of: object) -> Markup:
    """Escape any text.

    >>> text('<b>"x"</b>')
    '&lt;b&gt;&quot;x&quot;&lt;/b&gt;'
    """
    if isinstance(of, Markup):
        return of
    shown = str(of)
    return Markup(shown if shown.isascii() and shown.isalnum() else escape(printable(shown), quote=True))


def tag(name: str, /, *inside: Inside, **attributes: object) -> Markup:
    """Build an element. Attributes: `class_` is class, underscores are hyphens, None is left out.

    >>> tag("a", "1 < 2", href="#x", class_="y", title=None)
    '<a href="#x" class="y">1 &lt; 2</a>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*inside)}</{name}>")


def joined(*parts: Inside) -> Markup:
    """Concatenate parts; None is left out, and lists are flattened."""
    return Markup("".join(_flat(parts)))


def said(message: str, *parts: Inside) -> Markup:
    """Text in the language of the page, with markup in its places {0}, {1}.

    >>> said("{0} < {1}", tag("b", "a"), 2)
    '<b>a</b> &lt; 2'
    """
    pieces = re.split(r"\{(\d)\}", template(message))
    return joined([parts[int(piece)] if place % 2 else piece for place, piece in enumerate(pieces)])


def told(sentence: str) -> Inside:
    """Translate a sentence from another part of Sfumato; without a translation it stays English and is marked so."""
    if (own := retold(sentence)) is not None:
        return own
    tongue().english.append(sentence)
    return tag("span", sentence, lang="en")


def code(lines: Iterable[str]) -> Markup:
    """Block of lines to be pasted; a line break inside of one is spelled out as in any text."""
    return tag("pre", tag("code", Markup("\n".join(map(text, lines)))))


def name_of(label: object) -> Markup:
    """Name or label inside a sentence, isolated whichever way it is written."""
    return tag("bdi", label if isinstance(label, Markup) else str(label))


def unbroken(words: str) -> str:
    """Sentence in which no line begins with a per cent sign."""
    return words.replace(" %", "\u00a0%")


def shortened(label: str, most: int) -> str:
    """Shorten a label to fit; the whole of it stands in a title or a table."""
    shown = printable(label)
    return shown if len(shown) <= most else shown[: most - 1].rstrip() + "…"


def _flat(parts: Iterable[Inside]) -> Iterable[str]:
    for part in parts:
        if part is None:
            continue
        if isinstance(part, str | int | float):
            yield text(part)
        else:
            yield from _flat(part)


def _attribute(key: str, value: object) -> str:
    name = key.rstrip("_").replace("_", "-") if "_" in key else key
    if isinstance(value, float):
        return f' {name}="{f"{value:.2f}".rstrip("0").rstrip(".")}"'
    return f' {name}="{text(value)}"'


def part(anchor: str, heading: str, about: Inside, *inside: Inside) -> Markup:
    """Section of the page. about: its message in a sentence or two."""
    return tag(
        "section",
        tag("h2", heading),
        tag("p", about if isinstance(about, Markup) or not isinstance(about, str) else unbroken(about))
        if about
        else None,
        *inside,
        id=anchor,
    )


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], numbers: Collection[int] = (), kind: str | None = None
) -> Markup:
    """Table. numbers: the columns that are right-aligned; all others may hold names."""

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
    """Table of an answer, at most so many rows of it."""
    headers, rows = result.texts()
    first = result.rows[0] if result.rows else ()
    numbers, beside, place = set[int](), set[int](), 0
    for cell in first:
        wide = 3 + result.both if isinstance(cell, Estimate) else 1
        numbers |= set(range(place, place + wide)) if isinstance(cell, Estimate) else set()
        beside |= set(range(place + 1, place + wide))
        place += wide
    left = len(rows) - most
    more = tag("p", many(left, "and 1 more row", "and {0} more rows"), class_="soft") if left > 0 else None
    shown = [[_number(cell) if place in numbers else cell for place, cell in enumerate(row)] for row in rows[:most]]
    headers = [_beside(header) if place in beside else header for place, header in enumerate(headers)]
    return tag("div", table(headers, shown, numbers), more)


def _beside(header: str) -> str:
    """Translate the header of a column of standard errors or of intervals."""
    return t("{0} interval", figures(header.removesuffix(" interval"))) if header.endswith("interval") else t(header)


def _number(cell: str) -> str:
    """Number or interval of an answer as the language writes it."""
    ends = cell.split(" to ")
    return t("{0} to {1}", *map(_number, ends)) if len(ends) == 2 else t(figures(cell))


def listed(items: Iterable[Inside]) -> Markup | None:
    found = [tag("li", item) for item in items]
    return tag("ul", found, class_="plain") if found else None


def folded(summary: str, *inside: Inside) -> Markup:
    """Collapsible details, which need no script."""
    return tag("details", tag("summary", summary), *inside)


def page(title: str, head: Markup, parts: Sequence[Markup | None], made_by: str) -> str:
    """The whole HTML page, which works offline and loads nothing."""
    style = files("sfumato.public.report").joinpath("style.css").read_text(encoding="utf-8")
    known = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{known}'; base-uri 'none'; form-action 'none'"
    heads = [
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="generator", content=f"sfumato {__version__}"),
        tag("title", title),
        Markup(f"<style>{style}</style>"),
    ]
    made = t(
        "Made from the release alone, which {0} wrote, by sfumato {1}: no private data and no budget were needed. This "
        "page runs no script and asks no server.",
        made_by,
        __version__,
    )
    kept = t("Some sentences come from the release in English, and are left as they are.") if tongue().english else None
    body = [fades(), head, tag("main", parts), tag("footer", tag("p", made, " " * bool(kept), kept))]
    attributes = {"lang": tongue().code, "dir": "ltr"}
    return f"<!doctype html>\n{tag('html', tag('head', heads), tag('body', joined(body)), **attributes)}\n"


def fades() -> Markup:
    """SVG gradients from solid to transparent, to the right and upwards; every picture uses these."""
    stops = [(0.0, 1.0), (1.0, 0.06)]

    def fade(name: str, **ends: int) -> Markup:
        marks = [tag("stop", offset=at, stop_opacity=much, class_="fading") for at, much in stops]
        return tag("linearGradient", marks, id=name, **ends)

    inside = [fade("fade", x1=0, y1=0, x2=1, y2=0), fade("fade-up", x1=0, y1=1, x2=0, y2=0)]
    return tag("svg", tag("defs", inside), class_="defs", aria_hidden="true", width=0, height=0)
