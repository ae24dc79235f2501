"""Shares of slices: found where no single node shows them, none where there is only noise, and honestly unsure."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.measurement import Gaussian
from sfumato.models.tree.observation import Normal
from sfumato.models.tree.split_prior import EVEN as EVENLY
from sfumato.models.tree.split_prior import Statistics, slice_shares

ROWS, EVEN = 10_000, 0.4
NOISE = Fraction(1000**2)  # the variance of each half's count


def normal(count: int, seed: int) -> np.ndarray:
    """Whole numbers with a deviation of a thousand, divided by that."""
    return draw(Gaussian(Fraction(10**6)), count, TestingEntropy(seed)) / 1000.0


def seen(shift: np.ndarray, nodes: int, *, uneven: float = 0.0) -> tuple[np.ndarray, ...]:
    """The slices of nodes, so many in each, and noisy counts of their halves; shares differ by node with `uneven`,
    a deviation, around EVEN and the shift of the slice."""
    slices = np.tile(np.arange(len(shift)), nodes)
    share = EVEN + shift[slices] + uneven * normal(len(slices), 1)
    noise = draw(Gaussian(NOISE), 2 * len(slices), TestingEntropy(2)).reshape(2, -1)
    return slices, np.stack([share * ROWS, (1.0 - share) * ROWS]) + noise


def shares(slices: np.ndarray, mean: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    return shifts(slices, np.full(len(slices), EVEN), mean, np.full(mean.shape, float(NOISE)), count)


def shifts(
    slices: np.ndarray, even: np.ndarray, mean: np.ndarray, variance: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    found = slice_shares(slices, even, Normal(mean, variance), count)
    return found.shift, found.deviation


ALONE = np.sqrt(float(NOISE) * (EVEN**2 + (1 - EVEN) ** 2)) / ROWS  # the deviation of a single node's share: 0.072


def test_slices_show_together_what_no_node_shows():
    """256 slices of 50 nodes; shares differ by a third of what noise does to a single node's.

    The mean square of 256 normal errors is within 0.4 of its expectation but once in a million times, and a shift that
    is known to a deviation of 0.42 of how much shifts differ has errors of 0.15 times their square.
    """
    true = ALONE / 3 * normal(256, 3)
    found, unsure = shares(*seen(true, 50), 256)
    assert np.mean((found - true) ** 2) < 1.42 * 0.155 * np.mean(true**2)
    assert np.mean(((found - true) / unsure) ** 2) == pytest.approx(1.0, abs=0.45)


def test_nothing_but_noise_shifts_nothing():
    """4,096 slices of 4 nodes: but once in a million times the mean square of what slices say is less than 1.11 times
    what noise makes it, so that less than 0.1 of it is taken for true."""
    found, unsure = shares(*seen(np.zeros(4096), 4), 4096)
    assert np.sqrt(np.mean(found**2)) < 0.12 * ALONE / 2
    assert unsure.max() < 0.35 * ALONE / 2  # the root of 0.11


@pytest.mark.parametrize("uneven", [0.0, 0.2])
def test_unsure_is_honest_where_nodes_of_a_slice_differ(uneven):
    """256 slices of 50 nodes, each node off its slice by three times its noise: mean square within 0.45 of one."""
    true = 0.05 * normal(256, 4)
    found, unsure = shares(*seen(true, 50, uneven=uneven), 256)
    assert np.mean(((found - true) / unsure) ** 2) == pytest.approx(1.0, abs=0.45)
    assert unsure.mean() == pytest.approx(np.sqrt((uneven**2 + ALONE**2) / 50), rel=0.2)


def test_nodes_that_say_more_count_more():
    """Two nodes in each of 100 slices, one with a hundredth of the other's noise: the slice's share is that one's."""
    true = np.where(np.arange(100) % 2, 0.1, -0.1)
    slices, share = np.repeat(np.arange(100), 2), 0.5 + np.repeat(true, 2)
    share[1::2] += np.where(np.arange(100) % 4 < 2, 0.07, -0.07)  # as noise with a deviation of 100 would have it
    mean, variance = np.stack([share, 1 - share]) * 1000.0, np.tile([1.0, 1e4], (2, 100))
    found, unsure = shifts(slices, np.full(200, 0.5), mean, variance, 100)
    assert found == pytest.approx(true, rel=0.01) and unsure.max() < 0.002


def test_the_noise_of_a_share_is_that_of_both_halves():
    """Of 100 rows a half with nine tenths: its noise counts for a tenth, that of the other for nine, each squared."""
    slices, share = np.tile([0, 1], 50), 0.9 + np.tile([0.05, -0.05], 50)
    variance = np.tile([[4.0], [1.0]], (1, 100))
    found, unsure = shifts(slices, np.full(100, 0.9), 100.0 * np.stack([share, 1 - share]), variance, 2)
    assert unsure == pytest.approx(np.sqrt((0.01 * 4.0 + 0.81 * 1.0) / 50) / 100.0, rel=0.02)
    assert found == pytest.approx([0.05, -0.05], rel=0.02)


def test_how_differently_nodes_divide_is_learned():
    """One slice of nodes without noise to speak of that divide anyhow, and others of which nothing can be told: these
    are hardly believed. Where no slice has two nodes, nothing says that they are not."""
    slices, share = np.append(np.zeros(200, dtype=np.int64), np.arange(1, 101)), np.full(300, 0.5)
    share[:200] += np.where(np.arange(200) % 2, 0.3, -0.3)
    share[200:] += np.where(np.arange(100) % 2, 0.05, -0.05)
    mean = np.stack([share, 1 - share]) * 1e4
    tight = np.ones((2, 100))
    alike, _ = shifts(slices[200:], np.full(100, 0.5), mean[:, 200:], tight, 101)
    anyhow, _ = shifts(slices, np.full(300, 0.5), mean, np.ones((2, 300)), 101)
    assert np.abs(anyhow[1:]).max() < 0.005 and np.abs(alike[1:]).max() < 0.005


def test_slices_of_which_nothing_was_seen_are_not_shifted():
    nothing = np.zeros(0)
    for part in shifts(nothing.astype(np.int64), nothing, np.zeros((2, 0)), np.zeros((2, 0)), 3):
        assert part.tolist() == [0.0, 0.0, 0.0]
    slices, mean = seen(np.array([0.2, -0.2]), 40)
    found, unsure = shares(2 * slices, mean, 4)
    assert found[[1, 3]].tolist() == unsure[[1, 3]].tolist() == [0.0, 0.0]
    assert found[[0, 2]] == pytest.approx([0.2, -0.2], abs=5 * ALONE / np.sqrt(40))


def test_without_a_node_to_learn_from_all_components_are_as_common():
    found = Statistics.nothing().learned(np.zeros(0))
    assert np.ptp(found.components) == pytest.approx(0.0) and found.components.sum(axis=1) == pytest.approx(1.0)
    assert np.ptp(found.few) == 0.0 and not found.sparse.any()


def test_a_class_with_nodes_follows_them_and_others_follow_the_level():
    """A hundred nodes of one class that divide evenly: there nearly all do, elsewhere most, and no component is out."""
    nothing = Statistics.nothing()
    seen = np.zeros_like(nothing.components)
    seen[3, EVENLY] = 100.0
    found = replace(nothing, components=seen, nodes=seen.sum(axis=1), filled=0.5 * seen.sum(axis=1)).learned(
        np.zeros(0)
    )
    assert found.components[3, EVENLY] > 0.95 and 0.9 < found.components[9, EVENLY] < found.components[3, EVENLY]
    assert found.components.min() > 0.0 and found.sparse.tolist() == [place == 3 for place in range(len(seen))]
