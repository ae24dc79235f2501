"""Frechet's bounds with noise."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sure_coverage import most_misses

from sfumato.measurement import Laplace, Measurement
from sfumato.models.margins.guaranteed import Tables
from sfumato.queries import Identity

KINDS = {0: np.arange(3), 1: np.arange(2)}


def table(counts: np.ndarray, scale: Fraction = Fraction(1, 10)) -> Measurement:
    return Measurement("count", Identity(counts.size), counts.reshape(-1), (Laplace(scale),))


def weights(*cells: tuple[int, int]) -> np.ndarray:
    found = np.zeros((3, 2))
    found[tuple(zip(*cells, strict=True))] = 1.0
    return found


@pytest.mark.parametrize(
    ("asked", "low", "high"),
    [
        (weights((0, 0)), 30, 60),  # at least 60 + 70 - 100, at most the smaller margin
        (weights((1, 1)), 0, 30),
        (weights((0, 0), (0, 1)), 60, 60),
        (weights((0, 0), (1, 1)), 0, 90),  # no product of two sets: at most the margins of both values
        (np.array([[2.0, 1.0], [0.0, 0.0], [0.0, 0.0]]), 60, 120),
    ],
)
def test_margins_bound_what_they_contain(asked, low, high):
    """Noise of scale 1 / 10 is 0 but once in ten thousand times."""
    one, other = np.array([60, 30, 10]), np.array([70, 30])
    tables = Tables((3, 2), [((0,), table(one)), ((1,), table(other))], counts=True)
    found = tables.ends(asked, asked, KINDS, 0.025)
    assert (found.low, found.high) == (low, high)


def test_a_table_of_both_attributes_says_all():
    both = np.array([[55, 5], [10, 20], [5, 5]])
    measured = [((0,), table(both.sum(axis=1))), ((1,), table(both.sum(axis=0))), ((0, 1), table(both))]
    found = Tables((3, 2), measured, counts=True).ends(weights((1, 1)), weights((1, 1)), KINDS, 0.025)
    assert (found.low, found.high) == (20, 20)


def test_sums_of_a_measure_need_a_table_that_tells_them():
    tables = Tables((3, 2), [((0,), table(np.array([-4, 3, 2])))], counts=False)
    told = tables.ends(weights((0, 0), (0, 1)), weights((0, 0), (0, 1)), KINDS, 0.025)
    untold = tables.ends(weights((0, 0)), weights((0, 0)), KINDS, 0.025)
    assert (told.low, told.high) == (-4, -4) and (untold.low, untold.high) == (-np.inf, np.inf)


def test_ends_hold_where_a_table_is_measured_because_of_noise():
    """300 surveys; the pair is measured only where noise made the first margin small. 1 in 1e6 fails by chance."""
    rng, runs, scale = np.random.default_rng(8), 300, 4
    counts = np.array([[50, 2], [3, 20], [0, 8]])
    asked, missed = weights((0, 0)), np.zeros(2, dtype=int)
    for _ in range(runs):

        def noisy(values: np.ndarray) -> Measurement:
            rate = 1.0 - np.exp(-1.0 / scale)
            drawn = rng.geometric(rate, values.shape) - rng.geometric(rate, values.shape)
            return table(values + drawn, Fraction(scale))

        measured = [((0,), noisy(counts.sum(axis=1))), ((1,), noisy(counts.sum(axis=0)))]
        if measured[0][1].answers[0] < counts[0].sum():
            measured.append(((0, 1), noisy(counts)))
        ends = Tables((3, 2), measured, counts=True).ends(asked, asked, KINDS, 0.05)
        missed += ends.low > 50, ends.high < 50
    assert missed.max() <= most_misses(runs, 1e-6 / 2)
