"""Many tables of three or four attributes joined at once, against the fitting of single tables cell by cell."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.joining import SINGLE, Few, join_few

ROWS = 5000.0
SIDES = ((0, 1), (0, 2), (1, 2))


def few(shape: tuple[int, ...], seed: int, *, tilted: bool = False, empty: float = 0.2, feasible: bool = False) -> Few:
    rng, axes = np.random.default_rng(seed), range(len(shape))
    table = rng.dirichlet(np.full(np.prod(shape), 0.3)).reshape(shape) * (rng.random(shape) > empty)
    table *= ROWS / table.sum()
    one_way, pairs = (
        {part: table.sum(axis=tuple({*axes} - {*part})) for part in combinations(axes, order)} for order in (1, 2)
    )
    if not tilted:
        return Few([*one_way.values()], pairs)
    signs = [np.where(np.arange(size) < (size + 1) // 2, 1.0, -1.0) for size in shape]
    wanted = {}
    for a, b, c in combinations(axes, 3):
        (other,) = {*axes} - {a, b, c} or {None}
        cells = table if other is None else table.sum(axis=other)
        true = float((cells * np.multiply.outer(np.outer(signs[a], signs[b]), signs[c])).sum())
        wanted[a, b, c] = true if feasible else float(rng.normal(0, 300))
    return Few([*one_way.values()], pairs, signs, wanted)


@pytest.mark.parametrize("close", [1e-4, 1e-6])
def test_they_are_those_of_single_tables(close):
    rng = np.random.default_rng(1)
    tables = [few(tuple(rng.integers(1, 24, 3)), seed, tilted=seed % 2 > 0) for seed in range(30)]
    off = 1e-4 if close >= SINGLE else 1e-7  # of a cell, in single precision
    for table, found in zip(tables, join_few(tables, close), strict=True):
        assert found.shape == table.shape and found.dtype == (np.float32 if close >= SINGLE else np.float64)
        assert np.allclose(found, table.alone(close), rtol=off, atol=off * ROWS / 1000)
        if not table.contrasts:
            for (a, b), pair in table.pairs.items():
                assert np.allclose(found.sum(axis=3 - a - b), pair, atol=10 * close * ROWS)


def test_those_of_four_are_those_of_single_tables():
    """They meet the same margins, by rounds in another order: within what margins are off by where fitting ends."""
    rng = np.random.default_rng(2)
    shapes = [*(tuple(rng.integers(1, 9, 4)) for _ in range(20)), (1, 5, 4, 6), (4, 1, 1, 3)]
    tables = [few(shape, seed, empty=0.05) for seed, shape in enumerate(shapes)]
    for table, found in zip(tables, join_few(tables, 1e-6), strict=True):
        assert np.abs(found - table.alone(1e-6)).sum() <= 1e-3 * ROWS
        for (a, b), pair in table.pairs.items():
            assert np.abs(found.sum(axis=tuple({0, 1, 2, 3} - {a, b})) - pair).sum() <= 1e-5 * ROWS


@pytest.mark.parametrize("order", [3, 4])
def test_contrasts_are_approached(order):
    """Of a table that has them: most of the way, over all sets of three, and about as near as cell by cell."""
    rng = np.random.default_rng(3)
    tables = [few(tuple(rng.integers(2, 9, order)), seed, tilted=True, feasible=True) for seed in range(20)]
    plain = join_few([Few(table.one_way, table.pairs) for table in tables], 1e-6)

    def off(table: Few, cells: np.ndarray) -> float:
        sums = 0.0
        for axes, wanted in table.contrasts.items():
            three = cells.sum(axis=tuple({*range(order)} - {*axes}))
            product = np.multiply.outer(np.outer(*(table.signs[axis] for axis in axes[:2])), table.signs[axes[2]])
            sums += abs(float((three * product).sum()) - wanted)
        return sums

    before, now, alone = 0.0, 0.0, 0.0
    for table, without, found in zip(tables, plain, join_few(tables, 1e-6), strict=True):
        before, now, alone = (
            before + off(table, without),
            now + off(table, found),
            alone + off(table, table.alone(1e-6)),
        )
    assert now <= 0.3 * before and now <= 1.5 * alone


def test_a_contrast_may_be_known_of_some_sets_of_four():
    table = few((3, 4, 2, 5), 1, tilted=True, feasible=True)
    some = Few(table.one_way, table.pairs, table.signs, {(0, 1, 3): table.contrasts[0, 1, 3]})
    found, alone = join_few([some, table], 1e-6)[0], some.alone(1e-6)
    assert np.abs(found - alone).sum() <= 0.02 * ROWS  # tilts end before they are met


def test_it_does_not_matter_who_is_in_the_stack():
    tables = [few((9, 4, 16), seed) for seed in range(5)] + [few((2, 4, 3, 7), seed, tilted=True) for seed in range(5)]
    together = join_few(tables)
    assert all(np.allclose(join_few([table])[0], found) for table, found in zip(tables, together, strict=True))
    assert join_few([]) == []


def test_pairs_that_contradict_each_other_are_met_as_cell_by_cell():
    """Equal halves: b as a, c as b, and yet c unlike a."""
    same, other = np.eye(2) * ROWS / 2, np.eye(2)[::-1] * ROWS / 2
    table = Few([np.full(2, ROWS / 2)] * 3, dict(zip(SIDES, [same, other, same], strict=True)))
    (found,) = join_few([table])
    assert np.isfinite(found).all() and np.allclose(found, table.alone(1e-6))


def test_pairs_that_almost_rule_each_other_out_are_met_as_cell_by_cell():
    """Factors grow by nine powers of ten a round, and their product does not."""
    rng = np.random.default_rng(3)
    tables = []
    for _ in range(6):
        pairs = {pair: np.maximum(rng.permutation(np.eye(4)), 1e-9) * ROWS / 4 for pair in SIDES}
        tables.append(Few([np.full(4, ROWS / 4)] * 3, pairs))
    for table, found in zip(tables, join_few(tables), strict=True):
        assert np.isfinite(found).all() and np.allclose(found, table.alone(1e-6), rtol=1e-6, atol=1e-9)


def test_nothing_is_where_there_are_no_rows():
    sizes = (3, 4, 2)
    table = Few([np.zeros(size) for size in sizes], {(a, b): np.zeros((sizes[a], sizes[b])) for a, b in SIDES})
    assert not join_few([table])[0].any()
