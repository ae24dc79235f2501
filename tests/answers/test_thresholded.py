"""Counts of cells of which only those above a threshold are published."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sure_coverage import most_misses

from sfumato.answers.guaranteed_sums import Thresholded, log_moments
from sfumato.measurement import Laplace

SCALE = 2.0


def laplace(rng: np.random.Generator, size: int) -> np.ndarray:
    rate = 1.0 - np.exp(-1.0 / SCALE)
    return rng.geometric(rate, size) - rng.geometric(rate, size)


@pytest.mark.parametrize("rows", [0, 1, 6, 9, 10, 11, 40])
def test_moments_are_those_of_the_sum_over_all_noises(rows):
    z = np.arange(-400, 401)
    mass = np.exp(-np.abs(z) / SCALE)
    published = np.where(rows + z >= 10, rows + z, 0) - rows
    expected = np.log((np.exp(0.2 * published) * mass).sum() / mass.sum())
    assert log_moments(np.arange(41), 10, SCALE, 0.2)[rows] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("each", [0, 3, 9, 12])
def test_ends_hold_where_noise_chooses_what_is_published(each):
    """400 releases of 300 cells, a threshold that noise alone reaches often; 1 in 1e6 fails by chance."""
    rng, runs = np.random.default_rng(each), 400
    counts = np.where(np.arange(300) % 3 == 0, each, 0)
    inside = np.arange(300) < 120
    truth, missed, plainly = counts[inside].sum(), np.zeros(2, dtype=int), 0
    for _ in range(runs):
        noisy = counts + laplace(rng, 300)
        shown = noisy >= 9
        total = float(counts.sum() + laplace(rng, 1)[0])
        known = Thresholded(9, Laplace(Fraction(2)), total, Laplace(Fraction(2)))
        seen, beside = (float(noisy[shown & part].sum()) for part in (inside, ~inside))
        ends = known.ends(seen, float((shown & inside).sum()), 120.0, (beside, 180.0), 0.05)
        missed += ends.low > truth, ends.high < truth
        plainly += seen > truth
    assert missed.max() <= most_misses(runs, 1e-6 / 8)
    assert each != 0 or plainly > runs / 4  # what is published, taken at its word, is too much


def test_all_cells_are_the_total():
    known = Thresholded(9, Laplace(Fraction(2)), 500.0, Laplace(Fraction(1)))
    ends = known.ends(480.0, 40.0, 300.0, (0.0, 0.0), 0.025)
    assert (ends.low, ends.high) == (497.0, 503.0)


@pytest.mark.parametrize("rate", [100, 1_000, 10**6])
def test_without_noise_what_is_published_is_what_there_is(rate):
    """With an epsilon of a million a moment of the noise is beyond all numbers."""
    noise = Laplace(Fraction(1, rate))
    found = Thresholded(5, noise, 400.0, noise).ends(300.0, 3.0, 10.0, (100.0, 90.0), 0.025)
    assert 0.0 <= found.low <= 300.0 <= found.high
