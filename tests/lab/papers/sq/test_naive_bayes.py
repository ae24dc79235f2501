"""Naive Bayes is Bayes' rule where there is no noise, and says nothing where there is nothing else."""

from __future__ import annotations

import numpy as np

from sfumato.lab.papers.sq.classifiers import class_counts, naive_bayes, posterior


def test_without_noise_it_is_bayes_rule():
    """Smoothing adds one row in all to counts of 10^5 or so: four digits agree."""
    first, second = np.array([[60e3, 10e3], [40e3, 90e3]]), np.array([[50e3, 20e3], [50e3, 80e3]])
    model = naive_bayes([first, second], [1e-6, 1e-6])
    found = posterior(model.scores([np.array([0]), np.array([1])]))[0, 0]
    assert abs(found - 0.6 * 0.5 / (0.6 * 0.5 + 0.1 * 0.8)) < 1e-3


def test_where_there_is_nothing_but_noise_attributes_say_little():
    rng = np.random.default_rng(3)
    noise = rng.laplace(0, 100, (40, 2))
    table = np.vstack([noise, [500.0, 500.0]])
    clear = naive_bayes([table], [1.0]).spreads[0]
    careful = naive_bayes([table], [141.0]).spreads[0]
    assert careful < 0.9 * clear


def test_classes_are_counted_from_all_tables_most_from_those_of_few_cells():
    few, many = np.array([[10.0, 30.0]]), np.full((100, 2), 1.0)
    assert class_counts([few, many], [1.0, 1.0]).round(1).tolist() == [10.9, 30.7]
