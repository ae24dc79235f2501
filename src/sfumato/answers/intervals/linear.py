"""Linear queries over the cells' counts, with intervals of the kind that is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from sfumato.answers.estimate import Estimate
from sfumato.answers.fit import Fit
from sfumato.answers.guaranteed.ends import Ends, Find
from sfumato.answers.intervals.columns import around, narrower, with_ends
from sfumato.answers.intervals.manner import MOST_COMPARED
from sfumato.answers.intervals.noise_terms import at_once
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.queries import Queries


def in_kind(
    queries: Queries, fit: Fit, domain: Domain, found: Sequence[Estimate], confidence: float, kind: str
) -> list[Estimate]:
    """Estimates with guaranteed ends, with both, or typical ones. found: with typical ones. fit: of the counts."""
    typical, sure = list[Estimate](), list[Estimate]()
    ends_of = _ends(queries, fit.guaranteed(domain), (1.0 - confidence) / 2.0)
    for one, (ends, least, most) in zip(found, ends_of, strict=True):
        other = with_ends(one, around(one, ends))
        within = [replace(each, low=max(each.low, least), high=min(each.high, most)) for each in (one, other)]
        typical += [one] if fit.exact else narrower([one], [other], within[:1], within[1:])
        sure.append(other)
    if kind == "both":
        return [replace(one, sure=(other.low, other.high)) for one, other in zip(typical, sure, strict=True)]
    return typical if kind == "typical" else sure


def no_wider(
    queries: Queries, fit: Fit, domain: Domain, found: Sequence[Estimate], confidence: float
) -> Sequence[Estimate]:
    """Typical estimates, none with a wider interval than the guaranteed one, where there is such and it is quick."""
    if fit.exact or queries.rows * queries.columns > MOST_COMPARED:
        return found
    try:
        return in_kind(queries, fit, domain, found, confidence, "typical")
    except QueryError:  # such a fit has no guaranteed intervals
        return found


def _ends(queries: Queries, find: Find, tail: float) -> Iterator[tuple[Ends, float, float]]:
    """Of every query, and what its answer cannot leave: no count is negative, so no sum of them with such weights."""
    block = at_once(queries.columns)
    for start in range(0, queries.rows, block):
        for row in queries[start : start + block].dense():
            weights = np.asarray(row, dtype=np.float64)
            least, most = 0.0 if weights.min() >= 0.0 else -inf, 0.0 if weights.max() <= 0.0 else inf
            ends = find(weights, weights, tail)
            low, high = max(ends.low, least), min(ends.high, most)
            yield Ends(min(low, high), max(low, high)), least, most
