"""Synthetic rows in a notebook: the first of them, how many there are, and that nobody is among them.

Rows are an Arrow table, which every library takes and which cannot be given a look of its own. So they are marked in
the table's metadata, and a notebook is told once how marked tables look; others look as they did.
"""

from __future__ import annotations

import sys
from datetime import date, datetime
from typing import TYPE_CHECKING

from sfumato.plain_text import html_block, html_table, html_text

if TYPE_CHECKING:
    import pyarrow as pa

MARK = b"sfumato.synthetic_rows_of"  # in the metadata of a table; its value is the dataset
MOST_SHOWN = 20  # rows


def as_synthetic(table: pa.Table, dataset: str) -> pa.Table:
    """The table, marked; where a notebook runs it will show marked tables."""
    _tell_notebook()
    return table.replace_schema_metadata({MARK: dataset.encode("utf-8", "replace")})


def rows_as_html(table: pa.Table) -> str | None:
    """The first rows of a marked table; None for any other, which a notebook then shows in its own way."""
    import pyarrow as pa

    dataset = (table.schema.metadata or {}).get(MARK)
    if dataset is None:
        return None
    kinds = table.schema.types
    left = [place for place, kind in enumerate(kinds) if not (pa.types.is_integer(kind) or pa.types.is_floating(kind))]
    first = table.slice(0, MOST_SHOWN).to_pylist()
    rows = [[_text(row[name]) for name in table.column_names] for row in first]
    shown = f"the first {MOST_SHOWN} of " if table.num_rows > MOST_SHOWN else ""
    words = f"{shown}{table.num_rows:,} synthetic rows of {dataset.decode('utf-8', 'replace')}: drawn, nobody's own"
    return html_block(html_table(table.column_names, rows, left), f"<p><small>{html_text(words)}</small></p>")


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, date):
        return value.isoformat(" ") if isinstance(value, datetime) else value.isoformat()
    return str(value)


def _tell_notebook() -> None:
    """Where IPython runs, have it show marked tables, unless somebody told it already how tables look."""
    running = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    formatter = getattr(running, "display_formatter", None)
    if formatter is None:
        return
    import pyarrow as pa

    html = formatter.formatters["text/html"]
    try:
        html.lookup_by_type(pa.Table)
    except KeyError:
        html.for_type(pa.Table, rows_as_html)
