"""The posterior over a binary tree: closed forms where there are any, sense where there are none, honest deviations."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.domain import Axis, Domain
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Gaussian, Laplace, Measurement
from sfumato.models.tree.fit import TreeFit, fit_tree, inner_nodes
from sfumato.queries import Identity, Ranges


def leaves(answers: object, noise: Laplace | Gaussian) -> Measurement:
    values = np.asarray(answers, dtype=np.int64)
    each = np.arange(len(values))
    return Measurement("count", Ranges(len(values), each, each), values, (noise,))


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_without_noise_to_speak_of_the_estimate_is_the_truth(count):
    true = (np.arange(count) * 37 % 11) * 1000
    found = fit_tree(leaves(true, Laplace(Fraction(1, 4))), BinaryTree.line(count))
    assert np.allclose(found.estimate, true, atol=2.0)
    assert len(found.slopes) == inner_nodes(found.tree)


@pytest.mark.parametrize("noise", [Laplace(Fraction(20)), Gaussian(Fraction(800))])
def test_sparse_and_even_tables_come_out_better_than_their_noise(noise):
    """20 draws each: squared errors beside those of the noisy counts, of prefixes where most cells are empty, of single
    cells where all are alike. The median of 60 draws was a seventh of that of the noise or less; a third is asked for.
    """
    sparse, even = np.zeros(256, dtype=np.int64), np.full(256, 60)
    sparse[[17, 18, 130]] = 900, 400, 2500
    for number, true in enumerate((sparse, even)):
        errors = []
        for run in range(20):
            noisy = true + draw(noise, 256, TestingEntropy(100 * number + run))
            estimate = fit_tree(leaves(noisy, noise), BinaryTree.line(256)).estimate
            off = [np.cumsum(found - true) if number == 0 else found - true for found in (estimate, noisy)]
            errors.append([float((one**2).mean()) for one in off])
        ours, plain = np.median(errors, axis=0)
        assert ours < plain / 3


@pytest.mark.full
def test_deviations_say_how_far_off_ranges_are():
    """60 draws of a table of a few full cells, 50 ranges each: the part within 1.96 deviations.

    Ranges of one draw share noise, so about 60 count: five standard errors below 95 % are 81 %.
    """
    true = np.zeros(256, dtype=np.int64)
    true[[17, 18, 60, 130, 200]] = 900, 400, 150, 2500, 700
    places = (TestingEntropy(3).words(100) % np.uint64(256)).astype(np.int64)
    low, high = np.sort(places.reshape(2, 50), axis=0)
    columns = ((np.arange(256)[:, None] >= low) & (np.arange(256)[:, None] <= high)).astype(np.float64)
    noise, held = Laplace(Fraction(20)), []
    for run in range(60):
        found = fit_tree(leaves(true + draw(noise, 256, TestingEntropy(run)), noise), BinaryTree.line(256))
        deviations = np.sqrt(np.diagonal(found.errors(columns).model))
        held.append(np.abs(columns.T @ (found.estimate - true)) <= 1.96 * deviations)
    assert np.mean(held) > 0.81


def test_a_node_measured_above_its_leaves_counts_and_sums_of_all_leaves_agree_with_it():
    queries = Ranges(4, [0, 0, 1, 2, 3], [3, 0, 1, 2, 3])
    noises = Laplace(Fraction(50)), Laplace(Fraction(1, 4))
    answers, which = np.array([1000, 230, 260, 240, 210]), np.array([1, 0, 0, 0, 0])
    found = fit_tree(Measurement("count", queries, answers, noises, which), BinaryTree.line(4))
    assert found.estimate.sum() == pytest.approx(1000, abs=2)


def square(side: int) -> BinaryTree:
    axes = (Axis(name, "integer", np.arange(side + 1.0)) for name in ("x", "y"))
    return BinaryTree.over(Domain(tuple(axes)))


def squared_errors(tables: list[np.ndarray], noise: Laplace, *trees: BinaryTree) -> list[float]:
    """For each tree over the cells of a table, the mean squared error of a cell where each was measured by itself."""
    found = [0.0] * len(trees)
    for run, table in enumerate(tables):
        true = table.reshape(-1)
        noisy = true + draw(noise, len(true), TestingEntropy(run))
        for place, tree in enumerate(trees):
            estimate = fit_tree(leaves(noisy[tree.order], noise), tree).estimate
            found[place] += float(((estimate - true) ** 2).mean()) / len(tables)
    return found


def test_slices_serve_attributes_that_have_nothing_to_do_with_each_other():
    """12 draws of tables whose cells are products; noise of about the size of most cells.

    Slices left 0.44 of the squared error of the same tree without them and 0.50 of that of a line, with deviations of
    0.045 over eight trials of this size: 0.75 is more than five of them away.
    """
    places = TestingEntropy(5).words(12 * 2 * 16).reshape(12, 2, 16) % np.uint64(100)
    tables = [np.rint(np.outer(*np.exp(3.0 * (one / 100.0))) / 2).astype(np.int64) for one in places]
    tree = square(16)
    alone = replace(tree, slices=(None,) * tree.height)
    with_slices, without, line = squared_errors(tables, Laplace(Fraction(15)), tree, alone, BinaryTree.line(256))
    assert with_slices < 0.75 * without and with_slices < 0.75 * line


def test_slices_cost_nothing_where_attributes_hang_together():
    """12 draws of a table with one full diagonal, where every node divides in its own way: 1.06 times was
    seen, and a fifth more is let pass."""
    tree = square(16)
    alone = replace(tree, slices=(None,) * tree.height)
    with_slices, without = squared_errors([300 * np.eye(16, dtype=np.int64)] * 12, Laplace(Fraction(15)), tree, alone)
    assert with_slices < 1.2 * without


def test_leaves_may_be_buckets_of_many_cells():
    """Where a bucket was not measured, it gets the share of its cells, not an even one: 3 of 4, and none of no rows."""
    whole = Measurement("count", Ranges(2, [0], [1]), np.array([1000]), (Laplace(Fraction(1)),))
    for sizes in ([3, 1], [1, 3]):
        estimate = fit_tree(whole, BinaryTree.line(2), np.array(sizes)).estimate
        assert estimate == pytest.approx(250.0 * np.array(sizes), rel=0.02)


def test_what_is_not_a_tree_is_refused():
    noise, line = Laplace(Fraction(1)), BinaryTree.line(4)
    whole = Measurement("count", Identity(4), np.arange(4), (noise,))
    with pytest.raises(QueryError, match="ranges"):
        fit_tree(whole, line)
    with pytest.raises(QueryError, match="its own regions"):
        fit_tree(Measurement("count", Ranges(4, [1], [2]), np.arange(1), (noise,)), line)
    with pytest.raises(QueryError, match="slopes"):
        TreeFit(whole, line, np.zeros(4), np.zeros(2, dtype=np.int64), np.zeros(4), np.zeros(0))
    with pytest.raises(QueryError, match="4 leaves"):
        TreeFit(whole, line, np.zeros(5), np.zeros(3, dtype=np.int64), np.zeros(4), np.zeros(0))
