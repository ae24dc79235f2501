"""Linear queries over the cells' counts, with intervals of the kind that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from sfumato.inference.fits.base import Fit
from sfumato.intervals.guaranteed.ends import Ends
from sfumato.intervals.guaranteed.regions import finder
from sfumato.intervals.noise_terms import at_once
from sfumato.queries import Queries
from sfumato.releases.answers.estimate import Estimate
from sfumato.releases.answers.intervals.columns import around, with_ends


def in_kind(queries: Queries, fit: Fit, found: Sequence[Estimate], confidence: float, kind: str) -> list[Estimate]:
    """Estimates with guaranteed ends, or with both. found: with typical ones. fit: of the counts."""
    each = zip(found, _ends(queries, fit, (1.0 - confidence) / 2.0), strict=True)
    sure = [(one, around(one, ends)) for one, ends in each]
    if kind == "both":
        return [replace(one, sure=(ends.low, ends.high)) for one, ends in sure]
    return [with_ends(one, ends) for one, ends in sure]


def _ends(queries: Queries, fit: Fit, tail: float) -> Iterator[Ends]:
    """Of every query; no count is negative, so no sum of them with weights that are not."""
    find, block = finder(fit), at_once(queries.columns)
    for start in range(0, queries.rows, block):
        for row in queries[start : start + block].dense():
            weights = np.asarray(row, dtype=np.float64)
            ends = find(weights, weights, tail)
            low = max(ends.low, 0.0) if weights.min() >= 0.0 else ends.low
            high = min(ends.high, 0.0) if weights.max() <= 0.0 else ends.high
            yield Ends(min(low, high), max(low, high))
