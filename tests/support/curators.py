"""A small schema, and curators over counts that are given, not read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.kernel.aggregate import Aggregate
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge
from sfumato.kernel.curator import Curator
from sfumato.kernel.sampling.entropy import Entropy, TestingEntropy
from sfumato.schema import Schema

CENSUS = {
    "dataset": "census",
    "privacy_unit": {"column": "person_id", "contributions": 1},
    "budget": {"epsilon": 3},
    "attributes": {
        "age": {"type": "integer", "lower": 0, "upper": 99},
        "sex": {"type": "category", "values": ["F", "M"]},
    },
    "measures": {"income": {"lower": 0, "upper": 1000}},
}


def curator_of(
    schema: Schema,
    counts: object,
    *,
    epsilon: Fraction | int = 1,
    sums: dict[str, object] | None = None,
    entropy: Entropy | None = None,
    rho: Fraction | None = None,
) -> Curator:
    """A curator over counts that are given, not read."""
    vector = np.asarray(counts, dtype=np.int64).reshape(-1)
    cells = np.flatnonzero(vector)
    steps = {name: np.asarray(values, dtype=np.int64).reshape(-1)[cells] for name, values in (sums or {}).items()}
    for name in schema.measures:
        steps.setdefault(name, np.zeros(len(cells), dtype=np.int64))
    budget = Budget.pure(epsilon) if rho is None else Budget.zcdp(rho)
    units = {"count": 1} | {name: measure.half_units for name, measure in schema.measures.items()}
    charge = Charge(budget, schema.privacy_unit.contributions, schema.domain.size)
    return Curator(schema.domain, Aggregate(cells, vector[cells], steps), units, charge, entropy or TestingEntropy(1))
