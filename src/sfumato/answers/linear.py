"""Linear queries over the cells' counts, answered with error bars."""

from __future__ import annotations

from math import inf, nan

import numpy as np

from sfumato.answers.estimate import Estimate
from sfumato.answers.fit import Fit
from sfumato.answers.intervals.fieller import Functional, linear_interval
from sfumato.answers.intervals.noise_sum import half_width, stderr
from sfumato.answers.intervals.noise_terms import at_once, noises_of
from sfumato.measurement import Noise
from sfumato.queries import Queries

WEIGHTS_AT_ONCE = 2**22  # of linear queries, laid out at a time


def answer_by_fit(queries: Queries, fit: Fit, confidence: float) -> list[Estimate]:
    """Answers from a fit, with the noises that it says enter them."""
    values = queries @ fit.estimate
    estimates: list[Estimate] = []
    block = at_once(queries.columns)
    for start in range(0, queries.rows, block):
        columns = queries[start : start + block].dense().T.astype(np.float64)
        order = [[place] * 3 for place in range(columns.shape[1])]
        noises = noises_of([(fit, columns)], order)
        for value, found in zip(values[start : start + block].tolist(), noises, strict=True):
            if found is None:
                estimates.append(Estimate(nan, nan, -inf, inf, confidence, nan))
                continue
            one = linear_interval(Functional(value, value, value), found, confidence)
            estimates.append(Estimate(one.value, one.stderr, one.low, one.high, confidence, one.noise, one.model))
    return estimates


def answer_by_cells(queries: Queries, fit: Fit, noise: Noise, confidence: float) -> list[Estimate]:
    """The same where every cell carries the same noise by itself, so that equal weights are counted."""
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
