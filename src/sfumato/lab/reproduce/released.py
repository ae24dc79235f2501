"""The product's own mechanisms, run on synthetic tables exactly as they run on private ones."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.given_counts import over_counts
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.queries import Workload
from sfumato.releases.contents.content import Content
from sfumato.schema import Schema

Recipe = Callable[[Curator, Schema, Budget, Workload | None], Content]  # a mechanism's own function


@cache
def schema_of(shape: tuple[int, ...]) -> Schema:
    """A schema of ordered attributes with these numbers of cells, one row per person."""
    attributes = {f"axis_{place}": {"type": "integer", "lower": 0, "upper": n - 1} for place, n in enumerate(shape)}
    unit = {"column": "person", "contributions": 1}
    return Schema.from_dict(
        {"dataset": "made_up", "privacy_unit": unit, "budget": {"epsilon": 100}, "attributes": attributes}
    )


def curator_of(counts: NDArray[np.int64], epsilon: Fraction, entropy: Entropy) -> Curator:
    """A curator over counts that are made up, with a charge of its own."""
    return over_counts(schema_of(counts.shape), counts, Budget.pure(epsilon), entropy)


def released(
    mechanism: Recipe, counts: NDArray[np.int64], epsilon: Fraction, entropy: Entropy, workload: Workload | None = None
) -> Floats:
    """The estimate of every cell that a mechanism publishes, in the shape of the counts."""
    curator, schema = curator_of(counts, epsilon, entropy), schema_of(counts.shape)
    content = mechanism(curator, schema, Budget.pure(epsilon), workload)
    return content.cells().reshape(counts.shape)
