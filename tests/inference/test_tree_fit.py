"""Trees whose leaves are cells in an order of their own, and regions that were measured more than once."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import QueryError
from sfumato.inference.tree_fit import fit_tree, is_order
from sfumato.measurement import Gaussian, Laplace, Measurement, as_one
from sfumato.queries import Ranges

ORDER = np.array([4, 0, 5, 1, 2, 6, 3])
ONES = np.ones(7, dtype=np.int64)


THREE = Laplace(Fraction(3))


def looks(answers, lows, highs, noise=THREE) -> Measurement:
    return Measurement("count", Ranges(7, lows, highs), np.asarray(answers, dtype=np.int64), (noise,))


LEAVES = looks([900, 0, 40, 10, 700, 0, 5], range(7), range(7))


def test_an_order_only_moves_cells_about():
    plain, ordered = fit_tree(LEAVES, ONES), fit_tree(LEAVES, ONES, ORDER)
    assert np.array_equal(ordered.estimate[ORDER], plain.estimate)
    columns = np.column_stack([np.ones(7), np.eye(7)[4], np.arange(7.0)])
    moved = np.empty_like(columns)
    moved[ORDER] = columns
    assert np.array_equal(ordered.errors(moved).model, plain.errors(columns).model)


def test_cells_that_are_neighbours_in_the_order_err_together():
    """Two cells under one coarse answer are known together and not apart; two from different ends of the tree are."""
    pairs = looks([100, 100, 100, 50], [0, 1, 3, 5], [0, 2, 4, 6])
    found = fit_tree(pairs, ONES, ORDER)
    together, apart = np.zeros((7, 1)), np.zeros((7, 1))
    together[ORDER[[1, 2]]], apart[ORDER[[1, 3]]] = 1.0, 1.0
    assert found.errors(together).model[0, 0] < found.errors(apart).model[0, 0] / 4


@pytest.mark.parametrize("order", [np.arange(6), np.zeros(7, dtype=np.int64), np.arange(7) - 1, np.full(7, 2**62)])
def test_what_is_no_order_is_refused(order):
    assert not is_order(order, 7)
    with pytest.raises(QueryError, match="each once"):
        replace(fit_tree(LEAVES, ONES), order=order)


@pytest.mark.parametrize("family", [Laplace, Gaussian])
def test_a_region_measured_twice_is_two_observations(family):
    """Of the whole: 100 and 140 with noise of one size are 120 with half the variance; one much coarser says little."""
    fine, coarse = family(Fraction(4)), family(Fraction(10**8))
    twice = looks([100, 140], [0, 0], [6, 6], fine)
    once = looks([120], [0], [6], family(Fraction(2)) if family is Gaussian else fine)
    found, middle = fit_tree(twice, ONES), fit_tree(once, ONES)
    assert found.estimate.sum() == pytest.approx(120, abs=0.1)
    half = 1.0 if family is Gaussian else 0.5  # of the variance of one answer, which `once` has under Laplace noise
    assert found.deviations[0] ** 2 == pytest.approx(half * middle.deviations[0] ** 2, rel=0.02)
    mixed = as_one([looks([100], [0], [6], fine), looks([10**4], [0], [6], coarse)], twice.queries)
    assert fit_tree(mixed, ONES).estimate.sum() == pytest.approx(100, abs=1)


def test_measurements_are_joined_row_after_row():
    fine, coarse = Laplace(Fraction(1)), Laplace(Fraction(2))
    both = replace(looks([5, 6], [0, 1], [0, 1]), noises=(coarse, fine), which=np.array([1, 0]))
    parts = [looks([1], [0], [6], fine), both, looks([7], [2], [2], coarse)]
    joined = as_one(parts, Ranges(7, [0, 0, 1, 2], [6, 0, 1, 2]))
    assert joined.answers.tolist() == [1, 5, 6, 7] and joined.of == "count"
    noises = [joined.noises[place] for place in joined.which]
    assert noises == [fine, fine, coarse, coarse] and len(joined.noises) == 2
    assert as_one(parts[:1], parts[0].queries).which is None
