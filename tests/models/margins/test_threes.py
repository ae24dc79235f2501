"""Many tables of three attributes joined at once, against the fitting of single tables cell by cell."""

from __future__ import annotations

import numpy as np
import pytest

from sfumato.models.margins.joining import join_counts
from sfumato.models.margins.threes import SIDES, Three, join_threes

ROWS = 5000.0


def three(shape: tuple[int, int, int], seed: int, *, tilted: bool = False, empty: float = 0.2) -> Three:
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(np.full(np.prod(shape), 0.3)).reshape(shape) * (rng.random(shape) > empty)
    table *= ROWS / table.sum()
    one_way = [table.sum(axis=tuple({0, 1, 2} - {axis})) for axis in range(3)]
    pairs = [table.sum(axis=3 - a - b) for a, b in SIDES]
    if not tilted:
        return Three(one_way, pairs)
    signs = [np.where(np.arange(size) < (size + 1) // 2, 1.0, -1.0) for size in shape]
    return Three(one_way, pairs, signs, float(rng.normal(0, 300)))


def alone(table: Three, close: float) -> np.ndarray:
    contrasts = {} if table.signs is None else {(0, 1, 2): (table.signs, table.wanted)}
    return join_counts(table.one_way, dict(zip(SIDES, table.pairs, strict=True)), close, contrasts)


@pytest.mark.parametrize("close", [1e-4, 1e-6])
def test_they_are_those_of_single_tables(close):
    rng = np.random.default_rng(1)
    tables = [three(tuple(rng.integers(1, 24, 3)), seed, tilted=seed % 2 > 0) for seed in range(30)]
    for table, found in zip(tables, join_threes(tables, close), strict=True):
        assert found.shape == table.shape
        assert np.allclose(found, alone(table, close), rtol=1e-7, atol=1e-9)
        if table.signs is None:
            assert all(
                np.allclose(found.sum(axis=3 - a - b), pair, atol=10 * close * ROWS)
                for (a, b), pair in zip(SIDES, table.pairs, strict=True)
            )


def test_it_does_not_matter_who_is_in_the_stack():
    tables = [three((9, 4, 16), seed) for seed in range(5)]
    together = join_threes(tables)
    assert all(np.allclose(join_threes([table])[0], found) for table, found in zip(tables, together, strict=True))
    assert join_threes([]) == []


def test_pairs_that_contradict_each_other_are_met_as_cell_by_cell():
    """Equal halves: b as a, c as b, and yet c unlike a."""
    same, other = np.eye(2) * ROWS / 2, np.eye(2)[::-1] * ROWS / 2
    table = Three([np.full(2, ROWS / 2)] * 3, [same, other, same])
    (found,) = join_threes([table])
    assert np.isfinite(found).all() and np.allclose(found, alone(table, 1e-6))


def test_pairs_that_almost_rule_each_other_out_are_met_as_cell_by_cell():
    """Factors grow by nine powers of ten a round, and their product does not."""
    rng = np.random.default_rng(3)
    tables = []
    for _ in range(6):
        pairs = [np.maximum(rng.permutation(np.eye(4)), 1e-9) * ROWS / 4 for _ in SIDES]
        tables.append(Three([np.full(4, ROWS / 4)] * 3, pairs))
    for table, found in zip(tables, join_threes(tables), strict=True):
        assert np.isfinite(found).all() and np.allclose(found, alone(table, 1e-6), rtol=1e-6, atol=1e-9)


def test_nothing_is_where_there_are_no_rows():
    table = Three([np.zeros(3), np.zeros(4), np.zeros(2)], [np.zeros((3, 4)), np.zeros((3, 2)), np.zeros((4, 2))])
    assert not join_threes([table])[0].any()
