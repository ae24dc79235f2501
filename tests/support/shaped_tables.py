"""Small tables of several shapes, and how often intervals of a learned shape hold on them."""

from __future__ import annotations

import numpy as np
from curators import curator_of

from sfumato.kernel.budget import Budget
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.queries import AllRanges
from sfumato.schema import Schema

CELLS = 48
X = np.arange(CELLS)
SHAPES = {
    "smooth": (60 + 25 * np.sin(X / 8)).astype(np.int64),
    "sparse": np.where(X * 7 % 11 == 0, 400 + 10 * X, 0),
    "spike": np.where(X == 13, 4000, 0),
    "nothing": np.zeros(CELLS, dtype=np.int64),
}


def line(cells: int = CELLS, contributions: int = 1, **more: object) -> Schema:
    return Schema.from_dict(
        {
            "dataset": "t",
            "privacy_unit": {"column": "person", "contributions": contributions},
            "attributes": {"x": {"type": "integer", "lower": 0, "upper": cells - 1}},
            **more,
        }
    )


def coverage(mechanism, counts: np.ndarray, releases: int) -> float:
    """How many of the workload's queries 95 % intervals hold, the total's noise taken as normal."""
    schema, queries, held = line(), AllRanges(CELLS), []
    columns = queries.dense().T.astype(np.float64)
    for seed in range(releases):
        curator = curator_of(schema, counts, entropy=TestingEntropy(seed))
        fit = mechanism(curator, schema, Budget.pure(1)).fits[0]
        errors = fit.errors(columns)
        noise = (errors.weights**2 * errors.design.variances[:, None]).sum(axis=0)
        reach = 1.96 * np.sqrt(np.diagonal(errors.model) + noise)
        held.append(np.mean(np.abs(queries @ (fit.estimate - counts)) <= reach + 0.5))
    return float(np.mean(held))
