"""Sums of a measure: what each attribute says adds up, noise is taken out, and how far pairs go beyond is learned.

Noise comes from a seeded generator, so nothing here is left to chance; bounds have room for another seed.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.inference.margins.sums import sums_along
from sfumato.inference.margins.table import subsets, sum_out

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


def test_one_attribute_and_no_rows():
    tables, spreads = along(*table(5.0), 100.0, pairs=False)
    assert all(len(places) < 2 for places in tables) and spreads.of((0, 1)) >= 0
    nothing = {part: np.zeros([SHAPE[axis] for axis in part]) for part in subsets((0, 1, 2))}
    found, _ = sums_along({(0,): (np.ones(6), 4.0)}, nothing, LARGEST)
    assert np.isfinite(found[0,].estimate).all() and found[0,].estimate.sum() == pytest.approx(6.0)
