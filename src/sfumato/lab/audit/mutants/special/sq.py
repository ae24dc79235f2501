"""NOT PRIVATE: learners by statistical queries that get it wrong, kept so that the audit can be seen to catch them."""

from __future__ import annotations

from typing import Any

import numpy as np

from sfumato.arrays import Codes
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Load
from sfumato.kernel.curator import Curator
from sfumato.lab.papers.sq.classifiers import pulls
from sfumato.measurement import Measurement, Noise
from sfumato.queries import Identity, Queries, Weighted
from sfumato.schema import Schema

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
