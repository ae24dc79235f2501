"""Trees whose leaves are cells in an order of their own, and regions that were measured more than once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.domain import Axis, Domain
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.measurement import Gaussian, Laplace, Measurement, as_one
from sfumato.models.tree.fit import FINE, TreeFit, fit_tree, has_slices, inner_nodes
from sfumato.queries import Ranges

LINE = BinaryTree.line(7)
ORDER = np.array([4, 0, 5, 1, 2, 6, 3])
THREE = Laplace(Fraction(3))


def looks(answers, lows, highs, noise=THREE) -> Measurement:
    return Measurement("count", Ranges(7, lows, highs), np.asarray(answers, dtype=np.int64), (noise,))


LEAVES = looks([900, 0, 40, 10, 700, 0, 5], range(7), range(7))


def test_an_order_only_moves_cells_about():
    plain, ordered = fit_tree(LEAVES, LINE), fit_tree(LEAVES, replace(LINE, order=ORDER))
    assert np.array_equal(ordered.estimate[ORDER], plain.estimate)
    columns = np.column_stack([np.ones(7), np.eye(7)[4], np.arange(7.0)])
    moved = np.empty_like(columns)
    moved[ORDER] = columns
    assert np.array_equal(ordered.errors(moved).model, plain.errors(columns).model)


def test_cells_that_are_neighbours_in_the_order_err_together():
    """Two cells under one coarse answer are known together and not apart; two from different ends of the tree are."""
    pairs = looks([100, 100, 100, 50], [0, 1, 3, 5], [0, 2, 4, 6])
    found = fit_tree(pairs, replace(LINE, order=ORDER))
    together, apart = np.zeros((7, 1)), np.zeros((7, 1))
    together[ORDER[[1, 2]]], apart[ORDER[[1, 3]]] = 1.0, 1.0
    assert found.errors(together).model[0, 0] < found.errors(apart).model[0, 0] / 4


def made_up(tree: BinaryTree, seed: int) -> TreeFit:
    """A fit with slopes, deviations and leanings out of the air; leanings of either sign."""
    inner, leaves = inner_nodes(tree), len(tree.order)
    words = TestingEntropy(seed).words(3 * inner + 1) % np.uint64(1000)
    numbers = words.astype(np.float64) / 256.0
    leanings = numbers[2 * inner + 1 :] - 2.0 if has_slices(tree) else np.zeros(0)
    slopes = np.rint(numbers[:inner] / 4.0 * FINE).astype(np.int64)
    whole = Measurement("count", Ranges(leaves, [0], [leaves - 1]), np.zeros(1, dtype=np.int64), (THREE,))
    return TreeFit(whole, tree, np.zeros(leaves), slopes, numbers[inner : 2 * inner + 1], leanings)


def from_above(fit: TreeFit) -> np.ndarray:
    """The covariance of all leaves, written out from the root: how each source of error enters every region."""
    tree, inner = fit.tree, inner_nodes(fit.tree)
    sources = 1 + inner + tree.height * len(tree.order)  # the whole, every division, every slice of every level
    regions, before = np.zeros((1, sources)), 0
    regions[0, 0] = fit.deviations[0]
    for level in range(tree.height):
        below = np.zeros((tree.nodes(level + 1), sources))
        for number in range(tree.nodes(level)):
            first, second = tree.pair(level, np.array([number]))[:, 0]
            if second < 0:
                below[first] = regions[number]
                continue
            place = before + number
            below[first] = fit.slopes[place] / FINE * regions[number]
            below[first, 1 + place] += fit.deviations[1 + place]
            if tree.slices[level] is not None:
                leaning = 1 + inner + level * len(tree.order) + tree.slices[level][number]
                below[first, leaning] += fit.leanings[place]
            below[second] = regions[number] - below[first]
        regions, before = below, before + tree.nodes(level)
    leaves = np.empty_like(regions)
    leaves[tree.order] = regions
    return leaves @ leaves.T


@given(
    sides=st.lists(st.tuples(st.integers(1, 5), st.sampled_from(["integer", "category"])), min_size=1, max_size=3),
    seed=st.integers(0, 10**6),
)
def test_errors_agree_with_the_covariance_of_all_leaves(sides, seed):
    axes = (Axis(f"a{place}", kind, np.arange(size + 1.0)) for place, (size, kind) in enumerate(sides))
    fit = made_up(BinaryTree.over(Domain(tuple(axes))), seed)
    leaves = len(fit.estimate)
    columns = np.column_stack([np.eye(leaves), np.ones(leaves), np.arange(leaves) % 3 - 1.0])
    found = fit.errors(columns)
    assert np.allclose(found.model, columns.T @ from_above(fit) @ columns, rtol=1e-9, atol=1e-9)
    assert not found.unknown.any() and not found.weights.any()


def test_what_leans_together_errs_together():
    """Two columns of a table whose division leans: each row's is off by a little, their sum by all of it."""
    axes = (Axis("x", "integer", np.arange(9.0)), Axis("y", "category", np.arange(3.0)))
    tree = BinaryTree.over(Domain(axes))
    fit = made_up(tree, 1)
    lean = np.zeros_like(fit.leanings)
    lean[0] = 5.0
    still = replace(fit, deviations=np.zeros_like(fit.deviations), leanings=lean)
    column = np.tile([1.0, 0.0], 8)[:, None]
    assert still.errors(column).model[0, 0] == pytest.approx(25.0)
    assert still.errors(np.ones((16, 1))).model[0, 0] == 0.0


