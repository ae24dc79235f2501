"""HTML and SVG, built so that text is always text: everything that is not Markup is escaped here, and nowhere else.

Names and labels are those of a stranger's file. Characters that hide or turn text around are spelled out first
(`plain_text.printable`), and letters that run from right to left are kept from turning what stands beside them.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from sfumato.plain_text import printable

VOID = frozenset({"meta", "br", "hr"})

Inside = str | int | float | None | Iterable["Inside"]


class Markup(str):
    """Text that is HTML already: made by `tag`, or written in this package."""

    __slots__ = ()


def text(of: object) -> Markup:
    """Any text, harmless.

    >>> text('<b>"x"</b>')
    '&lt;b&gt;&quot;x&quot;&lt;/b&gt;'
    """
    return of if isinstance(of, Markup) else Markup(escape(printable(str(of)), quote=True))


def tag(name: str, /, *inside: Inside, **attributes: object) -> Markup:
    """An element. Attributes: `class_` is class, underscores are hyphens, None is left out.

    >>> tag("a", "1 < 2", href="#x", class_="y", title=None)
    '<a href="#x" class="y">1 &lt; 2</a>'
    """
    written = "".join(_attribute(key, value) for key, value in attributes.items() if value is not None)
    if name in VOID:
        return Markup(f"<{name}{written}>")
    return Markup(f"<{name}{written}>{joined(*inside)}</{name}>")


def joined(*parts: Inside) -> Markup:
    """Parts one after the other; what is None is left out, and lists are taken apart."""
    return Markup("".join(_flat(parts)))


def code(lines: Iterable[str]) -> Markup:
    """Lines to be pasted; a line break inside of one is spelled out as in any text."""
    return tag("pre", tag("code", Markup("\n".join(map(text, lines)))))


def name_of(label: object) -> Markup:
    """A name or a label between words, whichever way it is written."""
    return tag("bdi", str(label))


def unbroken(words: str) -> str:
    """A sentence in which no line begins with a per cent sign."""
    return words.replace(" %", "\u00a0%")


def shortened(label: str, most: int) -> str:
    """A label that fits; the whole of it stands in a title or a table."""
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
    name = key.rstrip("_").replace("_", "-")
    shown = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else value
    return f' {name}="{text(shown)}"'
