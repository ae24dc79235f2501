"""Nets of directions: spread, public, and as wide as they say; halfspaces in scaled coordinates are the same sets."""

from __future__ import annotations

from math import pi

import numpy as np
import pytest

from sfumato.domain import Axis
from sfumato.lab.papers.halfspace.net import (
    Net,
    directions_at_random,
    grid_points,
    public_numbers,
    questions_to_try,
    scaled,
    scaled_middles,
    spread_directions,
)

AXES = (Axis("a", "integer", np.arange(11.0)), Axis("b", "number", np.array([0.0, 10.0, 50.0, 100.0])))


def test_public_numbers_are_the_same_for_everyone_and_even():
    """10,000 uniform numbers: the mean is within 5 deviations of 0.0029 (1e-6)."""
    found = public_numbers(7, "x", 10_000)
    assert found[:2].round(6).tolist() == public_numbers(7, "x", 2).round(6).tolist()
    assert not np.array_equal(found, public_numbers(8, "x", 10_000))
    assert found.min() > 0 and found.max() < 1 and abs(found.mean() - 0.5) < 0.0145


@pytest.mark.parametrize("dimensions", [1, 2, 3, 5])
def test_every_direction_has_a_canonical_one_near(dimensions):
    net = Net((AXES[0],) * dimensions, 1, dimensions, 40, 8, 1)
    assert np.allclose(np.linalg.norm(net.canonical, axis=1), 1.0)
    probes = directions_at_random(3, "other probes", 500, dimensions)
    apart = np.arccos(np.abs(probes @ net.canonical.T).max(axis=1).clip(0, 1))
    assert apart.max() <= net.angle + (0.0 if dimensions < 3 else 0.12)
    if dimensions == 2:
        assert net.angle == pi / 80
    if dimensions > 2:
        random = directions_at_random(4, "at random", 40, dimensions)
        assert apart.max() < np.arccos(np.abs(probes @ random.T).max(axis=1).min())


def test_scaled_conditions_hold_for_the_same_points():
    points = grid_points(AXES, np.arange(30))
    middles = np.array([[a, b] for a in range(10) for b in (5.0, 30.0, 75.0)])
    direction, offset = scaled(AXES, [3.0, -0.2], 4.0)
    assert np.isclose(np.linalg.norm(direction), 1.0)
    assert ((points @ direction > offset) == (middles @ [3.0, -0.2] > 4.0)).all()
    assert scaled_middles(AXES[0])[[0, -1]].tolist() == [-1.0, 1.0]


def test_a_canonical_halfspace_has_whole_bins_and_others_cut_some():
    net = Net((AXES[0],) * 2, 1, 2, 8, 10, 1)
    ((place, share),) = net.inside(net.canonical[0], 0.0)
    assert place == 0 and set(share.tolist()) == {0.0, 1.0} and share.sum() == 5
    ((_, share),) = net.inside(np.array([np.cos(0.18), np.sin(0.18)]), 0.0)
    assert ((share > 0) & (share < 1)).any()
    ((_, turned),) = net.inside(-net.canonical[0], 0.0)
    assert turned.sum() == 5 and turned[0] == 1.0


def test_projections_keep_lengths_on_average():
    """2,000 projections of a unit vector to 3 of 6 dimensions: squared lengths average 1, deviation below 0.02."""
    net = Net((AXES[0],) * 6, 2000, 3, 4, 8, 1)
    vector = spread_directions(1, 1, 3)[0].repeat(2) / np.sqrt(2)
    lengths = ((vector @ net.matrices) ** 2).sum(axis=1)
    assert not net.plain and abs(lengths.mean() - 1.0) < 0.1


def test_questions_to_try_are_of_one_attribute_up_to_all_and_hold_some_point():
    net = Net((AXES[0],) * 3, 1, 3, 8, 8, 1)
    asked = questions_to_try(net, 12)
    assert [np.count_nonzero(direction) for direction, _ in asked] == [1, 2, 3] * 4
    assert all((net.some_points @ direction > offset).any() for direction, offset in asked)
