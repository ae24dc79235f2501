"""A chart as a statement in SQL, and its answer as columns of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite, isnan
from typing import Any

from sfumato.answers.estimate import Estimate
from sfumato.answers.result import Result, when
from sfumato.serve.web.asked.amounts import ALIASES, aggregate, alias, check_amount
from sfumato.serve.web.asked.coarser import Bins
from sfumato.serve.web.asked.filters import where
from sfumato.serve.web.asked.questions import Chart
from sfumato.serve.web.refusals import Refusal
from sfumato.serve.web.shelf import Book


def chart_sql(chart: Chart, book: Book, bins: Mapping[str, Bins] | None = None) -> str:
    """The statement that a chart is the answer of; anybody may copy it. bins: of attributes shown in fewer groups."""
    check_amount(chart.amount, chart.of, book)
    for name in chart.by:
        if name not in book.spelled or name in book.release.schema.measures:
            raise Refusal("invalid", f"there is no attribute {name!r}", "the description of the release lists them")
    if len(set(chart.by)) < len(chart.by):
        raise Refusal("invalid", "the same attribute twice", "name two that differ")
    names = {name: alias(f"bins_{place}", book) for place, name in enumerate(chart.by, 1) if name in (bins or {})}
    shown = [
        f"{bins[name].sql(book.spelled[name])} AS {names[name]}" if bins and name in names else book.spelled[name]
        for name in chart.by
    ]
    keys = ", ".join(names.get(name, book.spelled[name]) for name in chart.by)
    number = f"{aggregate(chart.amount, chart.of, book)} AS {alias(ALIASES[chart.amount], book)}"
    table = f"FROM {book.release.schema.dataset}{where(chart.where, book)}"
    return f"SELECT {', '.join(shown)}, {number} {table} GROUP BY {keys}" if keys else f"SELECT {number} {table}"


def as_columns(result: Result, keys: int) -> dict[str, Any]:
    """The answer of a chart: labels of each row, and numbers by what they are; what is unknown is null."""
    numbers = [row[keys] for row in result.rows]
    found = [number for number in numbers if isinstance(number, Estimate)]
    columns: dict[str, Any] = {
        "keys": [list(row[:keys]) for row in result.rows],
        "values": [_plain(one, one.value) for one in found],
        "stderr": [_finite(one.stderr) for one in found],
        "low": [_plain(one, one.low) for one in found],
        "high": [_plain(one, one.high) for one in found],
    }
    if any(one.sure is not None for one in found):
        ends = [(one, one.sure or (one.low, one.high)) for one in found]
        columns["guaranteed_low"] = [_plain(one, low) for one, (low, _) in ends]
        columns["guaranteed_high"] = [_plain(one, high) for one, (_, high) in ends]
    return columns


def leading(result: Result, keys: int) -> dict[str, bool]:
    """Whether one group is surely the highest, and one surely the lowest: its interval lies beyond all others."""
    found = [row[keys] for row in result.rows]
    numbers = [one for one in found if isinstance(one, Estimate) and not isnan(one.value)]
    if len(numbers) < max(2, len(found)):
        return {"highest": False, "lowest": False}
    top, bottom = max(numbers, key=lambda one: one.low), min(numbers, key=lambda one: one.high)
    return {
        "highest": all(one.high < top.low for one in numbers if one is not top),
        "lowest": all(one.low > bottom.high for one in numbers if one is not bottom),
    }


def _plain(one: Estimate, number: float) -> float | str | None:
    return when(number, timed=one.timed) if one.dates else _finite(number)


def _finite(number: float) -> float | None:
    """A number to the digits that mean anything, which also makes an answer a third as long."""
    return float(f"{number:.10g}") if isfinite(number) else None
