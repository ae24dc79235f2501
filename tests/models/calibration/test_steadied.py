"""An estimate brought to counts along attributes: exactly, with all rows as they were, and as sure as these are."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from fitted import SCHEMA, SIZE, example

from sfumato.answers.fit import Grouped
from sfumato.measurement import Laplace, Measurement
from sfumato.models.calibration.adjusted_fit import Along, steadied
from sfumato.queries import Identity

ALONG = Along(SCHEMA.domain, (0, 1), (3, 2))
TREE = example("leaves")


def counted(answers, scale) -> Measurement:
    return Measurement("count", Identity(len(answers)), np.array(answers), (Laplace(Fraction(scale)),))


def steady(scale):
    now = ALONG.columns.T @ TREE.estimate
    wanted = np.rint(now + np.array([40, -30, -10, 25, -25])).astype(int)
    return (wanted, *steadied(TREE, ALONG, [counted(wanted[:3], scale), counted(wanted[3:], scale)]))


def test_clear_counts_are_met_and_all_rows_stay():
    wanted, fit, known = steady(1)
    off = ALONG.columns.T @ fit.estimate - wanted
    assert np.abs(off).max() < 4.0
    assert abs(fit.estimate.sum() - TREE.estimate.sum()) < 0.1
    assert np.sqrt(np.diagonal(known.spread)).max() < 4.0


def test_counts_in_noise_move_little():
    _, fit, known = steady(10**5)
    assert np.abs(fit.estimate - TREE.estimate).max() < 0.5
    claimed = np.sqrt(np.diagonal(known.model.between))
    assert (np.sqrt(np.diagonal(known.spread)) > claimed).all()  # what noise leaves open is not taken for granted


def test_groups_have_the_same_products_as_weights_laid_out():
    *_, known = steady(3)
    group, weights = np.arange(SIZE) % 3, np.random.default_rng(1).normal(size=(SIZE, 2))
    found = known.products_by_group(Grouped.of_cells(group, 3, weights, None))
    for place in range(3):
        columns = weights * (group == place)[:, None]
        assert np.allclose(found[place], known.model.with_cells.T @ columns)
