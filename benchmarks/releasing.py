"""A release of counts that are given, not read: everything after the reading is the product's own line."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import SystemEntropy
from sfumato.mechanisms.registry import MECHANISMS
from sfumato.publishing.publish import describe_guarantee
from sfumato.queries import Workload
from sfumato.releases.release import Release
from sfumato.schema import Schema


def release_counts(
    mechanism: str, schema: Schema, counts: np.ndarray, epsilon: Fraction, workload: Workload | None
) -> Release:
    """Publish a table of counts, one for each cell, with fresh noise."""
    flat, budget = counts.reshape(-1), Budget.pure(epsilon)
    held = np.flatnonzero(flat)
    charge = Charge(budget, schema.privacy_unit.contributions, schema.domain.size)
    curator = Curator(schema.domain, Aggregate(held, flat[held], {}), {"count": 1}, charge, SystemEntropy())
    cube = MECHANISMS[mechanism].run(curator, schema, budget, workload)
    return Release(cube, mechanism, describe_guarantee(budget, schema), private=True)
