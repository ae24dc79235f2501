"""One answer beside another: numbers of a table that was made to agree, error bars of what was measured.

A table that was made non-negative and whole agrees with itself, but how far it is off cannot be told from the noise
alone. What was measured can, for every table. So a number is the table's, and its interval is the measurement's,
stretched to hold the number where that lies outside. The standard error adds what the two are apart.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import hypot, isnan

from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.answers.result import Cell, Result
from sfumato.sql import Key, Select

Ask = Callable[[Select], Result]


def answer_beside(select: Select, shown: Ask, measured: Ask) -> Result:
    """The numbers and the order of one answer with the intervals of the other; groups are told by their keys."""
    keys = tuple(Key(f"key {name}", name) for name in select.group_by)
    asked = replace(select, columns=(*select.columns, *keys))
    every = replace(asked, order_by=(), limit=None, offset=0)
    found, bars = shown(asked), measured(every)
    width = len(select.columns)
    by_key = {row[width:]: row[:width] for row in bars.rows}
    rows = tuple(tuple(map(_beside, row[:width], by_key[row[width:]])) for row in found.rows)
    notes = tuple(dict.fromkeys((*bars.notes, *found.notes)))
    names = frozenset(found.columns[:width])
    return Result(
        found.columns[:width],
        rows,
        found.confidence,
        notes,
        numbers=(found.numbers or names) & names,
        dated=found.dated,
    )


def _beside(value: Cell, bar: Cell) -> Cell:
    if not isinstance(value, Estimate) or not isinstance(bar, Estimate) or isnan(bar.value) or isnan(value.value):
        return bar
    number, away = value.value, abs(value.value - bar.value)  # which noise alone would not explain
    low, high = min(bar.low, number), max(bar.high, number)
    return replace(bar, value=number, stderr=hypot(bar.stderr, away), low=low, high=high, model=hypot(bar.model, away))
