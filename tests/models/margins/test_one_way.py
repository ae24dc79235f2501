"""One-way margins: smooth where neighbours are alike, spikes kept, never negative, with the total that is given.

Noise comes from a seeded generator, so nothing here is left to chance; bounds have room for another seed.
"""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.margins.joining import (
    LENGTHS,
    MOST_SMOOTHED,
    SIZES,
    kernel,
    kernel_lengths,
    one_way_errors,
    one_way_margin,
    onto_total,
)

VALUES = np.arange(100)
HILL = 400.0 * np.exp(-(((VALUES - 40) / 18) ** 2))
DEVIATION = 40.0


def noisy(truth: np.ndarray, seed: int) -> np.ndarray:
    return truth + np.random.default_rng(seed).normal(0.0, DEVIATION, len(truth))


def mean_error(truth: np.ndarray, ordered: bool, runs: int = 8) -> float:
    """The mean size of errors, as a share of that of the noise."""
    found = [one_way_margin(noisy(truth, seed), DEVIATION**2, truth.sum(), ordered) for seed in range(runs)]
    return float(np.abs(np.array(found) - truth).mean()) / (DEVIATION * np.sqrt(2 / np.pi))


def test_an_order_takes_most_of_the_noise_out_of_a_smooth_margin():
    """A curve of ten or so free numbers on a hundred values leaves about a third of the noise."""
    assert mean_error(HILL, True) < 0.45
    assert mean_error(HILL, True) < 0.65 * mean_error(HILL, False)


@pytest.mark.parametrize("ordered", [True, False])
def test_errors_are_about_as_large_as_they_are_said_to_be(ordered):
    """Squares of 40 x 100 errors over their variances are about 1; over that of the noise, smoothed ones 0.4."""
    ratios, hill = [], HILL + 300.0
    for seed in range(40):
        found, variances = one_way_errors(noisy(hill, seed), DEVIATION**2, hill.sum(), ordered)
        ratios.append((found - hill) ** 2 / variances)
        assert (variances <= DEVIATION**2 + 1e-9).all()
    assert 0.4 < float(np.mean(ratios)) < 1.3  # a hill is smoother than what it may be
    smooth, few = one_way_errors(noisy(hill, 1), DEVIATION**2, hill.sum(), True)[1], np.array([5.0, 3.0])
    assert smooth.mean() < 0.5 * DEVIATION**2
    assert one_way_errors(few, 7.0, 8.0, True)[1].tolist() == [7.0, 7.0]


def test_a_spike_on_a_smooth_margin_keeps_its_count():
    """Within 5 deviations of its own noise; smoothed into its neighbours it would lose 40 times that."""
    spiked = HILL.copy()
    spiked[70] += 5000.0
    for seed in range(4):
        found = one_way_margin(noisy(spiked, seed), DEVIATION**2, spiked.sum(), True)
        assert abs(found[70] - spiked[70]) < 5 * DEVIATION
        assert abs(found[[69, 71]] - spiked[[69, 71]]).max() < 5 * DEVIATION
    assert mean_error(spiked, True) < 0.5


def test_a_bump_in_an_empty_tail_keeps_its_rows():
    """Six values of 1,200 rows: the mean of 40 errors is within 1.2 deviations of their noise (0.8; smoothed, 1.8)."""
    tail = np.full(100, 12.0)
    tail[0], tail[34:40] = 45_000.0, [70.0, 190.0, 310.0, 340.0, 210.0, 80.0]
    off = [
        (one_way_margin(noisy(tail, seed), DEVIATION**2, tail.sum(), True) - tail)[34:40].sum() for seed in range(40)
    ]
    assert abs(np.mean(off)) < 1.2 * DEVIATION * np.sqrt(6)


