"""Curators over counts that are passed in and not read from a table: public tables, synthetic ones, those of an audit.

Nothing is reserved for them in any ledger, so this must not lead to a private table. `opening.py` is the only way to
one, and an import contract keeps the code that takes a table to a release from importing this module.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sfumato.arrays import Whole
from sfumato.kernel.budget import Budget
from sfumato.kernel.counts import Aggregate
from sfumato.kernel.curator import Curator
from sfumato.kernel.opening import curator_of
from sfumato.kernel.sampling.entropy import Entropy
from sfumato.schema import Schema


def over_counts(
    schema: Schema,
    counts: Whole,
    budget: Budget,
    entropy: Entropy,
    sums: Mapping[str, Whole] | None = None,
    kind: type[Curator] = Curator,
) -> Curator:
    """A curator over the counts of all cells.

    sums: of the measures, in steps, and of rows in which they are missing; zero where they are not given.
    """
    held = np.flatnonzero(counts)
    given = {name: np.zeros_like(counts) for name in list(schema.units)[1:]} | dict(sums or {})
    steps = {name: each.reshape(-1)[held] for name, each in given.items()}
    return curator_of(schema, Aggregate(held, counts.reshape(-1)[held], steps), budget, entropy, kind)
