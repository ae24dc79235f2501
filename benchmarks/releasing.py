"""A release of counts that are given, not read: everything after the reading is the product's own line."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.models import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Workload
from sfumato.releases.release import Release
from sfumato.schema import Schema


def curator_of_counts(schema: Schema, counts: np.ndarray, budget: Budget, seed: int | None = None) -> Curator:
    """A curator over a table of counts, one for each cell; with fresh noise if there is no seed."""
    return over_counts(schema, counts, budget, SystemEntropy() if seed is None else TestingEntropy(seed))


def release_counts(
    mechanism: str, schema: Schema, counts: np.ndarray, epsilon: Fraction, workload: Workload | None
) -> Release:
    """Publish a table of counts, one for each cell, with fresh noise."""
    budget = Budget.pure(epsilon)
    cube = MECHANISMS[mechanism].run(curator_of_counts(schema, counts, budget), schema, budget, workload)
    return Release(cube, mechanism, describe_guarantee(budget, schema), private=True)
