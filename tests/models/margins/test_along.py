"""Sums of a measure: what each attribute says adds up, noise is taken out, and how far pairs go beyond is learned.

Noise comes from a seeded generator, so nothing here is left to chance; bounds have room for another seed.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.scales import sums_along
from sfumato.models.margins.table import subsets, sum_out

LARGEST = 50.0
SHAPE = (6, 5, 4)


def table(together: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and sums whose means add up over attributes; together: how far pairs of values deviate from that."""
    rng = np.random.default_rng(seed)
    counts = rng.gamma(2.0, 150.0, SHAPE)
    means = sum(np.moveaxis(rng.normal(0, 6, (size, 1, 1)), 0, axis) for axis, size in enumerate(SHAPE))
    means = means + rng.normal(0, together, (SHAPE[0], SHAPE[1], 1))
    return counts, counts * np.clip(means, -LARGEST, LARGEST)


def along(counts: np.ndarray, sums: np.ndarray, deviation: float, pairs: bool = True, seed: int = 7):
    rng, axes = np.random.default_rng(seed), range(3)
    places = [(axis,) for axis in axes] + (list(combinations(axes, 2)) if pairs else [])
    noisy = {}
    for each in places:
        exact = sum_out(sums, each, axes)
        noisy[each] = exact + rng.normal(0, deviation, exact.shape), deviation**2
    return sums_along(noisy, {part: sum_out(counts, part, axes) for part in subsets((0, 1, 2))}, LARGEST)


def off(tables, sums: np.ndarray, order: int) -> float:
    found = [np.abs(t.estimate - sum_out(sums, p, range(3))).mean() for p, t in tables.items() if len(p) == order]
    return float(np.mean(found))


def test_without_noise_they_come_back():
    counts, sums = table(5.0)
    tables, _ = along(counts, sums, 1e-4)
    assert set(tables) == {part for part in subsets((0, 1, 2)) if len(part) < 3}
    for order in (0, 1, 2):
        assert off(tables, sums, order) < 1e-3 * np.abs(sums).sum()


def test_means_that_add_up_are_found_in_noise_that_hides_single_cells():
    """Nothing is there beyond what one attribute at a time says: pairs keep a third of their noise at most."""
    counts, sums = table(0.0)
    tables, spreads = along(counts, sums, 4000.0)
    assert off(tables, sums, 2) < 0.6 * 4000.0 * np.sqrt(2 / np.pi)
    assert off(tables, sums, 1) < 4000.0
    assert spreads.of((0, 1)) == spreads.of((0, 1, 2)) > 0


def test_how_far_pairs_deviate_is_learned():
    spread = [along(*table(together), 500.0)[1].of((0, 1)) for together in (0.0, 5.0, 20.0)]
    assert spread[0] < spread[1] < spread[2]


def test_tables_agree_with_the_total_and_with_each_other():
    tables, _ = along(*table(5.0), 2000.0)
    for axis in range(3):
        assert tables[axis,].estimate.sum() == pytest.approx(float(tables[()].estimate))
    for pair in combinations(range(3), 2):
        for axis, place in enumerate(pair):
            margin = sum_out(tables[pair].estimate, (axis,), (0, 1))
            assert np.allclose(margin, tables[place,].estimate, atol=1e-3 * np.abs(tables[pair].estimate).sum())


def incomes(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows by 60 ages and 6 regions, incomes that rise and fall with age, times more in one region."""
    rng = np.random.default_rng(seed)
    career = np.exp(-(((np.arange(60) - 35) / 18) ** 2))
    counts = rng.gamma(20.0, 2.0, (60, 6)) * np.exp(-(((np.arange(60) - 30) / 40) ** 4))[:, None]
    return counts, career, np.array([1.0, 0.9, 1.3, 1.0, 1.1, 0.8])


def test_ranges_are_not_drawn_value_by_value():
    """Each of forty ages lies deep in noise, their mean does not: 40 tables, at most 8 of 40 intervals of 95 % miss.

    With a chance of 1/20 each, more miss once in 20,000 sets of seeds; these are fixed. Drawn one by one all missed.
    """
    missed, off = 0, []
    for seed in range(40):
        counts, career, _ = incomes(seed)
        sums, rng, deviation = counts.sum(axis=1) * (20.0 * career - 10.0), np.random.default_rng(1000 + seed), 1500.0
        noisy = {(0,): (sums + rng.normal(0, deviation, 60), deviation**2)}
        tables, _ = sums_along(noisy, {(): counts.sum(), (0,): counts.sum(axis=1)}, 10.0, 10.0, [True])
        inside = slice(15, 55)
        error = tables[0,].estimate[inside].sum() - sums[inside].sum()
        share = counts[inside].sum() / counts.sum()
        weights = np.where((np.arange(60) >= 15) & (np.arange(60) < 55), 1.0 - share, -share)
        variance = float(tables[0,].noise @ weights**2 + tables[0,].model @ weights**2)
        variance += share**2 * float(tables[()].noise)
        missed += abs(error) > 1.96 * np.sqrt(variance)
        off.append(np.abs(tables[0,].estimate - sums).mean())
    assert missed <= 8
    assert np.mean(off) < 0.7 * 1500.0 * np.sqrt(2 / np.pi)


@pytest.mark.parametrize("multiplied", [True, False])
def test_what_two_attributes_say_apart_multiplies_or_adds_up(multiplied):
    counts, career, factor = incomes(3)
    means = 20.0 * np.outer(career, factor) if multiplied else 8.0 + 6.0 * career[:, None] + 4.0 * factor
    sums, rng = counts * (means - 10.0), np.random.default_rng(4)
    parts = {places: sum_out(sums, places, (0, 1)) for places in ((0,), (1,), (0, 1))}
    noisy = {places: (each + rng.normal(0, 30.0, each.shape), 900.0) for places, each in parts.items()}
    rows = {places: sum_out(counts, places, (0, 1)) for places in ((), (0,), (1,), (0, 1))}
    by_level = {level: sums_along(noisy, rows, 20.0, level, [True, False])[0][0, 1].estimate for level in (None, 10.0)}
    off = {level: float(np.abs(each - sums).mean()) for level, each in by_level.items()}
    assert off[10.0] < (0.8 if multiplied else 1.05) * off[None]


def test_one_attribute_and_no_rows():
    tables, spreads = along(*table(5.0), 100.0, pairs=False)
    assert all(len(places) < 2 for places in tables) and spreads.of((0, 1)) >= 0
    nothing = {part: np.zeros([SHAPE[axis] for axis in part]) for part in subsets((0, 1, 2))}
    found, _ = sums_along({(0,): (np.ones(6), 4.0)}, nothing, LARGEST)
    assert np.isfinite(found[0,].estimate).all() and found[0,].estimate.sum() == pytest.approx(6.0)
