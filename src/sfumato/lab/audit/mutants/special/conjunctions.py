"""NOT PRIVATE: conjunctions on subsets of the rows with a clause of their proof forgotten."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks.replay import Run, replay
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables
from sfumato.lab.papers.conjunctions.content import Conjunctions
from sfumato.lab.papers.conjunctions.measure import Options, conjunctions, example
from sfumato.measurement import Measurement
from sfumato.queries import Identity
from sfumato.schema import Schema

Check = Callable[[], str | None]

WHOLE, FEW = Budget.pure(1), Options(subsets=4)


def replaying_subsets(run: Run, kind: type[Curator] = Curator) -> Check:
    """The replay audit of a recipe on all tables of up to 2 rows of the mechanism's own example."""

    def check() -> str | None:
        schema = example(1)
        for one, other in neighbouring_tables(schema.domain.size, 2, 1):
            for complaint in replay(run, schema, one, other, WHOLE, curator=kind).complaints:
                return complaint.what
        return None

    return check


def honest(curator: Curator, schema: Schema, budget: Budget) -> Conjunctions:
    """The mechanism as it is."""
    return conjunctions(curator, schema, budget, options=FEW)


class SubsetsApartCurator(Curator):
    """NOT PRIVATE: every subset has a charge of its own, as if a row were in one of them only."""

    def subset(self, seed: int, number: int) -> Curator:
        view = super().subset(seed, number)
        view.charge = Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        return view


def each_subset_in_full(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Measure the cells of four subsets, each with a quarter of the budget that a shared charge would leave them."""
    cells = Identity(schema.domain.size)
    return [curator.subset(0, number).measure(cells, scales=1 / Fraction(budget.amount)) for number in range(4)]


class SubsetsByRankCurator(Curator):
    """NOT PRIVATE: subsets take every other row of the whole table, so that one row more shifts all that follow it."""

    def subset(self, seed: int, number: int) -> Curator:
        view = super().subset(seed, number)
        held = self._aggregate
        rows = np.repeat(held.cells, held.counts)[number % 2 :: 2]
        cells, counts = np.unique(rows, return_counts=True)
        view._held = Aggregate(cells, counts.astype(np.int64))
        return view
