"""Regions found in noisy cells, orders along a curve, and trees over buckets."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Laplace
from sfumato.models.partition.dawa import along_curve, curve_order
from sfumato.models.partition.ispe import noise_left, smooth
from sfumato.models.partition.search import grow_buckets, halving_order, in_quarters, split_by_tree


@pytest.mark.parametrize("shape", [(8, 8), (4, 4, 4), (2, 2, 2, 2)])
def test_the_curve_steps_from_neighbour_to_neighbour_and_misses_no_cell(shape):
    places = np.indices(shape).reshape(len(shape), -1)
    position = along_curve(places)
    assert sorted(position.tolist()) == list(range(position.size))
    steps = np.abs(np.diff(places[:, np.argsort(position)], axis=1)).sum(axis=0)
    assert (steps == 1).all()


def test_categories_are_kept_apart_and_every_cell_appears_once():
    domain = Domain(
        (
            Axis("x", "integer", np.arange(6.0)),
            Axis("sex", "category", np.arange(3.0), ("F", "M")),
            Axis("y", "integer", np.arange(4.0)),
        )
    )
    order = curve_order(domain)
    assert sorted(order.tolist()) == list(range(domain.size))
    assert (np.diff(domain.codes_along("sex", order)) != 0).sum() == 1


def test_regions_grow_by_absolute_difference_and_stay_connected():
    grid = np.array([[0.0, 0.5, 9.0], [0.2, 9.0, 9.2], [9.0, 0.0, 0.0]])
    labels = grow_buckets(grid, [0, 1], 1.0).reshape(3, 3)
    assert labels[0, 0] == labels[0, 1] == labels[1, 0]
    assert labels[2, 1] == labels[2, 2] != labels[0, 0]  # alike, and not connected
    assert labels[0, 2] == labels[1, 1] == labels[1, 2] != labels[2, 0]
    assert len(np.unique(grow_buckets(grid, [1], 1.0))) == 6  # along one axis only


def test_the_tree_finds_boxes_and_a_lone_cell_and_cuts_noise_seldom():
    """20 tables of 1,024 cells of pure noise; a cut is made in fewer than one in ten of the places it is looked for."""
    noise = Laplace(Fraction(10))
    grid = np.zeros((32, 32))
    grid[:8, :16] = 100
    grid[20, 20] = 900
    entropy = TestingEntropy(3)
    noisy = grid + draw(noise, 1024, entropy).reshape(32, 32)
    labels = split_by_tree(noisy, noise.variance).reshape(32, 32)
    assert len(np.unique(labels[:8, :16])) <= 3
    assert not np.isin(labels[8:], labels[:8, :16]).any() or not np.isin(labels[:8, 16:], labels[:8, :16]).any()
    assert (labels == labels[20, 20]).sum() == 1
    found = [int(split_by_tree(draw(noise, 1024, entropy).astype(float), noise.variance).max()) for _ in range(20)]
    assert np.mean(found) < 15


def test_quarters_are_even_and_inside_their_regions():
    labels = np.repeat([0, 1, 2], [10, 1, 7])
    parts, region = in_quarters(labels, [np.arange(18)])
    assert (region[parts] == labels).all()
    assert np.bincount(region).tolist() == [4, 1, 4]
    assert np.bincount(parts).max() <= 3


def test_the_gaussian_filter_is_the_papers_and_its_noise_is_known():
    grid = np.zeros((5, 5))
    grid[2, 2] = 1.0
    once = smooth(grid, [0, 1], "gaussian", 1)
    assert np.allclose(
        once[1:4, 1:4], [[0.0113, 0.0838, 0.0113], [0.0838, 0.6193, 0.0838], [0.0113, 0.0838, 0.0113]], atol=1e-4
    )
    noise = draw(Laplace(Fraction(30)), 200_000, TestingEntropy(2)).astype(float)
    left = np.diff(smooth(noise, [0], "gaussian", 5)).std() / noise.std()
    assert left == pytest.approx(noise_left([0], "gaussian", 5), rel=0.03)  # ten standard errors at least
    with pytest.raises(QueryError, match="no smoothing"):
        smooth(grid, [0], "wavy", 1)


def test_regions_are_ordered_so_that_halving_a_stretch_halves_the_region_across_its_longest_axis():
    rows, columns = np.indices((4, 8)).reshape(2, -1)
    labels = (columns >= 6).astype(np.int64)
    order = halving_order(labels, [rows, columns])
    assert (np.diff(labels[order]) >= 0).all() and sorted(order.tolist()) == list(range(32))
    assert set(columns[order[:12]]) == {0, 1, 2}  # 4 x 6 cells: across the columns first
    assert set(rows[order[:6]]) == {0, 1}
    assert set(rows[order[24:28]]) == {0, 1}  # 4 x 2 cells: across the rows first


def test_a_slope_is_cut_at_round_places_and_a_step_where_it_is():
    noise, entropy = Laplace(Fraction(10)), TestingEntropy(4)
    slope = np.arange(256.0) + draw(noise, 256, entropy)
    assert np.diff(split_by_tree(slope, noise.variance))[127] != 0
    step = np.where(np.arange(256) < 37, 0.0, 300.0) + draw(noise, 256, entropy)
    assert np.diff(split_by_tree(step, noise.variance))[36] != 0
