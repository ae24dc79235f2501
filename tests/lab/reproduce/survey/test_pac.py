"""Section 5.2 again: the minus sign of section 3 prefers bad rules, and half of the rate is given away."""

from __future__ import annotations

import numpy as np

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.reproduce.survey.learning import CLASSES, beyond_best, halfspace_table, pac_exhibit, wrong_rows


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_the_whole_epsilon_falls_behind_less_than_half_of_it_and_the_printed_sign_far_more():
    for row in pac_exhibit(TestingEntropy(1), quick=True).rows:
        half, whole, printed = (number(each) for each in row[4:7])
        assert whole < half < printed / 20
        assert number(row[2]) < number(row[3])  # the survey's, without constants, promises too much


def test_wrong_rows_are_those_of_the_label_that_a_rule_misses():
    counts = halfspace_table(3_000)
    rules, wrong = wrong_rows(counts, CLASSES[0])
    label = counts.sum(axis=(1, 2))
    place = rules.texts.index("axis_0 >= 5")
    assert wrong[place] == label[:5, 1].sum() + label[5:, 0].sum()


def test_choosing_among_equals_is_never_behind():
    assert beyond_best(np.array([7, 7, 7]), 1.0) == 0.0
    assert abs(beyond_best(np.array([0, 1]), 1.0) - 1 / (1 + np.e)) < 1e-12
