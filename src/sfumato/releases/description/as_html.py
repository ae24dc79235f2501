"""A description as HTML, for notebooks. All words may be those of a stranger's file, so all of them are escaped."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sfumato.plain_text import html_block, html_table, html_text
from sfumato.schema.columns import columns_as_html

if TYPE_CHECKING:
    from sfumato.releases.description.description import Description


def description_as_html(about: Description) -> str:
    """Headings, tables and lists, with a style of their own and no script."""
    title = f"{about.schema.dataset}: {about.extent}, mechanism {about.mechanism}, {about.promise}"
    parts = [f"<p><b>{html_text(title)}</b></p>", f"<p>{html_text(about.guarantee.statement)}</p>"]
    parts.append(columns_as_html(about.schema))
    if about.counted:
        parts.append(f"<p>Counted by rule:</p>{_list(about.counted)}")
    parts.append(f"<p>Errors: {html_text(about.errors)}.</p>")
    if about.typical:
        parts.append(html_table(about.error_headers, about.typical_rows, left=[0]))
    if about.examples:
        parts.append(f"<p>Ask:</p>{_list(about.examples, 'code')}")
    return html_block(*parts)


def _list(texts: Iterable[str], tag: str = "span") -> str:
    return "<ul>" + "".join(f"<li><{tag}>{html_text(text)}</{tag}></li>" for text in texts) + "</ul>"
