"""Linear queries over the cells' counts, W x with W (queries, cells), answered with typical or guaranteed intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf, nan

import numpy as np

from sfumato.answers.fieller import Functional, linear_interval
from sfumato.answers.fit import Fit
from sfumato.answers.fitted_noise import at_once, noises_of
from sfumato.answers.guaranteed_columns import ends_around_value, narrower, with_ends
from sfumato.answers.noise_sum import Ends, Find, half_width, stderr
from sfumato.answers.question import MOST_COMPARED
from sfumato.answers.results import Estimate
from sfumato.domain import Domain
from sfumato.errors import QueryError
from sfumato.measurement import Noise
from sfumato.queries import Queries

WEIGHTS_AT_ONCE = 2**22  # of linear queries, laid out at a time


def answer_by_fit(queries: Queries, fit: Fit, confidence: float) -> list[Estimate]:
    """Estimates and intervals of linear queries from a fit, with the noises that enter each answer."""
    values = queries @ fit.estimate
    estimates: list[Estimate] = []
    block = at_once(queries.columns)
    for start in range(0, queries.rows, block):
        columns = queries[start : start + block].dense().T.astype(np.float64)
        order = [[place] * 3 for place in range(columns.shape[1])]
        noises = noises_of(fit, columns, order)
        for value, terms in zip(values[start : start + block].tolist(), noises, strict=True):
            if terms is None:
                estimates.append(Estimate(nan, nan, -inf, inf, confidence, nan))
                continue
            estimates.append(linear_interval(Functional(value, value, value), terms, confidence).at(confidence))
    return estimates


def answer_by_cells(queries: Queries, fit: Fit, noise: Noise, confidence: float) -> list[Estimate]:
    """Estimates and intervals of linear queries where cells have independent noise of one size."""
    values = queries @ fit.estimate
    estimates: list[Estimate] = []
    block = max(1, WEIGHTS_AT_ONCE // queries.columns)
    for start in range(0, queries.rows, block):
        for row, value in zip(queries[start : start + block].dense(), values[start : start + block], strict=True):
            sizes, counts = np.unique(np.abs(row[row != 0]), return_counts=True)
            terms = [(float(size), noise, int(count)) for size, count in zip(sizes, counts, strict=True)]
            error, width = stderr(terms), half_width(terms, confidence)
            estimates.append(Estimate(float(value), error, value - width, value + width, confidence, error))
    return estimates


def in_kind(
    queries: Queries, fit: Fit, domain: Domain, estimates: Sequence[Estimate], confidence: float, kind: str
) -> list[Estimate]:
    """Linear estimates with typical intervals, guaranteed ones or both.

    estimates: with typical intervals. fit: of the counts. kind: "typical", "guaranteed" or "both".
    """
    typical, sure = list[Estimate](), list[Estimate]()
    ends_of = _ends(queries, fit.guaranteed(domain), (1.0 - confidence) / 2.0)
    for one, (ends, least, most) in zip(estimates, ends_of, strict=True):
        other = with_ends(one, ends_around_value(one, ends))
        within = [replace(each, low=max(each.low, least), high=min(each.high, most)) for each in (one, other)]
        typical += [one] if fit.exact else narrower([one], [other], within[:1], within[1:])
        sure.append(other)
    if kind == "both":
        return [replace(one, sure=(other.low, other.high)) for one, other in zip(typical, sure, strict=True)]
    return typical if kind == "typical" else sure


def no_wider(
    queries: Queries, fit: Fit, domain: Domain, estimates: Sequence[Estimate], confidence: float
) -> Sequence[Estimate]:
    """Replace typical intervals of linear queries by guaranteed ones where these are narrower and quick to compute."""
    if fit.exact or queries.rows * queries.columns > MOST_COMPARED:
        return estimates
    try:
        return in_kind(queries, fit, domain, estimates, confidence, "typical")
    except QueryError:  # such a fit has no guaranteed intervals
        return estimates


def _ends(queries: Queries, find: Find, tail: float) -> Iterator[tuple[Ends, float, float]]:
    """Guaranteed bounds of each query, clipped at 0 where its weights have one sign, and those limits."""
    block = at_once(queries.columns)
    for start in range(0, queries.rows, block):
        for row in queries[start : start + block].dense():
            weights = np.asarray(row, dtype=np.float64)
            least, most = 0.0 if weights.min() >= 0.0 else -inf, 0.0 if weights.max() <= 0.0 else inf
            ends = find(weights, weights, tail)
            low, high = max(ends.low, least), min(ends.high, most)
            yield Ends(min(low, high), max(low, high)), least, most
