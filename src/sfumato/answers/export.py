"""Export answers: Arrow, pandas and polars tables, plots with error bars.

Synthetic rows are exported here too, as an Arrow table that is marked in its metadata, since Arrow tables cannot be
subclassed. A notebook gets one HTML formatter, which renders marked tables and leaves others alone.
"""

from __future__ import annotations

import math
import sys
from datetime import date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from sfumato.errors import QueryError, SfumatoError
from sfumato.plain_text import html_block, html_table, html_text, printable
from sfumato.version import install_command

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes

    from sfumato.answers.results import Estimate, Result


LONGEST = 2**63  # whole numbers of a frame are shorter


def as_arrow(result: Result) -> pa.Table:
    """Arrow table of the records, with date and timestamp types."""
    import pyarrow as pa

    columns, moments = _columns(result), {"day": pa.date32(), "hour": pa.timestamp("s")}
    types = {name: _arrow_type(name, values, result) for name, values in columns}
    types |= {name: moments[kind] for name, kind in result.moments.items()}
    return pa.table({name: pa.array(values, types[name]) for name, values in columns})


def as_pandas(result: Result) -> pd.DataFrame:
    """pandas frame of the records, with datetime columns."""
    columns = dict(_columns(result))
    frame: pd.DataFrame = needed("pandas").DataFrame(columns)
    types: dict[str, Any] = {name: float for name, values in columns.items() if _all_unknown(name, values, result)}
    return frame.astype(types | dict.fromkeys(result.moments, "datetime64[s]"))


def as_polars(result: Result) -> pl.DataFrame:
    """polars frame of the records, by way of Arrow."""
    frame: pl.DataFrame = needed("polars").from_arrow(as_arrow(result))
    return frame


def needed(library: str, extra: str | None = None) -> Any:
    """Import an optional library, or raise with the command that installs it."""
    try:
        return import_module(library)
    except ModuleNotFoundError:
        package = library.partition(".")[0]
        command = f"pip install {package}" if extra is None else install_command(extra)
        raise SfumatoError(f"this needs {package}, which is not installed; run `{command}`") from None


def _columns(result: Result) -> list[tuple[str, list[Any]]]:
    """Columns of the records, by name, in the order of the headers."""
    records = result.typed_records()
    return [(name, _in_64_bits([record.get(name) for record in records])) for name in result.headers]


def _in_64_bits(values: list[Any]) -> list[Any]:
    """Convert a column with integers beyond 64 bits to floats, since data frames hold no longer integers."""
    whole = [value for value in values if isinstance(value, int)]
    if all(-LONGEST <= value < LONGEST for value in whole):
        return values
    return [float(value) if isinstance(value, int) else value for value in values]


def _all_unknown(name: str, values: list[Any], result: Result) -> bool:
    """Whether a numeric column holds only nulls, so that its type cannot be inferred."""
    is_key = name in result.columns and name not in result.estimated
    return not is_key and all(value is None for value in values)


def _arrow_type(name: str, values: list[Any], result: Result) -> Any:
    """Arrow type of a column where it cannot be inferred; None where the values tell."""
    import pyarrow as pa

    if _all_unknown(name, values, result):
        return pa.float64()
    return pa.string() if not values else None


MOST_BARS = 30  # more groups than that are points
MOST_LABELS = 20  # written along the axis
MOST_LETTERS = 60  # of labels that stand side by side; more are slanted
MOST_SERIES = 10  # told apart by colour, and named


