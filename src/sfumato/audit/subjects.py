"""What is audited: the kernel's primitives, and every mechanism of the registry as a whole.

The neighbouring pairs are worst cases: a person's rows in an otherwise empty cell, with the most extreme value of a
measure, and a cell that stands on the threshold of being published.
"""

from __future__ import annotations

from functools import lru_cache
from zlib import crc32

import numpy as np

from sfumato.audit.primitives import (
    BUDGET,
    ONE,
    Counts,
    PooledEntropy,
    aggregate_of,
    cells_above_threshold,
    curator_of,
    exponential_choice,
    plain_laplace,
    primitives,
    select_subject,
    threshold_decisions,
)
from sfumato.audit.subject import HIDDEN, Outputs, Subject
from sfumato.errors import MechanismError
from sfumato.inference.nested import Nested
from sfumato.inference.regions import Regional
from sfumato.kernel.entropy import Entropy
from sfumato.measurement import Measurement
from sfumato.mechanisms import MECHANISMS, Mechanism
from sfumato.queries import Cells, Identity, Queries, Total
from sfumato.releases.cube import Cube
from sfumato.schema import Schema

__all__ = [
    "all_subjects",
    "cells_above_threshold",
    "exponential_choice",
    "mechanism_subject",
    "mechanism_subjects",
    "plain_laplace",
    "select_subject",
    "subject_of",
    "threshold_decisions",
]

CELLS = 6  # of the small domain on which whole mechanisms run
OTHERS = 64  # columns for answers to queries that are neither cells nor totals
EMPTY_CELL: Counts = (0, 15, 0, 3, 40, 0)  # rows in each cell before a person adds rows to cell 0


def all_subjects() -> list[Subject]:
    """Primitives and whole mechanisms: a mechanism that is added to the registry is attacked without further ado."""
    return primitives() + [subject for name in MECHANISMS for subject in mechanism_subjects(name)]


def mechanism_subject(name: str, *, contributions: int = 1, before: Counts = EMPTY_CELL) -> Subject:
    """A mechanism of the registry, with one measure, at epsilon 1: a person adds `contributions` rows to cell 0."""
    return subject_of(MECHANISMS[name], contributions=contributions, before=before)


def mechanism_subjects(name: str) -> list[Subject]:
    """One mechanism on its worst cases: an empty cell, two rows in a table of nothing, a cell at the threshold."""
    nothing, crowded = (0,) * CELLS, (15, 0, 0, 3, 40, 0)
    cases = (1, EMPTY_CELL), (2, nothing), (1, crowded)
    return [mechanism_subject(name, contributions=rows, before=before) for rows, before in cases]


def subject_of(mechanism: Mechanism, *, contributions: int = 1, before: Counts = EMPTY_CELL) -> Subject:
    """Any mechanism as a subject, in the registry or not."""
    schema = _schema(contributions)
    half = schema.measures["m"].half_units
    after = (before[0] + contributions, *before[1:])
    sums = (0,) * CELLS, (contributions * half, *[0] * (CELLS - 1))  # the new rows all have the highest value
    tables = aggregate_of(before, sums[0]), aggregate_of(after, sums[1])

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        pooled = PooledEntropy(entropy)
        outputs = np.full((runs, 1 + 2 * (CELLS + 1) + OTHERS), HIDDEN)
        for row in outputs:
            curator = curator_of(schema.domain, tables[which], pooled, contributions, half)
            _lay_out(mechanism.run(curator, schema, BUDGET, None), row)
        return outputs

    rows = "1 row" if contributions == 1 else f"{contributions} rows"
    return Subject(f"{mechanism.name}, {rows} more than {before[0]} of {sum(before)}", ONE, run)


def _lay_out(cube: Cube, row: Outputs) -> None:
    """All that a cube publishes, each number in a column of its own; the first column tells designs apart."""
    design, used = 0, 1 + len(cube.statistics) * (CELLS + 1)
    for fit in cube.fits:
        if isinstance(fit, Regional | Nested):  # which cells were put together is published too
            design = crc32(fit.labels.tobytes(), design)
    for measurement in (*cube.measurements, *cube.totals, *(m for fit in cube.fits for m in fit.measurements)):
        queries, answers = measurement.queries, measurement.answers
        design = crc32(_design(measurement), design)
        cells = measurement.cells if measurement.cells is not None else _PLACES.get(type(queries))
        if type(queries) is Cells:
            cells = queries.codes
        own = measurement.of in cube.statistics and queries.columns == CELLS
        start = 1 + cube.statistics.index(measurement.of) * (CELLS + 1) if own else 0
        if own and cells is not None and (row[start + cells] == HIDDEN).all():
            row[start + cells] = answers
        elif used + len(answers) <= len(row):
            row[used : used + len(answers)] = answers
            used += len(answers)
        else:
            raise MechanismError(
                f"an audit has room for {OTHERS} answers besides cells and totals; make more in {__name__}"
            )
    row[0] = design


_PLACES: dict[type[Queries], Outputs] = {Identity: np.arange(CELLS), Total: np.array([CELLS])}


def _design(measurement: Measurement) -> bytes:
    """What was asked and with which noise: it is published with the answers and must not tell tables apart either."""
    queries = measurement.queries
    rows = b""
    if type(queries) not in (Cells, Identity, Total):  # those are told by the columns their answers stand in
        rows = np.asarray(queries @ (3 ** np.arange(queries.columns, dtype=np.int64))).tobytes()
    which = b"" if measurement.which is None else measurement.which.tobytes()  # the row that has each noise
    return _described(measurement.of, type(queries).__name__, rows, measurement.noises, which, measurement.above)


@lru_cache(maxsize=4096)
def _described(*design: object) -> bytes:
    return repr(design).encode()


@lru_cache(maxsize=8)
def _schema(contributions: int) -> Schema:
    return Schema.from_dict(
        {
            "dataset": "audit",
            "privacy_unit": {"column": "person", "contributions": contributions},
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": CELLS - 1}},
            "measures": {"m": {"lower": 0, "upper": 100, "step": 1}},
        }
    )
