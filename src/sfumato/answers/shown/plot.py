"""An answer as a picture: a bar or a point for each group, and its interval as an error bar."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sfumato.answers.estimate import Estimate
from sfumato.answers.shown.frames import needed
from sfumato.errors import QueryError
from sfumato.plain_text import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from sfumato.answers.result import Result

MOST_BARS = 30  # more groups than that are points
MOST_LABELS = 20  # written along the axis
MOST_LETTERS = 60  # of labels that stand side by side; more are slanted
MOST_SERIES = 10  # told apart by colour, and named


def plot_result(result: Result, column: str | None, ax: Axes | None) -> Axes:
    """Draw one number of every row. The first key runs along the axis; the second, if any, is told apart by colour."""
    name = _number(result, column)
    place = result.columns.index(name)
    keys = [at for at, other in enumerate(result.columns) if other not in result.estimated]
    if not result.rows:
        raise QueryError("the answer has no rows, so that there is nothing to draw")
    axes: Axes = needed("matplotlib.pyplot", "plot").subplots(layout="constrained")[1] if ax is None else ax
    labels = list(dict.fromkeys(_label(row[keys[0]]) if keys else "" for row in result.rows))
    series: dict[str, list[tuple[int, Estimate]]] = {}
    for row in result.rows:
        at = labels.index(_label(row[keys[0]])) if keys else 0
        found = row[place]
        assert isinstance(found, Estimate)  # noqa: S101 (a column of numbers)
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
    width = 0.8 / of
    known = [(at, found) for at, found in points if _bounded(found)]
    x = [at + (number - (of - 1) / 2) * width * (1.0 if bars else 0.5) for at, _ in known]
    values = [found.value for _, found in known]
    below = [max(found.value - found.low, 0.0) for _, found in known]
    above = [max(found.high - found.value, 0.0) for _, found in known]
    colour = f"C{number}"
    if bars:
        axes.bar(x, values, width * 0.94, color=colour, alpha=0.55, label=named or None)
        axes.errorbar(x, values, [below, above], fmt="none", ecolor="0.2", elinewidth=1.2, capsize=3)
        axes.axhline(0, color="0.4", linewidth=0.8)
    else:
        axes.errorbar(
            x, values, [below, above], fmt="o", markersize=3, color=colour, elinewidth=0.8, label=named or None
        )


def _bounded(found: Estimate) -> bool:
    """Whether there is an error bar to draw; a value without one would look exact."""
    return all(map(math.isfinite, (found.value, found.low, found.high)))


def _number(result: Result, column: str | None) -> str:
    numbers = [name for name in result.columns if name in result.estimated]
    if column is None and numbers:
        return numbers[0]
    if column not in numbers:
        listed = ", ".join(numbers) or "none"
        raise QueryError(f"{column or 'the answer'} is not a number with an error; those to draw are: {listed}")
    return column


def _label(key: object) -> str:
    if key is None:
        return "NULL"
    return str(key).lower() if isinstance(key, bool) else _safe(str(key))


def _safe(text: str) -> str:
    r"""Text of strangers as matplotlib shows it letter by letter: a dollar would begin a formula.

    >>> print(_safe("$x$"))
    \$x\$
    """
    return printable(text).replace("$", r"\$")
