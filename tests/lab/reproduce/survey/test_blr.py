"""Section 5.3 again: the score moves by 1, and small tables say little."""

from __future__ import annotations

import numpy as np

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.lab.reproduce.survey.learning import best_possible, error_exhibit, score_moves, tables_exhibit


def test_the_score_as_printed_moves_by_one_row_even_though_n_is_private():
    assert score_moves() == 1.0


def test_what_the_theorem_is_about_cannot_be_looked_at():
    rows = tables_exhibit().rows
    assert rows[1][1:3] == ("200", "1e12") and rows[-1][-1] == "refused"


def test_noise_on_cells_is_better_and_no_small_table_comes_nearer_than_the_best():
    for row in error_exhibit(TestingEntropy(2), quick=True).rows[:-1]:
        best, ours, cells = (float(each) for each in row[1:])
        assert cells < ours and ours > 0.5 * best
    assert best_possible(np.array([1, 1, 1, 1])) < 1e-9
