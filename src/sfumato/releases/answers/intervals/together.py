"""The numbers of one answer as one: the covariance of their noises, where it says all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.arrays import Floats
from sfumato.intervals.noise_terms import NUMBERS_AT_ONCE, spread_over
from sfumato.intervals.noises import NEARLY
from sfumato.intervals.together import joint_confidence
from sfumato.measurement import Design, Gaussian
from sfumato.releases.answers.alike import kinds_asked
from sfumato.releases.answers.evaluate import Evaluation
from sfumato.releases.answers.groups import Groups
from sfumato.sql import Select

if TYPE_CHECKING:
    from sfumato.releases.contents.cube import Cube

MOST = 400  # numbers whose noises are looked at together


def together(select: Select, content: Cube, confidence: float) -> float | None:
    """The confidence of each number with which all hold together; None where their noises are not about normal.

    Sums of counts and amounts from least squares have errors that are sums of noises: normal where these are, or where
    many enter each.
    """
    columns = list(dict.fromkeys(select.aggregates))
    groups = Groups.of(select, content.domain)
    numbers = len(groups.present) * len(columns)
    plain = all(column.rule is None and column.denominator is None for column in columns)
    if not plain or not 2 <= numbers <= MOST or content.domain.size * numbers > NUMBERS_AT_ONCE:
        return None
    names = kinds_asked(select, content.schema)
    each = {name: np.arange(content.domain[name].size) for name in names}  # the fits are asked about single cells
    at = Evaluation(content.view(each), groups, confidence)
    sides = [at.sum_of(column.numerator) for column in columns]
    if not all(side.exact for side in sides):
        return None
    inside = (at.group[:, None] == groups.present).astype(np.float64)
    covariance, fourth = np.zeros((numbers, numbers)), np.zeros(numbers)
    for fit in content.fits:
        parts = []
        for side in sides:
            split, whole = (kind.get(fit.of) for kind in (side.split, side.whole))
            mine = 0.0 * inside if split is None else split.value[:, None] * inside
            parts.append(mine if whole is None else mine + whole.value[:, None])
        weights = np.concatenate(parts, axis=1)
        if not weights.any():
            continue
        errors = fit.errors(spread_over(content.domain, tuple(at.view.cells.codes), weights))
        if errors.unknown.any() or errors.model.any():
            return None
        many = np.ones(len(errors.weights)) if errors.counts is None else errors.counts.astype(np.float64)
        covariance += errors.weights.T @ (errors.weights * (errors.design.variances * many)[:, None])
        fourth += (_beyond_normal(errors.design, len(many)) * many) @ errors.weights**4
    variances = np.diag(covariance)
    if (fourth > NEARLY * variances**2).any():
        return None
    return joint_confidence(covariance, confidence)


def _beyond_normal(design: Design, rows: int) -> Floats:
    """The fourth cumulant of each noise."""
    each = np.array(
        [0.0 if isinstance(one, Gaussian) else one.variance + 3.0 * one.variance**2 for one in design.noises]
    )
    return np.full(rows, each[0]) if design.which is None else np.asarray(each[design.which])
