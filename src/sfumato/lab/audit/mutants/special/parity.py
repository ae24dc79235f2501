"""NOT PRIVATE: broken releases of parities, kept so that the audit can be seen to catch them.

The proof says: noise on every cell, and a vector that is read off the noisy cells. Each forgets one half of it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sfumato.answers.fit import NoisyCells
from sfumato.arrays import Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.mutants.noise import Run
from sfumato.lab.audit.subjects.primitives import Counts
from sfumato.lab.audit.subjects.registry import subject_of
from sfumato.lab.papers.parity.content import ParityCube
from sfumato.lab.papers.parity.measure import example, parity
from sfumato.lab.papers.parity.parities import as_cells, odd, transformed
from sfumato.models.base.mechanism import Lab, Mechanism
from sfumato.models.base.mechanism import Run as Make
from sfumato.queries import Workload
from sfumato.schema import Schema

EVEN = (0, 0, 0, 0, 1, 0)  # rows of a table in which one more decides which attribute fits best
CLEAR = (0, 40, 40, 0, 40, 0)  # and of one that leaves no doubt which cells contradict the vector


def label_from_the_table(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> ParityCube:
    """NOT PRIVATE: the attribute that is published as the label is the one that fits best in the private table."""
    made = parity(curator, schema, budget)
    counts, names = curator._dense("count"), schema.domain.names
    best = [int(np.abs(_fits(counts, place))[1:].max()) for place in range(len(names))]
    return replace(made, label=names[int(np.argmax(best))])


def contradictions_left_empty(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None
) -> ParityCube:
    """NOT PRIVATE: cells that contradict the vector and hold no row are published as 0, as if that told nothing."""
    made = parity(curator, schema, budget)
    counted, counts = made.fits[0].measurements[0], curator._dense("count")
    place = np.arange(len(counts))
    wrong = (odd((place >> 1) & made.learnt.vector) ^ made.learnt.opposite) != (place & 1)
    answers = np.where(wrong & (counts == 0), 0, counted.answers)
    return replace(made, fits=(NoisyCells(replace(counted, answers=answers)),))


def released(run: Make, before: Counts) -> Run:
    """What the files of many releases show, of a table and of the same with a row more."""
    return subject_of(Mechanism("mutant", "", run, lab=Lab(example=example)), before=before).run


def _fits(counts: Whole, place: int) -> Whole:
    zeros, ones = as_cells(counts, place, 3)
    return transformed(zeros - ones)
