"""What a reader of statistics should know, in a sentence for each: how they were come by from counts in bins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sfumato.domain import Axis
from sfumato.schema import Schema
from sfumato.sql.plan import Column, Formula
from sfumato.sql.statistics.rules import Quantile, Spread


def statistic_notes(columns: Iterable[Column], schema: Schema) -> list[str]:
    """The notes of all statistics among some columns, each once."""
    found = (note for column in columns for rule in _rules(column) for note in _notes(rule, schema.domain[rule.of]))
    return list(dict.fromkeys(found))


def _rules(column: Column) -> Iterator[Quantile | Spread]:
    if isinstance(column.rule, Formula):
        for part in column.rule.columns:
            yield from _rules(part)
    elif column.rule is not None:
        yield column.rule


def _notes(rule: Quantile | Spread, axis: Axis) -> Iterator[str]:
    binned = bool(axis.kind == "number" or axis.timed or (axis.edges[1:] - axis.edges[:-1] > 1.0).any())
    if isinstance(rule, Spread):
        if binned:
            yield (
                f"{axis.name} is known by its bins only: its variance takes every row at the middle of its bin, and "
                "the interval allows for any place in it"
            )
    elif rule.share in (0.0, 1.0):
        what, there = ("least", "at or below") if rule.share == 0.0 else ("greatest", "at or above")
        yield (
            f"the {what} {axis.name} is the {'first' if what == 'least' else 'last'} with surely a row {there} it: "
            "single rows further out do not show through the noise, and the interval says how far out they may be"
        )
    elif binned:
        yield (
            f"{axis.name} is known by its bins only: a quantile takes rows as spread evenly inside a bin, and its "
            "interval reaches to the ends of bins"
        )
