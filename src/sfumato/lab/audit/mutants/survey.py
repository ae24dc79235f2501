"""NOT PRIVATE: broken conjunctions, halfspaces and statistical-query learners; the audit must catch each.

Conjunctions on subsets of the rows and learners forget a clause of their proof; halfspaces are charged wrongly.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from typing import Any

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Partition
from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.lab.audit.attacks.replay import Run, replay
from sfumato.lab.audit.subjects.small_tables import neighbouring_tables
from sfumato.lab.papers.conjunctions.content import Conjunctions
from sfumato.lab.papers.conjunctions.measure import Options, conjunctions, example
from sfumato.lab.papers.sq.classifiers import pulls
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity, Prefix, Queries, Weighted
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


def directions_until_refused(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """Count a square along two directions, each with the whole budget."""
    found: list[Measurement] = []
    with suppress(PrivacyError):
        for bins in ([0, 0, 1, 1], [0, 1, 1, 2]):
            seen = curator.reduce(Partition(curator.domain, np.array(bins)))
            found.append(seen.measure(Identity(seen.domain.size), budget))
    return found


def nested_halfspaces(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """Counts of halfspaces that lie within each other."""
    return curator.measure(Prefix(curator.domain.size), budget)


class DirectionsApartCurator(Curator):
    """NOT PRIVATE: every direction has a charge of its own, as if a row lay in the bins of one of them only."""

    def reduce(self, partition: Partition) -> Curator:
        view = super().reduce(partition)
        view.charge = Charge(self.charge.budget, self.charge.contributions, self.charge.cells)
        return view


class HalfspacesAsBinsCurator(Curator):
    """NOT PRIVATE: halfspaces along a direction are charged as its bins, where a row of data lies in many of them."""

    def _noises(self, queries: Queries, *rest: Any) -> tuple[tuple[Noise, ...], Codes | None]:
        return super()._noises(Identity(queries.columns), *rest)

    def _loads(self, queries: Queries, *rest: Any) -> list[Load]:
        return super()._loads(Identity(queries.columns), *rest)


POINTS = np.array([[1, 0, 1], [1, 0, 1], [0, 1, 1], [0, 1, 1]])  # of the cells of a square: one attribute, marked
TRUTH = np.array([0, 1, 0, 1])


def round_of_a_perceptron(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """The sums of what the rows of a square pull, in the first round."""
    weights = np.zeros((1, POINTS.shape[1]), dtype=np.int64)
    return curator.measure(Weighted(pulls(weights, POINTS, TRUTH, 2).T), budget)


class SumsAsOneCurator(Curator):
    """NOT PRIVATE: a perceptron's sums are charged as the first of them, where a row of data moves several."""

    def _noises(self, queries: Queries, *rest: Any) -> tuple[tuple[Noise, ...], Codes | None]:
        return super()._noises(queries[np.array([queries.rows - 1])], *rest)

    def _loads(self, queries: Queries, *rest: Any) -> list[Load]:
        return super()._loads(queries[np.array([queries.rows - 1])], *rest)


def split_by_the_table(curator: Curator, schema: Schema, budget: Budget) -> Measurement:
    """NOT PRIVATE: which attribute a tree looks at is told by the true counts, where it must be by the noisy ones."""
    counts = curator._dense("count").reshape(2, 2)
    return _grown(curator, counts, budget)


def split_by_noisy_counts(curator: Curator, schema: Schema, budget: Budget) -> list[Measurement]:
    """A tree of one split on a square: the cells first, then the attribute that they speak for."""
    first, second = budget.evenly(2)
    cells = curator.measure(Identity(4), first)
    return [cells, _grown(curator, cells.answers.reshape(2, 2), second)]


def _grown(curator: Curator, counts: Codes, budget: Budget) -> Measurement:
    uneven = [abs(int(np.diff(counts.sum(axis=axis))[0])) for axis in (1, 0)]
    return curator.margin(["a" if uneven[0] > uneven[1] else "b"]).measure(Identity(2), budget)
