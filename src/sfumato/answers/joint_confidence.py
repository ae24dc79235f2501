"""Simultaneous intervals of correlated normal errors: the max-|t| quantile from their joint covariance.

With the correlation matrix R of the errors, the quantile of max_i |z_i|, z ~ N(0, R), gives half-widths that hold
together. It is computed by quasi-Monte Carlo with a fixed scrambled Sobol sequence and rounded up by twice the standard
error of as many random points.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import ceil, sqrt
from statistics import NormalDist

import numpy as np
from scipy.special import ndtri
from scipy.stats import qmc

from sfumato.answers.evaluate import Evaluation, View
from sfumato.answers.fieller import NEARLY
from sfumato.answers.fit import Errors, Fit
from sfumato.answers.fitted_noise import NUMBERS_AT_ONCE, spread_over
from sfumato.answers.question import Groups, Kinds, kinds_asked
from sfumato.arrays import Floats
from sfumato.measurement import Design, Gaussian
from sfumato.schema import Schema
from sfumato.sql import Select

POINTS = 2**14
SEED = 1  # of the scrambling: any does, and it must not change from one reading of a release to the next
ROUNDED_UP = 2.0  # standard errors of a share of so many points drawn at random; these are more even
NEGLIGIBLE = 1e-9  # of the largest eigenvalue


def joint_confidence(covariance: Floats, confidence: float) -> float:
    """Confidence of each interval so that intervals of all errors hold together; covariance is (numbers, numbers).

    >>> one = np.ones((1, 1))
    >>> round(joint_confidence(one, 0.95), 2), round(joint_confidence(np.ones((9, 9)), 0.95), 2)
    (0.95, 0.95)
    >>> 0.994 < joint_confidence(np.eye(9), 0.95) <= 1 - 0.05 / 9
    True
    """
    deviations = np.sqrt(np.diag(covariance))
    noisy = np.flatnonzero(deviations > 0.0)
    least = 1.0 - (1.0 - confidence) / max(1, len(deviations))  # no better than that is no use
    if len(noisy) < 2:
        return confidence
    correlation = covariance[np.ix_(noisy, noisy)] / np.outer(deviations[noisy], deviations[noisy])
    values, vectors = np.linalg.eigh(correlation)
    kept = values > NEGLIGIBLE * values.max()
    factors = vectors[:, kept] * np.sqrt(values[kept])
    points = qmc.Sobol(int(kept.sum()), scramble=True, seed=SEED).random(POINTS)
    largest = np.sort(np.abs(ndtri(np.clip(points, 1e-12, 1.0 - 1e-12)) @ factors.T).max(axis=1))
    beyond = ROUNDED_UP * sqrt(POINTS * confidence * (1.0 - confidence))
    rank = min(ceil(POINTS * confidence + beyond), POINTS) - 1
    if len(np.unique(np.round(np.abs(correlation), 9))) == 1:  # all the same error: nothing to round
        return confidence
    return min(least, 2.0 * NormalDist().cdf(float(largest[rank])) - 1.0)


MOST = 400  # numbers whose noises are looked at together


def together(
    select: Select, schema: Schema, view: Callable[[Kinds], View], fits: Sequence[Fit], confidence: float
) -> float | None:
    """Confidence of each number of a SELECT for simultaneous coverage; None where the noises are not near normal.

    view: of the cells along some attributes. fits: of each statistic over all cells.
    Counts and sums from least squares have errors that are weighted sums of noises: normal where the noises are, or
    where many enter each. Checked by the fourth cumulant.
    """
    columns = list(dict.fromkeys(select.aggregates))
    groups = Groups.of(select, schema.domain)
    numbers = len(groups.present) * len(columns)
    plain = all(column.rule is None and column.denominator is None for column in columns)
    if not plain or not 2 <= numbers <= MOST or schema.domain.size * numbers > NUMBERS_AT_ONCE:
        return None
    names = kinds_asked(select, schema)
    classes = {name: np.arange(schema.domain[name].size) for name in names}  # the fits are asked about single cells
    at = Evaluation(view(classes), groups, confidence)
    sides = [at.sum_of(column.numerator) for column in columns]
    if not all(side.exact for side in sides):
        return None
    inside = (at.group[:, None] == groups.present).astype(np.float64)
    found: list[Errors] = []
    for fit in fits:
        parts = []
        for side in sides:
            split, whole = (kind.get(fit.of) for kind in (side.split, side.whole))
            mine = 0.0 * inside if split is None else split.value[:, None] * inside
            parts.append(mine if whole is None else mine + whole.value[:, None])
        weights = np.concatenate(parts, axis=1)
        if not weights.any():
            continue
        errors = fit.errors(spread_over(schema.domain, tuple(at.view.cells.codes), weights))
        if errors.unknown.any() or errors.model.any():
            return None
        found.append(errors)
    covariance, fourth = np.zeros((numbers, numbers)), np.zeros(numbers)
    largest = np.max([np.abs(errors.weights).max(axis=0, initial=0.0) for errors in found], axis=0, initial=0.0)
    for errors in found:  # in units of a number's largest weight, or sums of huge values would overflow
        weights = errors.weights / np.where(largest > 0.0, largest, 1.0)
        many = np.ones(len(weights)) if errors.counts is None else errors.counts.astype(np.float64)
        covariance += weights.T @ (weights * (errors.design.variances * many)[:, None])
        fourth += (_beyond_normal(errors.design, len(many)) * many) @ weights**4
    variances = np.diag(covariance)
    if (fourth > NEARLY * variances**2).any():
        return None
    return joint_confidence(covariance, confidence)


def _beyond_normal(design: Design, rows: int) -> Floats:
    """Fourth cumulant of each measured row's noise, (rows,)."""
    cumulants = np.array(
        [0.0 if isinstance(one, Gaussian) else one.variance + 3.0 * one.variance**2 for one in design.noises]
    )
    return np.full(rows, cumulants[0]) if design.which is None else cumulants[np.asarray(design.which)]
