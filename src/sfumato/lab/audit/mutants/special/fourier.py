"""NOT PRIVATE: coefficients of contingency tables with a clause of their proof forgotten."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from sfumato.arrays import Codes
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Load
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks.replay import Run, replay
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables
from sfumato.lab.papers.fourier.content import Coefficients, queries_of
from sfumato.lab.papers.fourier.measure import example, fourier
from sfumato.lab.papers.fourier.walsh import downward_closure
from sfumato.measurement import Noise
from sfumato.queries import Queries
from sfumato.schema import Schema

Check = Callable[[], str | None]

WHOLE = Budget.pure(1)


def replaying_coefficients(run: Run, kind: type[Curator] = Curator) -> Check:
    """The replay audit of a recipe on all tables of up to 2 rows of the mechanism's own example."""

    def check() -> str | None:
        schema = example(1)
        for one, other in neighbouring_tables(schema.domain.size, 2, 1):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:
                return complaint.what
        return None

    return check


class CoefficientsAsOneCurator(Curator):
    """NOT PRIVATE: all coefficients of a set of attributes are charged as one, as if they were cells of a histogram."""

    def _loads(self, queries: Queries, unit: int, noises: tuple[Noise, ...], which: Codes | None) -> list[Load]:
        return [Load(1, unit / noise.parameter) for noise in noises]


def honest(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """The mechanism as it is."""
    return fourier(curator, schema, budget)


def scale_by_sets(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """The noise that would do if a row moved one coefficient of each set of attributes, and not all of them."""
    sizes, names = schema.domain.shape, schema.domain.names
    sets = downward_closure([(0, 1)], sizes)
    measured = tuple(
        curator.margin([names[place] for place in places]).measure(
            queries_of(places, sizes), scales=len(sets) / budget.amount
        )
        for places in sets
    )
    return Coefficients(schema, sets, measured, None, None)


def fitted_to_the_truth(curator: Curator, schema: Schema, budget: Budget) -> Coefficients:
    """NOT PRIVATE: the coefficients are honest, and the table that is published behind them is the private one."""
    content = fourier(curator, schema, budget)
    counts = getattr(curator, "_Recorder__inner", curator)._dense("count")
    cells = np.flatnonzero(counts)
    return replace(content, cells_kept=cells, counts=counts[cells])
