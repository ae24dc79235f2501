"""Ends from a tree whose measurements hang on each other's noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from sure_coverage import most_misses

from sfumato.measurement import Laplace, Measurement
from sfumato.models.tree.fit import Descent, rounds_of
from sfumato.queries import Ranges

SCALE = 3
LEAVES = 8


def test_rows_are_in_runs_of_disjoint_ones():
    ranges = Ranges(8, [0, 0, 4, 0, 2, 4, 0], [7, 3, 7, 1, 3, 5, 3])
    assert [rows.tolist() for rows in rounds_of(ranges)] == [[0], [1, 2], [3, 4, 5], [6]]


def descend(counts: np.ndarray, rng: np.random.Generator) -> Descent:
    """The whole; its halves only if it looks larger than it is likely to be; leaves of a half that looks large too.

    So regions that are not looked into have too little noise, and those that are have too much.
    """

    def noisy(low: int, high: int) -> int:
        rate = 1.0 - np.exp(-1.0 / SCALE)
        return int(counts[low : high + 1].sum() + rng.geometric(rate) - rng.geometric(rate))

    asked, answers = [(0, LEAVES - 1)], [noisy(0, LEAVES - 1)]
    if answers[0] > counts.sum():
        halves = [(0, 3), (4, 7)]
        seen = [noisy(*half) for half in halves]
        asked, answers = asked + halves, answers + seen
        for (low, high), found in zip(halves, seen, strict=True):
            if found > counts[low : high + 1].sum():
                asked += [(place, place) for place in range(low, high + 1)]
                answers += [noisy(place, place) for place in range(low, high + 1)]
    ranges = Ranges(LEAVES, *np.array(asked).T)
    measured = Measurement("count", ranges, np.array(answers), (Laplace(Fraction(SCALE)),))
    return Descent(np.arange(LEAVES), measured, ranges, tuple(rounds_of(ranges)))


def test_ends_hold_however_noise_decides_what_is_measured():
    """400 descents, four questions; 1 in 1e6 such tests fails by chance.

    Taking what was measured last for the best, as if it had been asked anyway, misses far more often here.
    """
    rng, runs = np.random.default_rng(4), 400
    counts = np.array([40, 0, 3, 25, 0, 60, 1, 1])
    questions = [np.ones(8), np.eye(8)[3], np.r_[np.ones(6), 0, 0], np.r_[0, 1, 0.5, -1, 2, 0, 1, 1]]
    missed = np.zeros((2, len(questions)), dtype=int)
    for _ in range(runs):
        tree = descend(counts, rng)
        for place, weights in enumerate(questions):
            ends = tree.ends(weights, weights, 0.05)
            missed[:, place] += weights @ counts < ends.low - 1e-9, weights @ counts > ends.high + 1e-9
    assert missed.max() <= most_misses(runs, 1e-6 / missed.size)
    assert missed.max() > 0.2 * 0.05 * runs  # and they are not endlessly wide


def test_what_was_not_looked_into_may_be_anywhere_inside():
    ranges = Ranges(4, [0, 0, 2, 0, 1], [3, 1, 3, 0, 1])
    measured = Measurement("count", ranges, np.array([100, 60, 40, 50, 10]), (Laplace(Fraction(1, 10)),))
    tree = Descent(np.arange(4), measured, ranges, tuple(rounds_of(ranges)))
    one = tree.ends(np.array([1.0, 0, 1, 0]), np.array([1.0, 0, 1, 0]), 0.025)
    assert (one.low, one.high) == (50.0, 90.0)
    last = tree.ends(np.eye(4)[3], np.eye(4)[3], 0.025)
    assert (last.low, last.high) == (0.0, 40.0)


def test_cut_cells_have_a_least_and_a_greatest_weight():
    ranges = Ranges(2, [0, 0, 1], [1, 0, 1])
    measured = Measurement("count", ranges, np.array([30, 10, 20]), (Laplace(Fraction(1, 10)),))
    tree = Descent(np.arange(2), measured, ranges, tuple(rounds_of(ranges)))
    ends = tree.ends(np.array([0.0, 1.0]), np.array([1.0, 1.0]), 0.025)
    assert (ends.low, ends.high) == (20.0, 30.0)