def test_values_without_an_order_are_drawn_together_only_as_far_as_they_are_alike():
    rough = np.where(VALUES % 2, 900.0, 100.0)
    assert mean_error(rough, False) < 1.1  # nothing is gained, and nothing lost
    assert mean_error(np.full(100, 300.0), False) < 0.5  # all are alike, which the counts show


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("values", [1, 2, 3, 40, MOST_SMOOTHED + 1])
def test_whatever_comes_in_a_margin_comes_out(values, ordered):
    numbers = np.random.default_rng(values).normal(0.0, 10.0, values)
    for total in (0.0, 0.3, 1e4):
        found = one_way_margin(numbers, 100.0, total, ordered)
        assert found.shape == (values,) and (found >= 0).all() and found.sum() == pytest.approx(total)


def test_without_noise_it_is_left_as_it_is():
    assert np.allclose(one_way_margin(HILL, 1e-9, HILL.sum(), True), HILL, atol=1e-3)


def test_kernels_go_from_rough_to_smooth_and_to_none():
    every = [kernel(np.arange(30), length) for length in kernel_lengths(30, True)]
    assert len(every) == len([length for length in LENGTHS if length < 30]) + 1
    assert np.array_equal(every[-1], np.eye(30)) and kernel_lengths(30, False) == kernel_lengths(2, True) == [0]
    near = [float(shape[0, 1]) for shape in every[:-1]]
    assert near == sorted(near)


def test_the_nearest_margin_moves_all_values_alike_until_they_are_none():
    found = onto_total(np.array([10.0, 4.0, -3.0]), 10.0)
    assert found.tolist() == [8.0, 2.0, 0.0]
    assert onto_total(np.array([1.0, 2.0]), 0.0).tolist() == [0.0, 0.0]


def test_halves_of_a_thin_margin_are_not_off_to_one_side():
    """Half of 1,024 values hold a row each, the rest none; 30 draws of Laplace noise with deviation 1.4.

    The rows of the dense half are off by 22 with deviation 4 on average; at once they were too few by over 100.
    """
    rng, rows = np.random.default_rng(3), np.repeat([1.0, 0.0], 512)
    noisy = rows + rng.laplace(0.0, 1.0, (30, 1024))
    halves, once = (
        [float(bring(one)[:512].sum()) - 512.0 for one in noisy]
        for bring in (lambda one: one_way_margin(one, 2.0, 512.0, True), lambda one: onto_total(one, 512.0))
    )
    assert abs(np.mean(halves)) < 20.0 and np.mean(once) < -100.0


def test_a_spike_among_many_thin_values_keeps_its_count():
    rows = np.where(np.arange(1000) == 300, 600.0, 0.0)
    noisy = rows + np.random.default_rng(4).laplace(0.0, 1.0, 1000)
    assert one_way_margin(noisy, 2.0, 640.0, True)[300] == pytest.approx(noisy[300])


def by_matrices(counts: np.ndarray, variance: float) -> tuple[np.ndarray, np.ndarray]:
    """A smooth margin without spikes and its variances, by the likeliest of all kernels and sizes written out."""
    off, found = counts - counts.mean(), []
    for length in kernel_lengths(len(counts), True):
        for size in SIZES:
            covariance = variance * (size**2 * kernel(np.arange(len(counts)), length) + np.eye(len(counts)))
            likelihood = -0.5 * (np.linalg.slogdet(covariance)[1] + off @ np.linalg.solve(covariance, off))
            found.append((likelihood, np.linalg.inv(covariance)))
    precision = max(found, key=lambda each: each[0])[1]
    return counts - variance * precision @ off, variance - variance**2 * np.diag(precision)


@pytest.mark.parametrize("values", [5, 30, 100])
def test_it_is_the_likeliest_of_all_kernels(values):
    counts = noisy(HILL[:values] + 900.0, values)
    wanted, variances = by_matrices(counts, DEVIATION**2)
    found, left = one_way_errors(counts, DEVIATION**2, wanted.sum(), True)
    assert np.allclose(found, wanted, rtol=1e-9) and np.allclose(left, variances, rtol=1e-7)
