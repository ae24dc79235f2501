"""Splits: the one that tells most is taken, and none where noise alone speaks for it."""

from __future__ import annotations

import numpy as np

from sfumato.lab.papers.sq.classifiers import Node, Tree, best_split


def test_the_best_cut_of_an_ordered_attribute_and_the_best_value_of_another():
    steps = np.array([[90.0, 10], [90, 10], [10, 90], [10, 90], [10, 90]])
    assert best_split(steps, 1e-9, True).cut == 2
    odd = np.array([[50.0, 50], [100, 5], [50, 50]])
    assert best_split(odd, 1e-9, False).cut == 1


def test_sides_must_have_rows_that_noise_does_not_explain():
    assert best_split(np.array([[3.0, -2], [500, 500]]), 50.0, True) is None
    assert best_split(np.array([[5.0, 5]]), 1.0, True) is None


def test_noise_seldom_makes_a_gain_of_many_values():
    """400 tables of 40 values without any tie to the class: uncorrected, gains would be above 20 nearly always.

    A gain above 20 rows' worth is 2 ln of a likelihood ratio above 40: by chance in far less than 1 of 10^6 cuts.
    """
    rng = np.random.default_rng(5)
    gains = []
    for _ in range(400):
        table = 1000.0 + rng.laplace(0, 20, (40, 2))
        found = best_split(table, 800.0, True)
        gains.append(0.0 if found is None else found.gain)
    assert np.mean(np.array(gains) > 20.0) < 0.05


def test_rows_find_their_leaves_and_unknown_values_go_to_the_high_side():
    tree = Tree((Node(),), (True, False)).split(0, 0, 3).split(1, 1, 0).labelled([0, 1, 1])
    assert tree.leaves == [2, 3, 4] and tree.features == [0, 1]
    codes = [np.array([1, 1, 5, -1]), np.array([0, 1, 0, 0])]
    assert tree.strata(codes).tolist() == [1, 2, 0, 0]
    assert tree.labels[tree.strata(codes)].tolist() == [1, 1, 0, 0]
