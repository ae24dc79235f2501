"""What an engine answered, looked at before anything else is done with it: noise is made for nothing else."""

from __future__ import annotations

from contextlib import suppress
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import PrivacyError
from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.rows import Rows, short, words_of
from sfumato.schema import Schema
from sfumato.schema.parts import missing_of

if TYPE_CHECKING:
    import pyarrow as pa

LARGEST_COUNT = 2**62
_NO_AGGREGATE = "the engine did not return whole numbers for each cell or row as it was asked to; nothing is published"


def checked(answer: pa.Table, schema: Schema, *, row_by_row: bool) -> Aggregate | Rows:
    """The engine's answer, if it is what the statement must give."""
    found: Aggregate | Rows | None = None
    with suppress(Exception):  # for privacy: its text could quote a count
        found = as_rows(answer, schema) if row_by_row else as_aggregate(answer, schema)
    del answer  # for privacy: a traceback keeps what this frame holds
    if found is None:
        raise PrivacyError(_NO_AGGREGATE)
    return found


def as_aggregate(answer: pa.Table, schema: Schema) -> Aggregate | None:
    """One row for each cell that holds rows, cells rising: the cell, its rows, the sums of each measure."""
    cells, counts, *found = (_whole_numbers(column, "int64") for column in answer.columns)
    sums = dict(zip(_sums(schema), found, strict=True))
    right = bool((np.diff(cells) > 0).all() and (counts > 0).all())
    right &= not len(cells) or bool(cells[0] >= 0 and cells[-1] < schema.domain.size)
    for name, measure in schema.measures.items():
        missing = sums.get(missing_of(name), np.zeros_like(counts))
        # For privacy: each row of a cell adds steps or is missing, never both.
        right &= _within(missing, 0, LARGEST_COUNT)
        right &= bool((-(-np.abs(sums[name]) // measure.half_units) <= counts - missing).all())
    return Aggregate(cells, counts, sums) if right else None


def as_rows(answer: pa.Table, schema: Schema) -> Rows | None:
    """One row for each that was kept: the words of its cell, its steps of each measure."""
    runs, words = words_of(schema.domain), list[NDArray[Any]]()
    names = _sums(schema)
    if answer.num_columns != len(runs) + len(names):
        return None
    for run, column in zip(runs, answer.columns, strict=False):
        cells = prod(schema.domain.shape[run.start : run.stop])
        word = _whole_numbers(column, "int32")
        if not _within(word, 0, cells - 1):
            return None
        words.append(short(word, cells))
    columns = answer.columns[len(runs) :]
    steps = {name: _whole_numbers(column, "int64") for name, column in zip(names, columns, strict=True)}
    for name, measure in schema.measures.items():
        missing = steps.get(missing_of(name), np.zeros(1, dtype=np.int64))
        within = _within(steps[name], -measure.half_units, measure.half_units) and _within(missing, 0, 1)
        if not within or (missing * steps[name]).any():
            return None
    return Rows(schema.domain, tuple(words), steps)


def _sums(schema: Schema) -> list[str]:
    """The statistics that are added up, in the order of the statement's columns."""
    return list(schema.units)[1:]


def _within(values: NDArray[Any], low: int, high: int) -> bool:
    return not len(values) or bool(values.min() >= low and values.max() <= high)


def _whole_numbers(column: pa.ChunkedArray, kind: str) -> NDArray[Any]:
    if str(column.type) != kind or column.null_count:
        raise TypeError
    # Not by to_numpy, which imports pandas wherever that is installed.
    return np.asarray(np.from_dlpack(column.combine_chunks()), dtype=kind)
