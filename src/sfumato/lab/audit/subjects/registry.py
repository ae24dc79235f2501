"""What is audited: the kernel's primitives, and every mechanism of the registry as a whole.

The neighbouring pairs are worst cases: a person's rows in an otherwise empty cell, with the most extreme value of a
measure, and a cell that stands on the threshold of being published. Of a whole mechanism everything is looked at that
the file of its release shows.
"""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from sfumato.kernel.sampling.entropy import Entropy, TestingEntropy
from sfumato.lab.audit.subjects.primitives import (
    BUDGET,
    ONE,
    Counts,
    PooledEntropy,
    aggregate_of,
    curator_of,
    primitives,
)
from sfumato.lab.audit.subjects.published import Layout, Shown, shown
from sfumato.lab.audit.subjects.subject import Outputs, Subject
from sfumato.models import every_name, find_mechanism
from sfumato.models.base.mechanism import Mechanism
from sfumato.publishing.publish import describe_guarantee
from sfumato.releases.file.store import contents_of
from sfumato.releases.release import Release
from sfumato.schema import Schema

CELLS = 6  # of the small domain on which whole mechanisms run
FIRST = 12  # runs on either table that show which columns there are
EMPTY_CELL: Counts = (0, 15, 0, 3, 40, 0)  # rows in each cell before a person adds rows to cell 0


def all_subjects() -> list[Subject]:
    """Primitives and whole mechanisms: a mechanism that is added to the registry is attacked without further ado."""
    return primitives() + [subject for name in every_name() for subject in mechanism_subjects(name)]


def mechanism_subject(name: str, *, contributions: int = 1, before: Counts = EMPTY_CELL) -> Subject:
    """A mechanism of the registry, with one measure, at epsilon 1: a person adds `contributions` rows to cell 0."""
    mechanism = find_mechanism(name)
    return subject_of(mechanism.with_options(mechanism.lab.tried_with), contributions=contributions, before=before)


def mechanism_subjects(name: str) -> list[Subject]:
    """One mechanism on its worst cases: an empty cell, two rows in a table of nothing, a cell at the threshold."""
    nothing, crowded = (0,) * CELLS, (15, 0, 0, 3, 40, 0)
    cases = (1, EMPTY_CELL), (2, nothing), (1, crowded)
    return [mechanism_subject(name, contributions=rows, before=before) for rows, before in cases]


def subject_of(mechanism: Mechanism, *, contributions: int = 1, before: Counts = EMPTY_CELL) -> Subject:
    """Any mechanism as a subject, in the registry or not."""
    schema = audit_schema(contributions) if mechanism.lab.example is None else mechanism.lab.example(contributions)
    cells = schema.domain.size
    half = next((measure.half_units for measure in schema.measures.values()), None)
    before = tuple(before[cell % CELLS] for cell in range(cells))
    after = (before[0] + contributions, *before[1:])
    sums = (0,) * cells, (contributions * (half or 0), *[0] * (cells - 1))  # the new rows all have the highest value
    tables = aggregate_of(before, sums[0]), aggregate_of(after, sums[1])
    guarantee = describe_guarantee(BUDGET, schema)

    def release(which: int, entropy: Entropy) -> Shown:
        curator = curator_of(schema.domain, tables[which], entropy, contributions, half)
        content = mechanism.run(curator, schema, BUDGET, None)
        return shown(contents_of(Release(content, mechanism.name, guarantee, entropy.private)), cells)

    @cache
    def layout() -> Layout:
        fixed = PooledEntropy(TestingEntropy(0))  # the same columns every time, whatever the runs then draw
        return Layout.of(release(which, fixed) for _ in range(FIRST) for which in (0, 1))

    def run(which: int, runs: int, entropy: Entropy) -> Outputs:
        pooled = PooledEntropy(entropy)
        return np.array([layout().row(release(which, pooled)) for _ in range(runs)])

    rows = "1 row" if contributions == 1 else f"{contributions} rows"
    return Subject(f"{mechanism.name}, {rows} more than {before[0]} of {sum(before)}", ONE, run)


@lru_cache(maxsize=8)
def audit_schema(contributions: int) -> Schema:
    return Schema.from_dict(
        {
            "dataset": "audit",
            "privacy_unit": {"column": "person", "contributions": contributions},
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": CELLS - 1}},
            "measures": {"m": {"lower": 0, "upper": 100, "step": 1, "missing": "drop"}},
        }
    )
