"""Joined tables have the margins they were joined from, and no other structure."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.joining import join_counts, join_sums, join_unbiased
from sfumato.models.margins.table import subsets, sum_out


def margins_of(table: np.ndarray, *orders: int) -> dict[tuple[int, ...], np.ndarray]:
    axes = range(table.ndim)
    return {part: sum_out(table, part, axes) for order in orders for part in combinations(axes, order)}


@pytest.fixture
def table() -> np.ndarray:
    return np.random.default_rng(5).gamma(0.7, 30.0, (4, 3, 5, 2))


def test_counts_have_the_margins_that_are_known(table):
    known = margins_of(table, 2)
    joined = join_counts([sum_out(table, (axis,), range(4)) for axis in range(4)], known)
    assert (joined >= 0).all()
    for part, margin in known.items():
        assert np.abs(sum_out(joined, part, range(4)) - margin).sum() < 1e-5 * table.sum()


def test_independent_attributes_stay_independent_and_one_known_pair_is_kept():
    one = [np.array([1.0, 3.0]), np.array([2.0, 2.0]), np.array([0.5, 3.5])]
    assert np.allclose(join_counts(one, {}), np.einsum("i,j,k->ijk", *one) / 16)
    pair = np.array([[1.0, 0.0], [1.0, 2.0]])
    joined = join_counts(one, {(0, 1): pair})
    assert np.allclose(joined, pair[:, :, None] * one[2] / 4)


def test_the_joined_table_has_the_largest_entropy(table):
    """Whatever keeps the margins and is not the joined table has less entropy: a random such change has."""
    known = margins_of(table, 2)
    joined = join_counts([sum_out(table, (axis,), range(4)) for axis in range(4)], known, 1e-10)
    share = joined / joined.sum()
    rng = np.random.default_rng(2)
    for _ in range(20):
        step = rng.normal(size=table.shape)
        for axes in combinations(range(4), 2):
            others = tuple(axis for axis in range(4) if axis not in axes)
            step = step - step.mean(axis=others, keepdims=True)
        for _ in range(50):  # what one pair takes away another may put back
            for axes in combinations(range(4), 2):
                others = tuple(axis for axis in range(4) if axis not in axes)
                step = step - step.mean(axis=others, keepdims=True)
        moved = share + 1e-3 * share.min() * step / np.abs(step).max()
        assert -(moved * np.log(moved)).sum() <= -(share * np.log(share)).sum() + 1e-12


def test_empty_values_stay_empty():
    one = [np.array([0.0, 4.0]), np.array([4.0, 0.0]), np.array([1.0, 3.0])]
    joined = join_counts(one, {(0, 1): np.array([[0.0, 0.0], [4.0, 0.0]])})
    assert joined[0].sum() == 0 and joined[:, 1].sum() == 0 and joined.sum() == pytest.approx(4)


def test_sums_have_the_margins_that_are_known_and_add_up_what_they_say():
    rng = np.random.default_rng(3)
    counts = rng.gamma(2.0, 10.0, (3, 4, 2))
    means = rng.normal(size=(3, 1, 1)) + rng.normal(size=(1, 4, 1)) + rng.normal(size=(1, 1, 2))
    truth = counts * means  # a sum of what each attribute says: no more is known, and no more is there
    joined = join_sums(counts, margins_of(truth, 1))
    assert np.allclose(joined, truth, atol=1e-3 * np.abs(truth).max())


def test_unbiased_tables_add_up_to_the_table(table):
    known = {part: sum_out(table, part, range(4)) for part in subsets(range(4))}
    bases = [np.full(size, 1 / size) for size in table.shape]
    assert np.allclose(join_unbiased(bases, known), table)
    pairs = {part: each for part, each in known.items() if len(part) <= 2}
    joined = join_unbiased(bases, pairs)
    for part, margin in pairs.items():
        assert np.allclose(sum_out(joined, part, range(4)), margin)
