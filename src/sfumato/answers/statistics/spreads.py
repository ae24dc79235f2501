"""Variances and standard deviations, from counts: three sums over rows, and the place of rows inside bins.

The variance of the middles of bins is S / N - (M / N)^2 with N the rows, M the sum of their middles and S that of the
squares: a function of three noisy sums, whose interval functions.py finds. A row lies within half a bin of its middle,
so the standard deviations of rows and of middles differ by at most (the root mean square of) half a bin, by the
triangle inequality: the interval is made wider by that. The value stays that of the middles. Rows that are spread
evenly inside each bin would have a variance larger by width^2 / 12, rows of a smooth distribution one smaller by as
much (Sheppard 1898); the middles lie between.
"""

from __future__ import annotations

from dataclasses import replace
from math import hypot, inf, isfinite, isnan, nan, sqrt

import numpy as np

from sfumato.answers.estimate import Estimate
from sfumato.answers.evaluate import Evaluation
from sfumato.answers.intervals.fieller import Functional, Interval, Term, ratio_interval
from sfumato.answers.intervals.functions import function_interval
from sfumato.answers.statistics.along import Along
from sfumato.answers.view import Terms
from sfumato.arrays import Floats
from sfumato.sql import Column
from sfumato.sql.statistics.rules import Spread


def spreads(column: Column, rule: Spread, evaluation: Evaluation) -> list[Estimate]:
    """A variance or standard deviation for every present group."""
    along = Along.of(rule, evaluation)
    at = along.evaluation
    low, middle, high = along.axis.amounts
    centre = _centres(along, middle)  # squares of large numbers would cost digits
    half = (high - low) / 2.0
    sums = [
        at.sum_of((along.counted,)),
        along.sum(lambda group, cell: middle[cell] - centre[group]),
        along.sum(lambda group, cell: (middle[cell] - centre[group]) ** 2),
        along.sum(lambda _group, cell: half[cell] ** 2),
    ]
    values = [at.values_of(one) for one in sums]
    found = []
    for group, terms in zip(at.groups.present, at.view.noises.terms(sums, at.view.cells, at.groups), strict=True):
        if terms is None:
            evaluation.undetermined.append(column)
        numbers = [Functional(*(float(part[group]) for part in each)) for each in values]
        bins = float(half.min()), float(half.max())
        found.append(_estimate(numbers, terms, rule, at.confidence, bins, float(high.max() - low.min())))
    return found if rule.grouped else found * len(evaluation.groups.present)


def _centres(along: Along, middle: Floats) -> Floats:
    """About the mean of each group."""
    counts = np.maximum(along.histogram()[0], 0.0)
    total = counts.sum(axis=1)
    return np.where(total > 0.0, counts @ middle / np.where(total > 0.0, total, 1.0), middle.mean())


def _estimate(
    sums: list[Functional], terms: Terms, rule: Spread, confidence: float, bins: tuple[float, float], span: float
) -> Estimate:
    """bins: half the width of the narrowest and of the widest; span: from the least value there can be to the most."""
    less = 1.0 if rule.sample else 0.0
    most = span / (sqrt(2.0) if rule.sample else 2.0)  # two rows, at either end
    reach = widest = bins[1]

    def variance(x: Floats) -> tuple[float, Floats]:
        rows, first, second = x[0], x[1], x[2]
        divisor = rows - less
        value = (second - first**2 / rows) / divisor
        along = np.array([(first / rows) ** 2 - value, -2.0 * first / rows, 1.0, 0.0]) / divisor
        return float(value), along

    def rows_left(x: Floats) -> tuple[float, Floats]:
        return float(x[0] - less), np.array([1.0, 0.0, 0.0, 0.0])

    known = terms is not None and sums[0].value > less
    value = sqrt(max(variance(np.array([one.value for one in sums]))[0], 0.0)) if known else nan
    found = function_interval(variance, [rows_left], sums, terms, confidence) if terms is not None and known else None
    if found is None or terms is None:
        found = Interval(nan, nan, 0.0, inf, nan)
    elif bins[0] < widest:
        # Of bins of several widths: their mean square, as far as it is sure.
        parts = [
            replace(
                Term.of(term.noise, term.multiplicity, *term.weights[9:], *term.weights[:3]),
                model=term.model,
                far=term.far,
            )
            for term in terms
        ]
        reach = sqrt(min(ratio_interval(sums[3], sums[0], parts, confidence, (0.0, widest**2)).high, widest**2))
    wider = reach * (sqrt(sums[0].value / (sums[0].value - less)) if known else 1.0)
    low = max(sqrt(max(found.low, 0.0)) - wider, 0.0)
    high = min(sqrt(max(found.high, 0.0)) + wider, most)
    value = min(value, most)
    noise, model = (high - low) / 4.0, wider / sqrt(3.0)  # as wide as what is possible, where no more is known
    if value > 0.0 and isfinite(found.noise):
        noise, model = found.noise / (2.0 * value), hypot(found.model / (2.0 * value), model)
    if isnan(value):
        noise = model = nan
    if rule.root:
        return Estimate(value, hypot(noise, model), low, high, confidence, noise, model)
    noise, model = 2.0 * value * noise, 2.0 * value * model
    return Estimate(value * value, hypot(noise, model), low * low, high * high, confidence, noise, model)
