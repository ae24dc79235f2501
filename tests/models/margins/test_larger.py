"""Tables of three attributes and more agree with their pairs, and keep what only they can tell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.joining import join_counts
from sfumato.models.margins.shrinkage import larger_tables
from sfumato.models.margins.table import Table, subsets, sum_out


def known_of(table: np.ndarray) -> dict:
    axes = range(table.ndim)
    exact = {part: sum_out(table, part, axes) for part in subsets(tuple(axes)) if len(part) < 3}
    return {part: Table(part, each, np.ones(each.shape), np.zeros(each.shape)) for part, each in exact.items()}


def found_of(table: np.ndarray, deviation: float, seed: int = 1) -> dict:
    noisy = table + np.random.default_rng(seed).normal(0.0, deviation, table.shape)
    return larger_tables([(tuple(range(table.ndim)), (noisy, deviation**2))], known_of(table))


@pytest.fixture
def table() -> np.ndarray:
    return np.random.default_rng(5).gamma(0.7, 100.0, (4, 3, 5))


@pytest.mark.parametrize("deviation", [1.0, 50.0])
def test_they_agree_with_their_pairs(table, deviation):
    """Within a thousandth of the rows, which proportions leave after so many rounds."""
    (found,) = found_of(table, deviation).values()
    assert (found.estimate >= 0).all()
    for pair in combinations(range(3), 2):
        assert np.abs(sum_out(found.estimate, pair, range(3)) - sum_out(table, pair, range(3))).sum() < (
            1e-3 * table.sum()
        )


def test_they_are_nearer_than_noise_and_than_what_pairs_say(table):
    joined = join_counts(
        [sum_out(table, (axis,), range(3)) for axis in range(3)],
        {pair: sum_out(table, pair, range(3)) for pair in combinations(range(3), 2)},
    )
    by_pairs, deviation = np.abs(joined - table).sum(), 20.0
    for seed in range(4):
        (found,) = found_of(table, deviation, seed).values()
        off = np.abs(found.estimate - table).sum()
        assert off < 0.8 * by_pairs and off < deviation * np.sqrt(2 / np.pi) * table.size


def test_without_noise_they_come_back(table):
    (found,) = found_of(table, 1e-4).values()
    assert np.abs(found.estimate - table).sum() < 1e-3 * table.sum()


def test_all_sets_inside_a_view_have_tables_and_pairs_alone_have_none():
    four = np.random.default_rng(3).gamma(1.0, 50.0, (3, 2, 4, 2))
    found = found_of(four, 5.0)
    assert set(found) == {part for part in subsets((0, 1, 2, 3)) if len(part) > 2}
    for part in combinations(range(4), 3):
        whole = sum_out(found[0, 1, 2, 3].estimate, part, range(4))
        assert np.abs(whole - found[part].estimate).sum() < 0.01 * four.sum()
    assert larger_tables([((0, 1), (np.ones((3, 2)), 1.0))], known_of(four)) == {}
