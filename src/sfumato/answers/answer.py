"""A compiled SELECT answered with error bars, from whatever cells a content shows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from sfumato.answers.alike import Kinds, kinds_asked
from sfumato.answers.estimate import Estimate
from sfumato.answers.evaluate import Evaluation
from sfumato.answers.groups import Groups
from sfumato.answers.remarks import remarks_on
from sfumato.answers.result import Result
from sfumato.answers.statistics.differences import difference_notes
from sfumato.answers.statistics.formulas import estimates_of
from sfumato.answers.view import View
from sfumato.domain import Domain, Label
from sfumato.errors import QueryError
from sfumato.schema import Schema
from sfumato.sql import Column, Key, Select
from sfumato.sql.statistics.rules import Quantile

Reworked = Callable[[Column, list[Estimate], Evaluation], list[Estimate]]


def answer_select(
    select: Select, schema: Schema, view: Callable[[Kinds], View], confidence: float, rework: Reworked | None = None
) -> Result:
    """Work out every aggregate of a query for every group.

    view: the content's cells along some attributes, of whose values only some kinds need to be told apart. rework: what
    is made of the estimates of a column, where intervals of another kind are asked for.
    """
    check_confidence(confidence)
    domain = schema.domain
    groups = Groups.of(select, domain)
    evaluation = Evaluation(view(kinds_asked(select, schema)), groups, confidence)
    known: dict[Column, list[Estimate]] = {}  # what two columns ask under two names is worked out once
    estimates: dict[Column, list[Estimate]] = {}
    for column in dict.fromkeys(select.aggregates):
        nameless = replace(column, name="")
        if nameless not in known:
            found = estimates_of(column, evaluation)
            known[nameless] = found if rework is None else rework(column, found, evaluation)
        estimates[column] = known[nameless]
    return result_of(select, groups, domain, estimates, confidence, _notes(select, evaluation))


def result_of(
    select: Select,
    groups: Groups,
    domain: Domain,
    estimates: Mapping[Column, Sequence[Estimate]],
    confidence: float,
    further: tuple[str, ...],
) -> Result:
    """The table that a query asked for, from an estimate of every aggregate for every group. further: notes."""
    shown = rows_shown(select, domain, groups, estimates)
    names_shown = tuple(column.name for column in select.columns)
    numbers = frozenset(column.name for column in select.columns if isinstance(column, Column))
    notes = (*select.notes, *further, *difference_notes(select.columns, shown, confidence))
    dated = {column.name: by for column in select.columns if (by := moment_of(column, domain)) is not None}
    return Result(names_shown, shown, confidence, (*notes, *remarks_on(shown, notes)), numbers=numbers, dated=dated)


def moment_of(column: Key | Column, domain: Domain) -> str | None:
    """What a column's values are, if they are single days ("day") or times ("hour")."""
    if isinstance(column, Column):
        one_day = isinstance(column.rule, Quantile) and column.scale == 1.0  # times -1 it is a number
        axis = domain[column.rule.of] if one_day and isinstance(column.rule, Quantile) else None
        return None if axis is None or axis.kind != "date" else "hour" if axis.timed else "day"
    axis = domain[column.attribute]
    return axis.by if axis.kind == "date" and axis.by in ("day", "hour") else None


def rows_shown(
    select: Select, domain: Domain, groups: Groups, estimates: Mapping[Column, Sequence[Estimate]]
) -> tuple[tuple[Label | Estimate, ...], ...]:
    """The rows of an answer in the order and number that a query asks for. estimates: by column and present group."""
    codes = {name: groups.code(name).tolist() for name in select.group_by}

    def cell(column: Key | Column, row: int) -> Label | Estimate:
        if isinstance(column, Column):
            return estimates[column][row]
        return domain[column.attribute].label(codes[column.attribute][row])

    def rank(by: Any, row: int, missing: float) -> float:
        column = select.columns[by] if isinstance(by, int) else by
        if isinstance(column, Column):
            value = estimates[column][row].value
            return -np.inf if np.isnan(value) else value
        code: int = codes[column.attribute][row]
        return missing if code == domain[column.attribute].places else code

    rows = list(range(len(groups.present)))
    for by, descending, nulls_first in reversed(select.order_by):
        missing = -np.inf if nulls_first != descending else np.inf
        rows.sort(key=lambda row, by=by, missing=missing: rank(by, row, missing), reverse=descending)  # type: ignore[misc]
    end = None if select.limit is None else select.offset + select.limit
    return tuple(tuple(cell(column, row) for column in select.columns) for row in rows[select.offset : end])


def check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise QueryError(f"a confidence lies between 0 and 1, such as 0.95, not {confidence}")


def _notes(select: Select, evaluation: Evaluation) -> tuple[str, ...]:
    if evaluation.undetermined:
        return ("what this release measured does not determine the numbers shown as unknown",)
    asked = (select.where, *(amount.predicate for amount in select.amounts))
    if evaluation.view.suppressed is None or not (select.group_by or any(part.names for part in asked)):
        return ()
    return (evaluation.view.suppressed.note,)
