"""Scores are added up, unknown values add nothing, and the gap between classes makes strata."""

from __future__ import annotations

import numpy as np

from sfumato.lab.papers.sq.classifiers import Additive

MODEL = Additive((np.array([[0, 5], [0, -5]]), np.array([[0, 1], [0, 2], [0, 30]])), np.array([0, 1]), (3, 20))


def test_rows_are_labelled_by_the_best_score_and_told_apart_by_how_clearly_it_won():
    codes = [np.array([0, 1, -1, 1]), np.array([0, 1, -1, 2])]
    assert MODEL.scores(codes).tolist() == [[0, 7], [0, -2], [0, 1], [0, 26]]
    assert MODEL.strata(codes).tolist() == [4, 0, 3, 5]
    assert MODEL.labels.tolist() == [0, 0, 0, 1, 1, 1]
    assert MODEL.spreads == [10, 29]
