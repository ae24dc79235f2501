"""NOT PRIVATE: mechanisms whose measurements are honest and whose published fit leaks.

Everything that the curator hands out to them is charged and noisy, so an audit of the measurements alone, as the
sampling audit once was, finds nothing wrong. The leak is in the fitted cells, which the file holds besides.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.arrays import Floats
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.mutants.noise import Run
from sfumato.lab.audit.subjects.registry import EMPTY_CELL, subject_of
from sfumato.lab.audit.subjects.subject import Counts
from sfumato.models.base.measure_and_fit import plain_cells
from sfumato.models.base.mechanism import Lab, Mechanism
from sfumato.models.base.mechanism import Run as Make
from sfumato.models.linear.fit import LinearFit
from sfumato.models.weights.fit import ScaledShape
from sfumato.models.weights.measure import even_start, measure_total, misfit_of
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


def fitted_to_the_table(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """NOT PRIVATE: the last estimate of a multiplicative-weights mechanism is the private table itself.

    Total, misfit and measures are measured as they should be, and an audit of the measurements alone (the layout that
    the sampling audit had before it looked at the whole file) does not catch it. The shape that is published does.
    """
    return _shaped(curator, schema, budget, lambda total: (1 + curator._dense("count")).astype(np.float64))


def fitted_evenly(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Control: a multiplicative-weights release with a uniform estimate of the noisy total."""
    return _shaped(curator, schema, budget, lambda total: even_start(total, schema.domain.size))


def _shaped(curator: Curator, schema: Schema, budget: Budget, estimate: Callable[[LinearFit], Floats]) -> Cube:
    for_count, *for_measures = budget.evenly(len(curator.statistics))
    for_total, for_misfit = for_count.evenly(2)
    total = measure_total(curator, for_total)
    count = ScaledShape.like(total, estimate(total))
    misfit = curator.measure_misfit(misfit_of(Identity(schema.domain.size), count.estimate), for_misfit)
    return Cube(schema, fits=(count.with_spread(1.0, misfit), *plain_cells(curator, for_measures)))


def told_beside_the_fit(curator: Curator, schema: Schema, budget: Budget) -> Cube:
    """NOT PRIVATE: the private counts are put in the place of the estimate that follows from an honest fit.

    It reaches past the recorder of the replay audit, and every field of the fit is as it should be: who compares the
    fields alone does not catch it. What is written into the file is the estimate.
    """
    cube = fitted_evenly(curator, schema, budget)
    counts = getattr(curator, "_Recorder__inner", curator)._dense("count")
    vars(cube.fits[0])["estimate"] = counts.astype(np.float64)
    return cube


def released(run: Make, example: Callable[[int], Schema] | None = None, before: Counts = EMPTY_CELL) -> Run:
    """Sampler of release files as rows of integers. example: the schema, if not that of all audits."""
    return subject_of(Mechanism("mutant", "", run, lab=Lab(example=example)), before=before).run
