"""All pairs at once: what two pairs say of a third, and margins that agree.

Noise comes from a seeded generator, so nothing here is left to chance; bounds have room for another seed.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from sfumato.models.margins.shrinkage import MOST_VALUES, all_pairs, fit_margins, mediated, predicted_anew
from sfumato.models.margins.table import Table, independent, sum_out

ROWS = 30_000.0


def chain(sizes: tuple[int, ...], seed: int, strength: float = 1.5) -> np.ndarray:
    """Attributes that each depend on the one before and on nothing else."""
    rng = np.random.default_rng(seed)
    table = rng.dirichlet(3 * np.ones(sizes[0]))
    for size in sizes[1:]:
        steps = np.exp(strength * rng.normal(size=(table.shape[-1], size)))
        table = table[..., None] * (steps / steps.sum(axis=1, keepdims=True))
    return ROWS * table


def known_of(table: np.ndarray):
    axes = range(table.ndim)
    one_way = [sum_out(table, (axis,), axes) for axis in axes]
    return one_way, {pair: sum_out(table, pair, axes) for pair in combinations(axes, 2)}


def product(one_way, pair) -> np.ndarray:
    return independent([one_way[place] for place in pair], ROWS)


def test_a_goes_with_c_and_c_with_b_so_a_goes_with_b():
    """Nothing is told of a and b themselves; a ridge gives away a tenth of what c explains, twice."""
    table = chain((5, 6, 4), 1)
    one_way, pairs = known_of(table)
    told = pairs | {(0, 2): product(one_way, (0, 2))}
    apart = np.abs(pairs[0, 2] - told[0, 2]).sum()
    for ridge, most in ((1e-6, 0.02), (0.1, 0.35), (1.0, 0.9)):
        found = mediated(one_way, told, [ridge])[0][0, 2]
        assert np.abs(found - pairs[0, 2]).sum() < most * apart
        assert np.allclose(found.sum(axis=1), one_way[0], rtol=1e-3, atol=1e-3 * ROWS)


def test_where_all_are_independent_nothing_is_explained():
    one_way = [np.random.default_rng(place).dirichlet(np.ones(5)) * ROWS for place in range(4)]
    told = {pair: product(one_way, pair) for pair in combinations(range(4), 2)}
    for pair, found in mediated(one_way, told, [0.1])[0].items():
        assert np.allclose(found, told[pair], atol=1e-3)
    assert mediated(one_way, {}, [0.1, 1.0]) == [{}, {}]


def test_a_pair_that_nobody_measured_is_told_by_the_others():
    table = chain((5, 6, 4), 1)
    one_way, pairs = known_of(table)
    seen = {pair: (pairs[pair], 1e-6) for pair in ((0, 1), (1, 2))}
    found = all_pairs(one_way, seen, [False] * 3)
    apart = np.abs(pairs[0, 2] - product(one_way, (0, 2))).sum()
    assert np.abs(found[0, 2].estimate - pairs[0, 2]).sum() < 0.95 * apart  # with the most cautious of the ridges
    assert (found[0, 2].noise == 0).all() and np.array_equal(found[0, 2].model, found[0, 2].estimate)


def test_others_are_believed_of_an_unmeasured_pair_as_far_as_of_measured_ones():
    """Six attributes depend on one that is hidden, so pairs tell each other; a cautious ridge says half of it."""
    rng = np.random.default_rng(4)
    shares = [rng.dirichlet(0.4 * np.ones(5), 3) for _ in range(6)]
    kinds = ROWS * np.array([0.5, 0.3, 0.2])
    pairs = {(a, b): (shares[a].T * kinds) @ shares[b] for a, b in combinations(range(6), 2)}
    one_way, nobody = [kinds @ each for each in shares], (0, 5)
    seen = {pair: (table + 40.0 * rng.normal(size=(5, 5)), 1600.0) for pair, table in pairs.items() if pair != nobody}
    found = all_pairs(one_way, seen, [False] * 6)
    told = {pair: found[pair].estimate for pair in seen} | {nobody: product(one_way, nobody)}
    cautious = mediated(one_way, told, [1.0])[0][nobody]
    assert np.abs(found[nobody].estimate - pairs[nobody]).sum() < 0.7 * np.abs(cautious - pairs[nobody]).sum()


def test_without_noise_pairs_come_back():
    table = chain((5, 6, 4, 3), 2)
    one_way, pairs = known_of(table)
    found = all_pairs(one_way, {pair: (each, 1e-8) for pair, each in pairs.items()}, [True, False, True, False])
    for pair, each in pairs.items():
        assert np.abs(found[pair].estimate - each).sum() < 1e-4 * ROWS


def test_they_have_the_margins_and_are_nearer_than_noise_and_than_independence():
    table = chain((12, 10, 8, 6), 3)
    one_way, pairs = known_of(table)
    rng, deviation = np.random.default_rng(1), 40.0
    noisy = {pair: (each + rng.normal(0.0, deviation, each.shape), deviation**2) for pair, each in pairs.items()}
    found = all_pairs(one_way, noisy, [False] * 4)
    assert list(found) == list(pairs)
    off = dict.fromkeys(("found", "noisy", "independent"), 0.0)
    for pair, each in pairs.items():
        estimate = found[pair].estimate
        assert (estimate >= 0).all()
        for axis, place in enumerate(pair):
            assert np.abs(sum_out(estimate, (axis,), (0, 1)) - one_way[place]).sum() < 1e-3 * ROWS
        off["found"] += np.abs(estimate - each).sum()
        off["noisy"] += np.abs(noisy[pair][0] - each).sum()
        off["independent"] += np.abs(product(one_way, pair) - each).sum()
    assert off["found"] < 0.8 * off["noisy"] and off["found"] < 0.5 * off["independent"]


def test_pairs_are_predicted_anew_from_pairs_that_contrasts_corrected():
    """0 goes with 1 and 1 with 2. Only 1 with 2 was measured: once 0 with 1 is known, 0 with 2 follows."""
    one_way, pairs = known_of(chain((6, 5, 7), 3))

    def tables(**corrected):
        known = {pair: product(one_way, pair) for pair in pairs} | {(1, 2): pairs[1, 2]} | corrected.get("by", {})
        return {pair: Table(pair, each, each, each) for pair, each in known.items()}

    off = {}
    for by in ({}, {(0, 1): pairs[0, 1]}):
        found = predicted_anew(one_way, tables(by=by), [(0, 2)], {}, {})
        assert list(found) == [(0, 2)] and not found[0, 2].noise.any()
        assert np.allclose(found[0, 2].estimate.sum(axis=1), one_way[0], rtol=1e-3)
        off[len(by)] = np.abs(found[0, 2].estimate - pairs[0, 2]).sum()
    assert off[1] < 0.4 * off[0]
    possible = np.ones((6, 7), dtype=bool)
    possible[2, 3] = False
    assert predicted_anew(one_way, tables(), [(0, 2)], {(0, 2): possible}, {})[0, 2].estimate[2, 3] == 0.0
    long = [np.full(MOST_VALUES + 1, ROWS / (MOST_VALUES + 1)), *one_way[1:]]
    assert predicted_anew(long, tables(), [(0, 2)], {}, {}) == {}  # stays as it was


def test_attributes_of_too_many_values_are_taken_cell_by_cell():
    rng = np.random.default_rng(5)
    one_way = [np.full(MOST_VALUES + 1, 10.0), (MOST_VALUES + 1) * np.array([4.0, 6.0]), np.full(3, 1e3)]
    one_way[2] *= one_way[0].sum() / 3e3
    pair = independent([one_way[0], one_way[1]], float(one_way[0].sum()))
    found = all_pairs(one_way, {(0, 1): (pair + rng.normal(0, 3, pair.shape), 9.0)}, [True, False, False])
    assert set(found) == {(0, 1), (0, 2), (1, 2)}
    assert found[0, 1].estimate.sum(axis=0) == pytest.approx(one_way[1], rel=1e-3)


def test_margins_are_fitted_and_what_is_empty_stays_empty():
    rows, columns = np.array([0.0, 6.0, 4.0]), np.array([5.0, 5.0])
    found = fit_margins(np.array([[3.0, 1.0], [1.0, -2.0], [1.0, 1.0]]), rows, columns, 200)
    assert found[0].tolist() == [0.0, 0.0] and (found >= 0).all()
    assert np.allclose(found.sum(axis=0), columns, atol=0.1) and np.allclose(found.sum(axis=1), rows, atol=0.1)


def test_no_rows_at_all_are_no_trouble():
    one_way = [np.zeros(3), np.zeros(4)]
    found = all_pairs(one_way, {(0, 1): (np.ones((3, 4)), 4.0)}, [True, True])
    assert np.isfinite(found[0, 1].estimate).all() and found[0, 1].estimate.sum() == 0
