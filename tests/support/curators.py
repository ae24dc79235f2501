"""A small schema, and curators over counts that are given, not read."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
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
    "measures": {"income": {"lower": 0, "upper": 1000, "missing": "drop"}},
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
    budget = Budget.pure(epsilon) if rho is None else Budget.zcdp(rho)
    given = {name: np.asarray(steps, dtype=np.int64) for name, steps in (sums or {}).items()}
    return over_counts(schema, np.asarray(counts, dtype=np.int64), budget, entropy or TestingEntropy(1), given)
