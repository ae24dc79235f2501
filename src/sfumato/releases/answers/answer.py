"""Answers with error bars: a plan or linear queries, evaluated on a cube."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import numpy as np

from sfumato.domain import Label
from sfumato.errors import QueryError
from sfumato.intervals.fieller import Functional, linear_interval
from sfumato.intervals.noise_sum import half_width, stderr
from sfumato.intervals.noise_terms import at_once, noises_of
from sfumato.queries import Queries
from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.answers.evaluate import Table
from sfumato.releases.answers.groups import Groups
from sfumato.releases.answers.result import Result
from sfumato.releases.cube import Cube
from sfumato.sql import Column, Key, Select

WEIGHTS_AT_ONCE = 2**22  # of linear queries, laid out at a time


def answer_select(select: Select, cube: Cube, confidence: float) -> Result:
    """Work out every aggregate of a query for every group."""
    _check_confidence(confidence)
    groups = Groups.of(select, cube.domain)
    names = {*select.group_by, *(name for amount in select.amounts for name in amount.region.names)}
    names |= {a.of for a in select.amounts if a.of is not None and a.of not in cube.schema.measures}
    table = Table(cube, cube.gather(tuple(sorted(names))), groups, confidence)
    estimates = {column: table.evaluate(column) for column in dict.fromkeys(select.aggregates)}

    def cell(column: Key | Column, row: int) -> Label | Estimate:
        if isinstance(column, Column):
            return estimates[column][row]
        return cube.domain[column.attribute].label(int(groups.code(column.attribute)[row]))

    def rank(by: Any, row: int) -> float:
        column = select.columns[by] if isinstance(by, int) else by
        if isinstance(column, Column):
            value = estimates[column][row].value
            return -np.inf if np.isnan(value) else value
        return float(groups.code(column.attribute)[row])

    rows = list(range(len(groups.present)))
    for by, descending in reversed(select.order_by):
        rows.sort(key=lambda row, by=by: rank(by, row), reverse=descending)  # type: ignore[misc]
    end = None if select.limit is None else select.offset + select.limit
    shown = tuple(tuple(cell(column, row) for column in select.columns) for row in rows[select.offset : end])
    names_shown = tuple(column.name for column in select.columns)
    return Result(names_shown, shown, confidence, select.notes + _notes(cube, select, table))


def answer_queries(queries: Queries, cube: Cube, confidence: float) -> list[Estimate]:
    """Answer linear queries over the cells' counts, one estimate for each."""
    _check_confidence(confidence)
    if queries.columns != cube.domain.size:
        raise QueryError(f"the queries span {queries.columns} cells, the release has {cube.domain.size}")
    if cube.sparse:
        raise QueryError("a sparse release answers SQL; linear queries need a release of every cell")
    if cube.fits:
        return _answer_fitted(queries, cube, confidence)
    noise, values = cube.noise("count"), queries @ cube.values["count"]
    estimates: list[Estimate] = []
    block = max(1, WEIGHTS_AT_ONCE // queries.columns)
    for start in range(0, queries.rows, block):
        for row, value in zip(queries[start : start + block].dense(), values[start : start + block], strict=True):
            sizes, counts = np.unique(np.abs(row[row != 0]), return_counts=True)
            terms = [(float(size), noise, int(count)) for size, count in zip(sizes, counts, strict=True)]
            error, width = stderr(terms), half_width(terms, confidence)
            estimates.append(Estimate(float(value), error, value - width, value + width, confidence, error))
    return estimates


def _answer_fitted(queries: Queries, cube: Cube, confidence: float) -> list[Estimate]:
    fit, values = cube.fits[0], queries @ cube.values["count"]
    estimates: list[Estimate] = []
    block = at_once(queries.columns)
    for start in range(0, queries.rows, block):
        columns = queries[start : start + block].dense().T.astype(np.float64)
        order = [[place] * 3 for place in range(columns.shape[1])]
        noises = noises_of([(fit, columns)], order)
        for value, found in zip(values[start : start + block].tolist(), noises, strict=True):
            if found.terms is None:
                estimates.append(Estimate(nan, nan, -inf, inf, confidence, nan))
                continue
            one = linear_interval(Functional(value, value, value), found.terms, confidence)
            estimates.append(Estimate(one.value, one.stderr, one.low, one.high, confidence, one.noise, one.model))
    return estimates


def _check_confidence(confidence: float) -> None:
    if not 0 < confidence < 1:
        raise QueryError(f"a confidence lies between 0 and 1, such as 0.95, not {confidence}")


def _notes(cube: Cube, select: Select, table: Table) -> tuple[str, ...]:
    if table.undetermined:
        return ("what this release measured does not determine the numbers shown as unknown",)
    if not cube.sparse or (not select.group_by and not select.where.names):
        return ()
    return (
        f"only cells with a noisy count of {cube.threshold} or more are published; the rest is known in sum, is taken "
        "as spread evenly, and the interval allows for any spread",
    )
