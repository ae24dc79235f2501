"""Buckets halved again and again: contrasts at right angles, exact noise weights, what is kept and left out."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Laplace, Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.buckets import Halvings, kept_and_deviation
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.queries import Identity, Tree

LABELS = np.array([1, 0, 0, 1, 0, 2, 0])
ORDER = np.array([6, 1, 2, 4, 3, 0, 5])


def measured(answers, scale=2, queries=None):
    queries = queries or Identity(len(answers))
    return Measurement("count", queries, np.array(answers, dtype=np.int64), (Laplace(Fraction(scale)),))


def fit(**more) -> ShrinkageFit:
    given = {
        "labels": LABELS,
        "order": ORDER,
        "totals": LinearFit.of_answers(measured([30, 8, 5])),
        "cells": measured([3, 12, 9, 4, 1, 7, 0], scale=3),
        "lean": np.array([0.25, 0.5, 0.0]),
        "keep": np.array([0.5, 0.25, 0.75]),
        "deviations": np.array([4.0, 2.0, 1.0]),
    }
    return ShrinkageFit(**given | more)


def test_contrasts_are_at_right_angles_and_make_up_the_cells_again():
    sizes = np.array([7, 1, 4, 33])
    halvings = Halvings.of(sizes)
    basis = halvings.contrasts(np.eye(45))
    assert np.allclose(basis @ basis.T, np.eye(45 - 4))
    values = np.arange(45.0)[:, None] ** 2
    means = np.repeat(np.add.reduceat(values[:, 0], np.cumsum(sizes) - sizes) / sizes, sizes)
    assert np.allclose(halvings.spread_out(halvings.contrasts(values), 45)[:, 0] + means, values[:, 0])


def test_families_are_of_one_depth_and_part_and_follow_their_parents():
    halvings = Halvings.of(np.array([256, 256]))
    assert np.bincount(halvings.family).max() == 16
    assert (halvings.above[halvings.depth == 0] == -1).all() and (halvings.depth == 0).sum() == 2
    assert (halvings.depth[halvings.above[halvings.depth > 0]] == halvings.depth[halvings.depth > 0] - 1).all()


def test_keeping_everything_is_least_squares_and_keeping_nothing_is_even():
    noisy, totals = np.array([3, 12, 9, 4, 1, 7, 0]), np.array([30, 8, 5])
    lean = np.array([0.25, 0.5, 0.0])
    sums, sizes = np.bincount(LABELS, weights=noisy), np.bincount(LABELS)
    whole = (1 - lean) * totals + lean * sums
    assert np.allclose(fit(keep=np.ones(3)).estimate, noisy + ((whole - sums) / sizes)[LABELS], atol=1e-3)
    assert np.allclose(fit(keep=np.zeros(3)).estimate, (whole / sizes)[LABELS], atol=1e-3)


def test_noise_weights_reproduce_the_estimate_of_any_sum():
    found, columns = fit(), np.array([[1.0, 0], [1, 0], [0, 2], [1, 0], [0, -1], [0, 1], [3, 1]])
    errors = found.errors(columns)
    answers = np.concatenate([found.cells.answers, found.totals.measurement.answers])
    assert np.allclose(errors.weights.T @ answers, columns.T @ found.estimate, atol=0.02)
    assert errors.design.variances.tolist() == [Laplace(Fraction(3)).variance] * 7 + [Laplace(Fraction(2)).variance] * 3


def test_what_is_left_out_errs_together_at_one_size_and_vanishes_for_whole_buckets():
    labels, order = np.zeros(4, dtype=np.int64), np.arange(4)
    found = fit(
        labels=labels,
        order=order,
        totals=LinearFit.of_answers(measured([9])),
        cells=measured([1, 2, 3, 4]),
        lean=np.zeros(1),
        keep=np.array([0.5, 0.5]),
        deviations=np.array([8.0, 2.0]),
    )
    columns = np.array([[1.0, 1, 1, 1], [1, 1, 0, 0], [1, 0, 1, 0]]).T
    whole, half, every_other = np.diagonal(found.errors(columns).model)
    assert whole == pytest.approx(0.0)
    assert half == pytest.approx(4.0**2)  # a contrast of length 1, half of a deviation of 8 left out
    assert every_other == pytest.approx((2 * 1.0 * np.sqrt(0.5)) ** 2)  # two halvings, added up before they are squared


@pytest.mark.parametrize("cells", [256, 4096])
def test_even_cells_are_evened_out_and_a_slope_is_kept(cells):
    """Noise of scale 10 on nothing, and on a slope of 1 per cell; the noise is always the same."""
    halvings, noise = Halvings.of(np.array([cells])), Laplace(Fraction(10))
    noisy = draw(noise, cells, TestingEntropy(5)).astype(float)
    kept, _ = kept_and_deviation(halvings, noisy, noise.variance)
    assert kept.mean() < 0.2 and kept[halvings.depth == halvings.depth.max()].mean() < 0.2
    kept, spread = kept_and_deviation(halvings, noisy + np.arange(cells), noise.variance)
    assert kept[halvings.depth <= 1].min() > 0.9 and spread[0] > 1000
    assert kept[halvings.depth == halvings.depth.max()].mean() < 0.5


def test_rough_cells_are_kept_and_cells_without_noise_are_the_truth():
    halvings, noise = Halvings.of(np.array([300, 1])), Laplace(Fraction(2))
    rough = (np.arange(301) * 7919 % 101) * 10.0
    kept, _ = kept_and_deviation(halvings, rough + draw(noise, 301, TestingEntropy(6)), noise.variance)
    members = np.bincount(halvings.family)
    assert (kept * members).sum() / members.sum() > 0.98
    assert kept_and_deviation(halvings, rough, 0.0)[0].min() == 1.0
    closer = kept_and_deviation(halvings, np.zeros(301), noise.variance)  # closer than the noise can have left them
    assert np.isfinite(closer).all() and closer[0].max() < 0.5


@pytest.mark.parametrize(
    "wrong",
    [
        {"labels": np.array([1, 0, 0, 1, 0, 0, 0])},
        {"labels": np.array([1, 0, 0, 1, 0, -1, 0])},
        {"order": np.arange(7)},
        {"order": np.array([6, 1, 2, 2, 3, 0, 5])},
        {"cells": measured([1, 2, 3])},
        {"totals": LinearFit.of_answers(measured([1, 2, 3, 4, 5], queries=Tree(3, 2)))},
        {"keep": np.ones(2)},
        {"deviations": np.ones(4)},
        {"lean": np.ones(2)},
    ],
)
def test_parts_that_do_not_fit_are_refused(wrong):
    with pytest.raises(QueryError):
        fit(**wrong)
