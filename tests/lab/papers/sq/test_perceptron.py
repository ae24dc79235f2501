"""A perceptron learns what can be parted by a line, of two classes and of three."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.domain import Axis
from sfumato.lab.papers.sq.classifiers import LARGEST as UNITS
from sfumato.lab.papers.sq.classifiers import coordinates, latest, learnt, points_of, pulls

NUMBER = Axis("x", "integer", np.arange(11.0))
KIND = Axis("kind", "category", np.arange(3.0), ("a", "b"))


def test_a_row_adds_no_more_than_its_units_along_an_attribute():
    assert np.abs(coordinates(NUMBER)).sum(axis=1).max() <= UNITS
    assert coordinates(KIND).tolist() == [[UNITS, 0], [0, UNITS]]
    missing = Axis("x", "integer", np.arange(11.0), missing=True)
    assert coordinates(missing)[-1].tolist() == [0]


@pytest.mark.parametrize("classes", [2, 3])
def test_exact_sums_part_what_can_be_parted(classes):
    x, kind = (each.reshape(-1) for each in np.meshgrid(np.arange(10), np.arange(2), indexing="ij"))
    truth = np.minimum((x + 3 * kind) // 5, classes - 1)
    axes, codes = [NUMBER, KIND], [x, kind]
    points, updates = points_of(axes, codes), []
    for _ in range(60):
        weights = latest(updates, points.shape[1], classes)
        updates.append(pulls(weights, points, truth, classes).sum(axis=0))
    model = learnt(updates, axes, classes)
    assert (model.labels[model.strata(codes)] == truth).mean() > 0.9
