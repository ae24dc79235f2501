"""Pairs that are mostly empty: functional dependencies and structural zeros are found, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.margins.shrinkage import all_pairs, by_ratios, determined, larger_tables
from sfumato.models.margins.table import Table

DEVIATION = 20.0


def hierarchy(rng: np.random.Generator, rows: int = 20_000) -> np.ndarray:
    """Counts of 40 counties in 8 states, (counties, states)."""
    counts = np.zeros((40, 8))
    counts[np.arange(40), rng.integers(0, 8, 40)] = rng.multinomial(rows, rng.dirichlet(np.full(40, 3.0)))
    return counts


def dependent(rng: np.random.Generator, rows: int = 20_000) -> np.ndarray:
    """Counts of a pair that depends and has no empty cells by rule, (12, 8)."""
    shares = rng.dirichlet(np.full(12, 3.0))[:, None] * rng.dirichlet(np.full(8, 4.0), 12)
    return rng.multinomial(rows, shares.reshape(-1)).reshape(12, 8).astype(np.float64)


def noisy(counts: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, float]:
    return counts + np.rint(rng.normal(0.0, DEVIATION, counts.shape)), DEVIATION**2


def pair(counts: np.ndarray, rng: np.random.Generator) -> Table:
    """Estimate with known margins; a third attribute of two values says nothing."""
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    total = float(counts.sum())
    third = np.array([total / 2.0] * 2)
    seen = {(0, 1): noisy(counts, rng), (0, 2): noisy(np.outer(rows, third) / total, rng)}
    return all_pairs([rows, columns, third], seen, [False] * 3)[0, 1]


def test_a_hierarchy_keeps_no_noise_in_its_empty_cells():
    """Noise of 20 on 320 cells is 0.26 of 20,000 rows; shrunk along directions, 0.17 is left (each of 5 tables)."""
    off = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        counts = hierarchy(rng)
        off.append(np.abs(pair(counts, rng).estimate - counts).sum() / counts.sum())
        fit = determined(noisy(counts, rng), np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum())
        assert (fit.estimate.argmax(axis=1) == counts.argmax(axis=1)).mean() > 0.9
    assert np.mean(off) < 0.03


def test_it_is_found_whichever_attribute_comes_first():
    rng = np.random.default_rng(3)
    counts = hierarchy(rng).T
    assert np.abs(pair(counts, rng).estimate - counts).sum() / counts.sum() < 0.05


def test_a_pair_that_merely_depends_is_shrunk_as_before():
    """Neither model is likelier, so the estimate is off by no more than its noise."""
    rng = np.random.default_rng(4)
    counts = dependent(rng)
    product = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / counts.sum()
    assert np.abs(pair(counts, rng).estimate - counts).sum() < 0.8 * DEVIATION * counts.size
    assert determined(noisy(counts, rng), product).evidence < -1e3


@pytest.mark.parametrize("seed", range(3))
def test_ratios_find_empty_cells_and_say_how_sure_they_are(seed):
    """A third of the cells are empty by rule; stated variances are those of the errors, within a factor of 2."""
    rng = np.random.default_rng(seed)
    guess = rng.gamma(3.0, 60.0, (30, 20))
    held = rng.random(guess.shape) > 1 / 3
    counts = rng.poisson(guess * 1.5) * held
    fit = by_ratios(noisy(counts.astype(np.float64), rng), guess, np.full(guess.shape, np.inf))
    far = (guess > 3 * DEVIATION) & ~held
    assert fit.estimate[far].mean() < 0.25 * DEVIATION
    assert 0.5 < np.mean((fit.estimate - counts) ** 2) / fit.variance.mean() < 2.0


def test_a_sum_modulo_leaves_no_noise_in_cells_that_cannot_be():
    """c = a + b modulo 5: 25 of 125 cells hold rows, the pairs are even, and the three are measured."""
    rng, counts = np.random.default_rng(5), np.zeros((5, 5, 5))
    for a, b in np.ndindex(5, 5):
        counts[a, b, (a + b) % 5] = 800.0
    even = {(a, b): np.full((5, 5), 800.0) for a, b in ((0, 1), (0, 2), (1, 2))}
    known = {(axis,): Table((axis,), np.full(5, 4000.0), np.ones(5), np.ones(5)) for axis in range(3)}
    known |= {places: Table(places, each, np.ones((5, 5)), np.ones((5, 5))) for places, each in even.items()}
    found = larger_tables([((0, 1, 2), (counts + rng.normal(0.0, 60.0, counts.shape), 3600.0))], known)[0, 1, 2]
    assert np.abs(found.estimate - counts).sum() / counts.sum() < 0.05  # noise alone: 0.3