def plot_result(result: Result, column: str | None, ax: Axes | None) -> Axes:
    """Plot one numeric column with error bars; the first key is the x axis, the others give the coloured series."""
    name = _number(result, column)
    index = result.columns.index(name)
    keys = [at for at, other in enumerate(result.columns) if other not in result.estimated]
    if not result.rows:
        raise QueryError("the answer has no rows, so that there is nothing to draw")
    axes: Axes = needed("matplotlib.pyplot", "plot").subplots(layout="constrained")[1] if ax is None else ax
    labels = list(dict.fromkeys(_label(row[keys[0]]) if keys else "" for row in result.rows))
    series: dict[str, list[tuple[int, Estimate]]] = {}
    for row in result.rows:
        at = labels.index(_label(row[keys[0]])) if keys else 0
        found = cast("Estimate", row[index])
        series.setdefault(", ".join(_label(row[key]) for key in keys[1:]), []).append((at, found))
    if len(series) > MOST_SERIES:
        raise QueryError(f"{len(series):,} series are too many to tell apart; group by fewer values")
    for number, (named, points) in enumerate(series.items()):
        _draw(axes, points, number, len(series), named, bars=len(labels) * len(series) <= MOST_BARS)
    every = math.ceil(len(labels) / MOST_LABELS)
    shown = labels[::every]
    slant: dict[str, Any] = {"rotation": 45, "ha": "right"} if sum(map(len, shown)) > MOST_LETTERS else {}
    axes.set_xticks(range(0, len(labels), every), shown, **slant)
    axes.set_xlabel(_safe(result.columns[keys[0]]) if keys else "")
    axes.set_ylabel(_safe(name))
    hidden = sum(not _bounded(found) for points in series.values() for _, found in points)
    said = f"error bars: {result.confidence * 100:.6g} % intervals" + (f"; {hidden:,} unknown" if hidden else "")
    axes.set_title(said, fontsize="small", loc="right", color="0.4")
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="0.9")
    if len(series) > 1:
        axes.legend(title=_safe(", ".join(result.columns[key] for key in keys[1:])), frameon=False)
    return axes


def _draw(axes: Axes, points: list[tuple[int, Estimate]], number: int, of: int, named: str, *, bars: bool) -> None:
    """Draw one series as bars, or as points where there are many, with its error bars."""
    width = 0.8 / of
    bounded = [(at, found) for at, found in points if _bounded(found)]
    x = [at + (number - (of - 1) / 2) * width * (1.0 if bars else 0.5) for at, _ in bounded]
    values = [found.value for _, found in bounded]
    below = [max(found.value - found.low, 0.0) for _, found in bounded]
    above = [max(found.high - found.value, 0.0) for _, found in bounded]
    colour = f"C{number}"
    if bars:
        axes.bar(x, values, width * 0.94, color=colour, alpha=0.55, label=named or None)
        axes.errorbar(x, values, [below, above], fmt="none", ecolor="0.2", elinewidth=1.2, capsize=3)
        axes.axhline(0, color="0.4", linewidth=0.8)
    else:
        axes.errorbar(
            x, values, [below, above], fmt="o", markersize=3, color=colour, elinewidth=0.8, label=named or None
        )


def _bounded(estimate: Estimate) -> bool:
    """Whether value and interval are finite; a value without an error bar would look exact."""
    return all(map(math.isfinite, (estimate.value, estimate.low, estimate.high)))


def _number(result: Result, column: str | None) -> str:
    """Name of the numeric column to plot, or a QueryError that lists the candidates."""
    numbers = [name for name in result.columns if name in result.estimated]
    if column is None and numbers:
        return numbers[0]
    if column not in numbers:
        listed = ", ".join(numbers) or "none"
        raise QueryError(f"{column or 'the answer'} is not a number with an error; those to draw are: {listed}")
    return column


def _label(key: object) -> str:
    """Axis label of a key."""
    if key is None:
        return "NULL"
    return str(key).lower() if isinstance(key, bool) else _safe(str(key))


def _safe(text: str) -> str:
    r"""Escape dollar signs, which would start a formula in matplotlib, and control characters.

    >>> print(_safe("$x$"))
    \$x\$
    """
    return printable(text).replace("$", r"\$")


MARK = b"sfumato.synthetic_rows_of"  # in the metadata of a table; its value is the dataset
MOST_SHOWN = 20  # rows


def as_synthetic(table: pa.Table, dataset: str) -> pa.Table:
    """Mark an Arrow table as synthetic rows of a dataset, and register its HTML formatter with a running notebook."""
    _tell_notebook()
    return table.replace_schema_metadata({MARK: dataset.encode("utf-8", "replace")})


def rows_as_html(table: pa.Table) -> str | None:
    """HTML of the first rows of a marked table; None for any other, which keeps the notebook's own rendering."""
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
    """Text of one cell of synthetic rows."""
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
    """Register the HTML formatter of marked tables in IPython, unless tables have a formatter already."""
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