def test_numbers_that_do_not_go_with_the_tree_are_refused():
    axes = (Axis("x", "integer", np.arange(4.0)), Axis("y", "integer", np.arange(3.0)))
    wide, line = made_up(BinaryTree.over(Domain(axes)), 1), made_up(LINE, 1)
    inner = len(wide.slopes)
    for fit, leanings in ((wide, np.zeros(0)), (wide, np.zeros(inner + 1)), (line, np.zeros(len(line.slopes)))):
        with pytest.raises(QueryError, match="leaning"):
            replace(fit, leanings=leanings)
    for change in ({"slopes": wide.slopes[1:]}, {"deviations": -wide.deviations}, {"deviations": wide.deviations[1:]}):
        with pytest.raises(QueryError, match="slopes"):
            replace(wide, **change)
    with pytest.raises(QueryError, match="far from that"):
        replace(wide, slopes=wide.slopes + 5 * FINE)
    with pytest.raises(QueryError, match="leaves"):
        replace(wide, estimate=np.zeros(5))


@pytest.mark.parametrize("family", [Laplace, Gaussian])
def test_a_region_measured_twice_is_two_observations(family):
    """Of the whole: 100 and 140 with noise of one size are 120 with half the variance; one much coarser says little."""
    fine, coarse = family(Fraction(4)), family(Fraction(10**8))
    twice = looks([100, 140], [0, 0], [6, 6], fine)
    once = looks([120], [0], [6], family(Fraction(2)) if family is Gaussian else fine)
    found, middle = fit_tree(twice, LINE), fit_tree(once, LINE)
    assert found.estimate.sum() == pytest.approx(120, abs=0.1)
    assert middle.deviations[0] == pytest.approx(once.noise.variance**0.5, rel=0.001)
    assert once.noise.variance == pytest.approx(2.0 if family is Gaussian else 32.0 - 1 / 6, rel=0.001)
    half = 1.0 if family is Gaussian else 0.5  # of the variance of one answer, which `once` has under Laplace noise
    assert found.deviations[0] ** 2 == pytest.approx(half * middle.deviations[0] ** 2, rel=0.02)
    mixed = as_one([looks([100], [0], [6], fine), looks([10**4], [0], [6], coarse)], twice.queries)
    assert fit_tree(mixed, LINE).estimate.sum() == pytest.approx(100, abs=1)


def test_measurements_are_joined_row_after_row():
    fine, coarse = Laplace(Fraction(1)), Laplace(Fraction(2))
    both = replace(looks([5, 6], [0, 1], [0, 1]), noises=(coarse, fine), which=np.array([1, 0]))
    parts = [looks([1], [0], [6], fine), both, looks([7], [2], [2], coarse)]
    joined = as_one(parts, Ranges(7, [0, 0, 1, 2], [6, 0, 1, 2]))
    assert joined.answers.tolist() == [1, 5, 6, 7] and joined.of == "count"
    noises = [joined.noises[place] for place in joined.which]
    assert noises == [fine, fine, coarse, coarse] and len(joined.noises) == 2
    assert as_one(parts[:1], parts[0].queries).which is None
