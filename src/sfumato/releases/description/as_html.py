"""A description as HTML, for notebooks. All words may be those of a stranger's file, so all of them are escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from sfumato.plain_text import printable
from sfumato.schema.columns import columns_as_html

if TYPE_CHECKING:
    from sfumato.releases.description.description import Description


def description_as_html(about: Description) -> str:
    """Headings, tables and lists; no style, no script."""
    title = f"{about.schema.dataset}: {about.extent}, mechanism {about.mechanism}, {about.promise}"
    parts = [f"<p><b>{_safe(title)}</b></p>", f"<p>{_safe(about.guarantee.statement)}</p>"]
    parts.append(columns_as_html(about.schema))
    if about.counted:
        parts.append(f"<p>Counted by rule:</p>{_list(about.counted)}")
    parts.append(f"<p>Errors: {_safe(about.errors)}.</p>")
    if about.typical:
        parts.append(_table(about.error_headers, about.typical_rows))
    if about.examples:
        parts.append(f"<p>Ask:</p>{_list(about.examples, 'code')}")
    return "".join(parts)


def _table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{_safe(header)}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _list(texts: Iterable[str], tag: str = "span") -> str:
    return "<ul>" + "".join(f"<li><{tag}>{_safe(text)}</{tag}></li>" for text in texts) + "</ul>"


def _safe(text: str) -> str:
    return escape(printable(text))
