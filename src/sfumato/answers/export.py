"""Export answers: Arrow, pandas and polars tables, plots with error bars; synthetic rows as a marked Arrow table.

Arrow tables cannot be subclassed, so synthetic rows are marked in the table's metadata. A notebook gets one HTML
formatter, which renders marked tables and leaves others alone.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Sequence
from datetime import date, datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from sfumato.errors import QueryError, SfumatoError
from sfumato.plain_text import html_block, html_table, html_text, printable
from sfumato.version import install_command

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa
    from matplotlib.axes import Axes


LONGEST = 2**63  # whole numbers of a frame are shorter


class Frame(NamedTuple):
    """Columns of an answer by name; which of them are keys; time unit, "day" or "hour", of those that hold dates."""

    columns: dict[str, list[Any]]
    keys: frozenset[str]
    moments: dict[str, str]

    @property
    def unknown(self) -> set[str]:
        """Numeric columns that hold only nulls, so that their type cannot be inferred."""
        numbers = {name: values for name, values in self.columns.items() if name not in self.keys}
        return {name for name, values in numbers.items() if all(value is None for value in values)}

    def to_arrow(self) -> pa.Table:
        """Arrow table, with date and timestamp types."""
        import pyarrow as pa

        moments = {"day": pa.date32(), "hour": pa.timestamp("s")}
        types = {name: pa.string() for name, values in self.columns.items() if not values}
        types |= dict.fromkeys(self.unknown, pa.float64()) | {name: moments[by] for name, by in self.moments.items()}
        return pa.table({name: pa.array(values, types.get(name)) for name, values in self.columns.items()})

    def to_pandas(self) -> pd.DataFrame:
        """pandas frame, with datetime columns."""
        frame: pd.DataFrame = needed("pandas").DataFrame(self.columns)
        types: dict[str, Any] = dict.fromkeys(self.unknown, float)
        return frame.astype(types | dict.fromkeys(self.moments, "datetime64[s]"))

    def to_polars(self) -> pl.DataFrame:
        """polars frame, by way of Arrow."""
        frame: pl.DataFrame = needed("polars").from_arrow(self.to_arrow())
        return frame


def needed(library: str, extra: str | None = None) -> Any:
    """Import an optional library, or raise with the command that installs it."""
    try:
        return import_module(library)
    except ModuleNotFoundError:
        package = library.partition(".")[0]
        command = f"pip install {package}" if extra is None else install_command(extra)
        raise SfumatoError(f"this needs {package}, which is not installed; run `{command}`") from None


def in_64_bits(values: list[Any]) -> list[Any]:
    """Convert a column with integers beyond 64 bits to floats, since data frames hold no longer integers."""
    whole = [value for value in values if isinstance(value, int)]
    if all(-LONGEST <= value < LONGEST for value in whole):
        return values
    return [float(value) if isinstance(value, int) else value for value in values]


MOST_BARS = 30  # more groups than that are points
MOST_LABELS = 20  # written along the axis
MOST_LETTERS = 60  # of labels that stand side by side; more are slanted
MOST_SERIES = 10  # told apart by colour, and named
MOST_PANELS = 48  # small pictures beside and under each other
PANEL = (2.6, 2.0)  # inches of one


class Point(NamedTuple):
    """Number to draw: its place along the axis, its value and its interval."""

    at: int
    value: float
    low: float
    high: float

    @property
    def bounded(self) -> bool:
        """Whether value and interval are finite; a value without an error bar would look exact."""
        return all(map(math.isfinite, self))


class Drawing(NamedTuple):
    """Points of a picture by panel and series. keys: names of the keys along the axis, of series and of panels."""

    labels: list[str]
    keys: tuple[str, str, str]
    panels: dict[str, dict[str, list[Point]]]

    @property
    def series(self) -> list[str]:
        """Names of the series of all panels, in order."""
        return list(dict.fromkeys(name for panel in self.panels.values() for name in panel))

    @property
    def crowded(self) -> bool:
        """Whether series lie on each other: too many for colours, or more than two in points."""
        many = len(self.series)
        return many > MOST_SERIES or (many > 2 and len(self.labels) * many > MOST_BARS)


def plot_result(
    columns: Sequence[str],
    rows: Sequence[Sequence[Any]],
    estimated: Collection[str],
    confidence: float,
    column: str | None,
    ax: Axes | None,
    panels: str | None = None,
) -> Axes:
    """Plot one column of estimates with error bars; the first key is the x axis, the others give series or panels."""
    numbers = [name for name in columns if name in estimated]
    name = numbers[0] if column is None and numbers else column
    if name is None or name not in numbers:
        listed = ", ".join(numbers) or "none"
        raise QueryError(f"{column or 'the answer'} is not a number with an error; those to draw are: {listed}")
    if not rows:
        raise QueryError("the answer has no rows, so that there is nothing to draw")
    keys = [at for at, other in enumerate(columns) if other not in estimated]
    split = [columns[key] for key in keys[1:]]
    if panels is not None and (panels not in split or ax is not None):
        remedy = (
            "leave ax out, for they need a picture of their own" if ax else f"choose of {', '.join(split) or 'none'}"
        )
        raise QueryError(f"there can be no panels by {panels}: {remedy}")
    number = columns.index(name)
    apart = [key for key in keys[1:] if columns[key] == panels]
    drawing = _points(columns, rows, keys, number, apart)
    if panels is None and ax is None and drawing.crowded:
        drawing = _points(columns, rows, keys, number, keys[-1:])
    if len(drawing.series) > MOST_SERIES or len(drawing.panels) > MOST_PANELS:
        many = max(len(drawing.series), len(drawing.panels))
        raise QueryError(f"{many:,} series are too many to tell apart; group by fewer values")
    grid = _axes(len(drawing.panels)) if ax is None else [ax]
    for axes, (title, series) in zip(grid, drawing.panels.items(), strict=True):
        _panel(axes, series, drawing, title)
    points = [point for panel in drawing.panels.values() for series in panel.values() for point in series]
    hidden = sum(not point.bounded for point in points)
    said = f"error bars: {confidence * 100:.6g} % intervals" + (f"; {hidden:,} unknown" if hidden else "")
    _words(grid, drawing, _safe(name), said)
    return grid[0]


def _points(
    columns: Sequence[str], rows: Sequence[Sequence[Any]], keys: list[int], number: int, apart: list[int]
) -> Drawing:
    """Sort the rows of an answer into panels and series. apart: keys that have a panel for each of their values."""
    along, colours = keys[:1], [key for key in keys[1:] if key not in apart]
    places: dict[str, int] = {}
    panels: dict[str, dict[str, list[Point]]] = {}
    for row in rows:
        label, named, panel = (", ".join(_label(row[key]) for key in some) for some in (along, colours, apart))
        one = row[number]
        point = Point(places.setdefault(label, len(places)), one.value, one.low, one.high)
        panels.setdefault(panel, {}).setdefault(named, []).append(point)
    named_keys = (_safe(", ".join(columns[key] for key in some)) for some in (along, colours, apart))
    return Drawing(list(places), tuple(named_keys), panels)  # type: ignore[arg-type]


def _axes(panels: int) -> list[Axes]:
    """Axes of a new picture: one, or small ones with the same scales."""
    plt = needed("matplotlib.pyplot", "plot")
    if panels == 1:
        return [plt.subplots(layout="constrained")[1]]
    across = min(panels, math.ceil(math.sqrt(panels)))
    down = math.ceil(panels / across)
    size = (PANEL[0] * across + 0.6, PANEL[1] * down + 0.6)
    _, grid = plt.subplots(down, across, figsize=size, sharex=True, sharey=True, layout="constrained", squeeze=False)
    every = list(grid.flat)
    for unused in every[panels:]:
        unused.set_axis_off()
    for lowest in every[max(0, panels - across) : panels]:  # also those above an unused place
        lowest.tick_params(labelbottom=True)
    return every[:panels]


def _panel(axes: Axes, series: dict[str, list[Point]], drawing: Drawing, title: str) -> None:
    """Draw the series of one panel; a series has the same colour in each."""
    names, labels, small = drawing.series, drawing.labels, len(drawing.panels) > 1
    for named, points in series.items():
        _draw(axes, points, names.index(named), len(names), named, bars=len(labels) * len(names) <= MOST_BARS)
    every = math.ceil(len(labels) / (MOST_LABELS if not small else MOST_LABELS // 4))
    shown = labels[::every]
    slant: dict[str, Any] = {"rotation": 45, "ha": "right"}
    axes.set_xticks(
        range(0, len(labels), every),
        shown,
        **(slant if sum(map(len, shown)) > (MOST_LETTERS if not small else MOST_LETTERS // 4) else {}),
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_axisbelow(True)
    axes.grid(axis="y", color="0.9")
    if small:
        axes.set_title(title, fontsize="small", loc="left")


def _words(grid: list[Axes], drawing: Drawing, name: str, said: str) -> None:
    """Write the names of axes, of series and of panels, and the kind of interval."""
    along, colours, apart = drawing.keys
    first = grid[0]
    if len(grid) == 1:
        first.set_xlabel(along)
        first.set_ylabel(name)
        first.set_title(said, fontsize="small", loc="right", color="0.4")
    else:
        figure: Any = first.figure
        figure.supxlabel(along, fontsize="medium")
        figure.supylabel(name, fontsize="medium")
        figure.suptitle(f"a panel for each {apart}; {said}", fontsize="small", color="0.4")
    if len(drawing.series) > 1:
        first.legend(title=colours, frameon=False)


def _draw(axes: Axes, points: list[Point], number: int, of: int, named: str, *, bars: bool) -> None:
    """Draw one series as bars, or as points where there are many, with its error bars."""
    width, bounded = 0.8 / of, [point for point in points if point.bounded]
    x = [point.at + (number - (of - 1) / 2) * width * (1.0 if bars else 0.5) for point in bounded]
    values = [point.value for point in bounded]
    below = [max(point.value - point.low, 0.0) for point in bounded]
    above = [max(point.high - point.value, 0.0) for point in bounded]
    colour = f"C{number}"
    if bars:
        axes.bar(x, values, width * 0.94, color=colour, alpha=0.55, label=named or None)
        axes.errorbar(x, values, [below, above], fmt="none", ecolor="0.2", elinewidth=1.2, capsize=3)
        axes.axhline(0, color="0.4", linewidth=0.8)
    else:
        axes.errorbar(
            x, values, [below, above], fmt="o", markersize=3, color=colour, elinewidth=0.8, label=named or None
        )


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
