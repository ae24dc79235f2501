"""Contrasts of blocks: what they are, how errors are learned from them, and what they correct."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from sfumato.models.calibration.model_error import SIZES, WIDER, learned_sizes, posterior
from sfumato.models.margins.scales import (
    FALL,
    LEVELS,
    MEASURED,
    UNSURE,
    Contrasts,
    Haar,
    bends,
    bent,
    corrected,
    first_component,
    halved,
    levels_of,
    of_three,
    shape_of,
    sizes_of,
    worth_measuring,
)
from sfumato.models.margins.table import Table, sum_kinds

ROWS, SIDE = 100_000.0, 16


# -- halves and their signs


def test_an_axis_is_halved_by_its_rows_and_values_alike():
    even = halved(np.ones(8))
    assert [each.tolist() for each in even] == [[v // size for v in range(8)] for size in (4, 2, 1, 1)]
    uneven = np.array([6.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])  # the first holds half of all rows
    assert halved(uneven, by_rows=True)[0].tolist() == [0, 1, 1, 1, 1, 1, 1]
    assert halved(uneven)[0].tolist() == [0, 0, 0, 1, 1, 1, 1]
    tail = np.array([50.0, 50.0, *[0.5] * 14])  # 7 rows of 107 in 14 values of 16: not one block of eight, but four
    assert len({*halved(tail)[2][2:].tolist()}) == 4 and len({*halved(tail, by_rows=True)[2][2:].tolist()}) == 1
    for margin in (np.ones(8), np.array([6.0, 1, 1, 1, 1, 1, 1]), np.zeros(5), np.array([0.0, 3, -2, 4])):
        levels = halved(margin)
        assert len(levels) == LEVELS
        for outer, inner in zip([np.zeros(len(margin), dtype=int), *levels], levels, strict=False):
            assert {*inner.tolist()} == {*range(inner.max() + 1)}
            assert all(len({*outer[inner == block].tolist()}) == 1 for block in range(inner.max() + 1))  # nested
            assert (np.diff(inner) >= 0).all()


def test_blocks_where_two_axes_depend_on_each_other_are_larger():
    """A dense block counts for more than its rows and its share of values; sizes add up to the rows."""
    even, rows = np.full(8, 1 / 8), np.full((8, 8), 100.0)
    assert [each.tolist() for each in shape_of([even, even], rows)] == [even.tolist()] * 2  # independent: all alike
    assert [each.tolist() for each in shape_of([even, even], None)] == [even.tolist()] * 2
    rows[2:4, 5] += 100.0
    shape = shape_of([even, even], rows)
    assert all(each.sum() == pytest.approx(1.0) for each in shape) and shape[0].argmax() in (2, 3)
    sizes = sizes_of(rows, [even, even], shape, rows.sum())
    assert sizes.sum() == pytest.approx(rows.sum()) and sizes[2, 5] > 2.5 * sizes[6, 1]
    assert sizes[2, 5] > 1.5 * sizes_of(rows, [even, even], [even, even], rows.sum())[2, 5]


def test_the_first_component_of_a_dependence():
    rng = np.random.default_rng(3)
    rows = np.outer(*(rng.random(size) for size in (5, 9)))
    left, right = first_component(rows)
    assert not left.any() and not right.any()  # a product has none
    off = np.outer([1.0, -1.0, 0.0, 0.0, 0.0], [0.0, 2.0, -2.0, *[0.0] * 6]) * 1e-3
    assert np.allclose(np.outer(*first_component(rows + off)), off, atol=1e-4)


def test_signs_of_halves_and_quarters():
    haar = Haar.of(np.ones(4))
    assert haar.signs.tolist() == [[1, 1, -1, -1], [1, -1, 0, 0], [0, 0, 1, -1]]
    assert haar.level.tolist() == [0, 1, 1] and np.abs(haar.signs).sum(axis=0).max() == 2
    assert Haar.of(np.ones(4), 1).signs.tolist() == [[1, 1, -1, -1]]


def test_quarters_are_turned_into_even_and_odd():
    haar = Haar.of(np.ones(8))
    turn, parity = haar.turned
    assert np.allclose(turn @ turn.T, np.eye(len(turn)), atol=1e-12)  # so noise of one variance keeps it
    assert parity.tolist() == [1, 0, 1, 2, 2, 2, 2]
    middle = np.arange(8) - 3.5
    square, slope = (turn @ haar.signs @ each for each in (middle**2, middle))
    assert square[1] > 10 and abs(square[2]) < 1e-9 and abs(square[0]) < 1e-9
    assert slope[2] < -1 and abs(slope[1]) < 1e-9
    assert np.array_equal(Haar.of(np.array([5.0, 5.0])).turned[0], np.eye(1))


def test_a_dependence_is_corrected_by_contrasts_of_one_parity():
    """60 pairs off by a product of even functions: the error that is left is that of the noise, not two times it.

    Its squares over the noise's variance add up to chi squared of 60 (shrinking takes some), above 127 once in 1e6. One
    prior for all contrasts left some 180.
    """
    rng, side, noise = np.random.default_rng(5), 8, 200.0
    haar = Haar.of(np.ones(side))
    even = haar.turned[0][1] @ haar.signs
    product = np.full((side, side), ROWS / side**2)
    truth = product + 30.0 * np.outer(even, even)
    contrasts, tables = {}, {}
    for pair in range(60):
        places = (pair, pair + 1)
        exact = Contrasts((haar, haar), np.zeros((7, 7)), noise**2)
        measured = exact.families() < MEASURED
        noisy = np.where(measured, exact.of(truth) + noise * rng.standard_normal((7, 7)), 0.0)
        contrasts[places] = replace(exact, noisy=noisy)
        tables[places] = Table(places, product, product * 0.1, product * 0.9)
    result, _ = corrected(tables, contrasts, [])
    turn = haar.turned[0]
    off = [(turn @ haar.signs @ (result[p].estimate - truth) @ haar.signs.T @ turn.T)[1, 1] for p in result]
    before = (turn @ haar.signs @ (product - truth) @ haar.signs.T @ turn.T)[1, 1]
    assert abs(before) > 2 * noise
    assert np.square(off).sum() / noise**2 < 127


def test_an_axis_that_cannot_be_halved_has_fewer_signs_or_none():
    alone = Haar.of(np.array([7.0]))
    assert alone.signs.shape == (0, 1)
    two = Haar.of(np.array([5.0, 5.0]))
    assert two.signs.tolist() == [[1, -1]]
    for margin in (np.array([90.0, 1, 1, 1, 1, 1, 1]), np.array([1.0, 2, 3]), np.array([0.0, 0, 9, 0])):
        haar = Haar.of(margin)
        assert np.isin(haar.signs, (-1, 0, 1)).all()
        for row in haar.signs:  # each has two sides
            assert {-1.0, 1.0} <= {*row.tolist()}
        assert (np.abs(haar.signs).sum(axis=0) <= MEASURED).all()  # a value enters one contrast of each level


def test_contrasts_are_those_of_dense_signs():
    rng = np.random.default_rng(1)
    signs = (Haar.of(rng.uniform(1, 9, 7)), Haar.of(rng.uniform(1, 9, 5)))
    table, (a, b) = rng.uniform(0, 9, (7, 5)), (each.signs for each in signs)
    noisy = rng.normal(size=(len(a), len(b)))
    contrasts = Contrasts(signs, noisy, 1.0)
    assert np.allclose(contrasts.of(table), np.einsum("ix,jy,xy->ij", a, b, table))
    assert np.allclose(contrasts.rows(table), np.einsum("ix,jy,xy->ij", np.abs(a), np.abs(b), table))
    expected = [[first + second for second in signs[1].level] for first in signs[0].level]
    assert contrasts.families().tolist() == expected


# -- how large errors are


@pytest.mark.parametrize("size", [SIZES[4], SIZES[10], SIZES[16]])
def test_a_variance_is_learned_and_errors_are_drawn_by_it(size):
    """200 families of 16 contrasts, errors of a known multiple of what is claimed, noise of twice what is claimed.

    The variance of 3,200 squares of normal numbers is known to 2.5 %: five such deviations and a half step of the
    grid, 25 %, are given way to. What is left of errors, over what is told to be left, has mean 1 and deviation 2.5 %;
    more than 5 of these, 12.5 %, in one of both directions have a chance of 6e-7.
    """
    rng, claimed = np.random.default_rng(3), np.full(16, 50.0)
    truth = rng.normal(0.0, np.sqrt(size * 50.0), (200, 16))
    off = truth + rng.normal(0.0, 10.0, truth.shape)
    sizes = learned_sizes([(one, claimed, 100.0) for one in off])
    assert np.allclose([each.sum() for each in sizes], 1.0)
    assert float(np.mean(sizes, axis=0) @ SIZES) == pytest.approx(size, rel=0.25 + 0.125 * (1 + 2 / size))
    found = [posterior(one, claimed, 100.0, each) for one, each in zip(off, sizes, strict=True)]
    mean, left, noise = (np.array(each) for each in zip(*found, strict=True))
    assert ((truth - mean) ** 2 / left).mean() == pytest.approx(1.0, abs=0.125)
    assert (left <= 100.0 * (1 + 1e-9) + off**2).all() and (noise <= left).all() and (noise >= 0).all()
    assert ((truth - mean) ** 2).mean() <= min((truth**2).mean(), ((truth - off) ** 2).mean()) * 1.01


def test_nothing_is_learned_of_nothing():
    assert learned_sizes([]) == []


def test_a_posterior_of_one_size_is_the_textbook_one():
    sizes = (np.arange(len(SIZES)) == 10).astype(float)
    prior, off = SIZES[10] * np.array([2.0, 8.0]), np.array([3.0, -40.0])
    mean, left, noise = posterior(off, np.array([2.0, 8.0]), 25.0, sizes)
    trust = prior / (prior + 25.0)
    assert np.allclose(mean, trust * off) and np.allclose(left, 25.0 * trust) and np.allclose(noise, 25.0 * trust**2)


# -- which pairs

FINE, FLAGS = (Haar.of(np.ones(8)),) * 2, (Haar.of(np.ones(2)),) * 2
BARE = Haar.of(np.ones(1)), Haar.of(np.ones(8))


def test_levels_that_add_up_to_little_are_measured():
    assert levels_of(FINE) == [(0, 0), (0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]
    assert levels_of(FINE, 2) == [(0, 0), (0, 1), (1, 0)] and levels_of(FINE, 0) == []
    assert levels_of((FLAGS[0], FINE[0])) == [(0, 0), (0, 1), (0, 2)] and levels_of(FLAGS) == [(0, 0)]
    assert levels_of(BARE) == []
    heaped = Haar(np.array([[1.0, 1.0, -1.0], [1.0, -1.0, 0.0]]), np.array([0, 2]))  # no block that two quarters part
    assert levels_of((heaped, FLAGS[0])) == [(0, 0), (2, 0)]
    three = tuple(Haar.of(np.ones(8), 1) for _ in range(3))
    assert levels_of(three) == [(0, 0, 0)]


@pytest.mark.parametrize("pure", [True, False])
def test_pairs_are_measured_where_noise_does_not_hide_them(pure):
    pairs = [FINE] * 4
    assert worth_measuring(np.full(4, 5.0), pairs, 400.0, pure).tolist() == [0, 0, 0, 0]
    assert worth_measuring(np.zeros(0), [], 1.0, pure).tolist() == []
    assert worth_measuring(np.full(4, 1e6), pairs, 1.0, pure).tolist() == [MEASURED] * 4
    assert worth_measuring(np.array([1.0, 1e5, 2.0, 9e4]), pairs, 100.0, pure).tolist() == [0, MEASURED, 0, MEASURED]
    assert worth_measuring(np.full(3, 1e6), [FLAGS, BARE, FINE], 1.0, pure).tolist() == [1, 0, MEASURED]
    assert worth_measuring(np.full(1, 1e6), [BARE], 1.0, pure).tolist() == [0]


def test_finer_contrasts_are_left_out_where_noise_would_hide_them():
    """Six families together have six times the noise of one, which all are smaller than at 25 rows: only some pay."""
    depths = [worth_measuring(np.array([100.0]), [FINE], noise**2, True)[0] for noise in (2.0, 25.0, 99.0, 101.0)]
    assert depths[0] == MEASURED and depths[-1] == 0
    assert 1 <= depths[2] < MEASURED and sorted(depths, reverse=True) == depths
    assert worth_measuring(np.array([100.0]), [FINE], 25.0**2, False)[0] > depths[1]


# -- corrections


def smooth(strength: float) -> np.ndarray:
    """A pair in which large values go with large ones, cell by cell a little."""
    at = np.linspace(-1.0, 1.0, SIDE)
    return ROWS / SIDE**2 * (1.0 + strength * np.outer(at, at))


def as_product(truth: np.ndarray, variance: float = 1.0) -> Table:
    product = np.outer(truth.sum(axis=1), truth.sum(axis=0)) / truth.sum()
    return Table((0, 1), product, np.zeros(product.shape), np.full(product.shape, variance))


def measured(truth: np.ndarray, deviation: float, rng: np.random.Generator) -> Contrasts:
    signs = Haar.of(truth.sum(axis=1)), Haar.of(truth.sum(axis=0))
    exact = Contrasts(signs, np.zeros(()), deviation**2).of(truth)
    return Contrasts(signs, exact + rng.normal(0.0, deviation, exact.shape), deviation**2)


def quarters(table: np.ndarray) -> np.ndarray:
    return sum_kinds(table, [np.arange(SIDE) // (SIDE // 4)] * 2)


@pytest.mark.parametrize("told", [[], [(0, 1)]])
def test_a_smooth_dependence_that_was_taken_for_a_product_is_found(told):
    truth, rng = smooth(0.8), np.random.default_rng(2)
    table = as_product(truth)
    found, spreads = corrected({(0, 1): table}, {(0, 1): measured(truth, 30.0, rng)}, told)
    estimate = found[0, 1].estimate
    assert (estimate >= 0).all() and estimate.shape == truth.shape
    assert np.allclose(estimate.sum(axis=0), truth.sum(axis=0)) and np.allclose(estimate.sum(axis=1), truth.sum(axis=1))
    before, after = (np.abs(quarters(each) - quarters(truth)).mean() for each in (table.estimate, estimate))
    assert before > 1000 and after < before / 15
    assert np.array_equal(found[0, 1].noise, table.noise)
    assert len(spreads[0, 1].noise) == len(spreads[0, 1].model) == LEVELS
    assert min(spreads[0, 1].noise + spreads[0, 1].model) >= 0


def dense_corner() -> np.ndarray:
    """One row in ten lies in a corner of 2 x 1 values."""
    truth = np.full((SIDE, SIDE), 0.9 * ROWS / SIDE**2)
    truth[:2, 5] += 0.1 * ROWS / 2
    return truth


def test_a_prediction_of_a_tenth_of_the_strength_is_brought_to_all_of_it():
    """Contrasts see blocks of 4 x 4 values at best; the prediction has the corner, and where it is inside a block."""
    truth = dense_corner()
    flat = as_product(truth)
    weak = replace(flat, estimate=flat.estimate + 0.1 * (truth - flat.estimate))
    off = []
    for table, told in ((flat, []), (weak, []), (weak, [(0, 1)])):
        contrasts = measured(truth, 100.0, np.random.default_rng(8))
        found, _ = corrected({(0, 1): table}, {(0, 1): contrasts}, told)
        off.append(np.abs(found[0, 1].estimate - truth).sum())
        assert np.allclose(found[0, 1].estimate.sum(axis=1), truth.sum(axis=1))
    assert off[1] < 0.1 * off[0] and off[1] < 0.01 * ROWS and off[2] > 3.0 * off[1]  # of cells that were measured not


def test_a_prediction_that_contrasts_say_nothing_of_is_left_as_it_is():
    """What goes up and down between neighbours is in no contrast, and noise alone gives it no factor."""
    truth = smooth(0.0)
    way = np.where(np.arange(SIDE) % 2, -1.0, 1.0)
    finest = Table((0, 1), truth * (1.0 + 0.05 * np.outer(way, way)), np.zeros(truth.shape), truth)
    for seed in range(20):
        found, _ = corrected({(0, 1): finest}, {(0, 1): measured(truth, 100.0, np.random.default_rng(seed))}, [])
        assert np.abs(found[0, 1].estimate - finest.estimate).sum() < 0.01 * ROWS


def striped(depth: int) -> np.ndarray:
    """A pair whose rows go up and down by pieces of the first axis, of which 2^depth lie in one half of the other."""
    way = np.where(np.arange(SIDE) * 2**depth // SIDE % 2, -1.0, 1.0)
    return ROWS / SIDE**2 * (1.0 + 0.5 * np.outer(way, np.repeat([1.0, -1.0], SIDE // 2)))


@pytest.mark.parametrize("told", [[], [(0, 1)]])
def test_eighths_in_halves_are_found(told):
    """Half of all rows of a cell are off, and neither halves nor quarters of both axes tell it."""
    truth = striped(3)
    contrasts = measured(truth, 30.0, np.random.default_rng(4))
    found, spreads = corrected({(0, 1): as_product(truth)}, {(0, 1): contrasts}, told)
    assert np.abs(found[0, 1].estimate - truth).sum() < 0.02 * ROWS
    assert np.abs(as_product(truth).estimate - truth).sum() == pytest.approx(0.5 * ROWS)
    assert spreads[0, 1].noise[2] > 0


@pytest.mark.parametrize("told", [[], [(0, 1)]])
def test_what_was_not_measured_is_as_rough_as_what_was_before_it_was_corrected(told):
    """Contrasts of eighths with halves, off by 12,500 rows of 25,000, are corrected; with quarters they were not
    measured, nor were sixteenths, whose variance falls from that."""
    truth = striped(3)
    contrasts = measured(truth, 30.0, np.random.default_rng(5))
    _, spreads = corrected({(0, 1): as_product(truth, 1000.0)}, {(0, 1): contrasts}, told)
    before, (eighths, sixteenths) = (ROWS / 8) ** 2 / (ROWS / 4), spreads[0, 1].model[2:]
    assert before / 10 < eighths < before
    assert before / FALL / 10 < sixteenths < before and spreads[0, 1].noise[3] == 0


def test_contrasts_beyond_the_depth_change_nothing():
    truth = striped(3)
    whole = measured(truth, 30.0, np.random.default_rng(6))
    few = Contrasts(whole.signs, np.where(whole.families() < 1, whole.noisy, 0.0), whole.variance, 1)
    other = Contrasts(whole.signs, np.where(whole.families() < 1, whole.noisy, 1e6), whole.variance, 1)
    found, spreads = corrected({(0, 1): as_product(truth)}, {(0, 1): few}, [])
    again, same = corrected({(0, 1): as_product(truth)}, {(0, 1): other}, [])
    assert np.array_equal(found[0, 1].estimate, again[0, 1].estimate) and spreads == same
    assert np.abs(found[0, 1].estimate - as_product(truth).estimate).sum() < 0.01 * ROWS
    assert spreads[0, 1].noise[0] > 0 and not any(spreads[0, 1].noise[1:])
    assert spreads[0, 1].model[3] == pytest.approx(spreads[0, 1].model[2] / FALL)


def test_no_cell_becomes_negative_where_contrasts_ask_for_it():
    truth = smooth(0.0)
    contrasts = measured(truth, 1.0, np.random.default_rng(0))
    wild = Contrasts(contrasts.signs, contrasts.noisy + 3.0 * ROWS, 1.0)
    found, _ = corrected({(0, 1): as_product(truth, 1e6)}, {(0, 1): wild}, [])
    assert (found[0, 1].estimate >= 0).all()
    assert np.allclose(found[0, 1].estimate.sum(axis=1), truth.sum(axis=1))


def test_a_table_is_never_farther_from_its_contrasts_than_it_was():
    """With many empty cells some contrasts cannot be had together: going on regardless, one table in 15 got worse."""
    rng = np.random.default_rng(0)
    for _ in range(150):
        sides = rng.integers(3, 30, 2)
        rows = rng.gamma(0.15, 1.0, sides) * np.outer(*(rng.gamma(0.4, 1.0, side) for side in sides))
        rows *= 20_000.0 / rows.sum()
        contrasts = measured(rows, rng.choice([50.0, 300.0, 2000.0]), rng)
        sure = replace(contrasts, variance=1e-6)  # so that all of it is taken for true
        table = Table((0, 1), rows, np.zeros(sides), np.ones(sides))
        found, _ = corrected({(0, 1): table}, {(0, 1): sure}, [(0, 1)])
        told = sure.families() < sure.depth
        before, after = (np.square(told * (sure.noisy - sure.of(one))).sum() for one in (rows, found[0, 1].estimate))
        assert after <= before * (1.0 + 1e-6)


def test_pairs_without_contrasts_are_left_alone():
    table, bare = (
        as_product(smooth(0.5)),
        Contrasts((Haar.of(np.ones(1)), Haar.of(np.ones(SIDE))), np.zeros((0, 7)), 1.0),
    )
    found, spreads = corrected({(0, 1): table, (0, 2): table}, {(0, 1): bare}, [])
    assert found == {(0, 1): table, (0, 2): table} and spreads == {}


def test_what_is_left_is_told():
    """200 draws of noise: mean squared errors of halves, quarters and eighths, over the variances that are told.

    Each draw gives one contrast of halves, eight with quarters and eight of halves with eighths. Of 200 squares of
    normal numbers the mean has a deviation of 10 %; 5 of them have a chance of 6e-7. Told are variances of `WIDER`^2
    times what is left; of eighths more, as contrasts of eighths with quarters were not measured.
    """
    truth = smooth(0.6)
    ratios = []
    for seed in range(200):
        contrasts = measured(truth, 60.0, np.random.default_rng(seed))
        found, spreads = corrected({(0, 1): as_product(truth, 100.0)}, {(0, 1): contrasts}, [])
        off = contrasts.of(found[0, 1].estimate - truth) ** 2
        told = contrasts.rows(found[0, 1].estimate)
        scaled = np.add(spreads[0, 1].noise, spreads[0, 1].model)
        here = np.where(contrasts.families() < MEASURED, contrasts.finest(), -1)
        ratios.append([(off / (scaled[level] * told))[here == level].mean() for level in range(MEASURED)])
    halves, quarters, eighths = np.mean(ratios, axis=0) * WIDER**2
    assert (halves, quarters) == (pytest.approx(1.0, abs=0.5),) * 2 and eighths < 1.5


def test_contrasts_of_three_are_drawn_towards_what_is_joined():
    signs = tuple(Haar.of(np.ones(2), 1) for _ in range(3))
    joined = 0.0, 8000.0  # the contrast of eight cells of 1,000 rows, and all rows
    contrasts = {
        (0, 1, place): Contrasts(signs, np.array([[[noisy]]]), 100.0) for place, noisy in ((2, 4000.0), (3, 5.0))
    }
    found = of_three(contrasts, dict.fromkeys(contrasts, joined))
    assert found[0, 1, 2].contrast == pytest.approx(4000, rel=0.02) and abs(found[0, 1, 3].contrast) < 5.0
    assert found[0, 1, 2].before > 100 * found[0, 1, 3].before
    for each in found.values():
        assert 0 < each.spread <= WIDER**2 * 100.0 / 8000.0 * 1.01
    assert of_three({}, {}) == {}


def test_what_margins_do_not_allow_is_told():
    """One column nearly gives the other, but margins are off by 3 %: no table has the contrasts that were measured."""
    values = np.arange(SIDE)
    truth = np.exp(-0.5 * np.subtract.outer(values, values) ** 2)
    truth *= ROWS / truth.sum()
    blurred = truth * np.linspace(0.9, 1.1, SIDE) + np.full(truth.shape, 0.1 * ROWS / SIDE**2)
    table = Table((0, 1), blurred * (ROWS / blurred.sum()), np.zeros(truth.shape), np.ones(truth.shape))
    contrasts = measured(truth, 30.0, np.random.default_rng(1))
    found, spreads = corrected({(0, 1): table}, {(0, 1): contrasts}, [(0, 1)])
    off = contrasts.of(found[0, 1].estimate - truth)[0, 0]
    told = (spreads[0, 1].noise[0] + spreads[0, 1].model[0]) * contrasts.rows(found[0, 1].estimate)[0, 0]
    assert abs(off) > 10.0 * 30.0 and 0.5 < off**2 / told < 2.0


# -- a dependence that is off as a whole


def test_bends_are_orthonormal_under_the_rows_and_hold_the_share_of_a_dependence():
    """A table with 0.3 of the product of two bends of degree 2, and none of any other."""
    rows, measure = np.arange(1.0, SIDE + 1.0), np.full(SIDE, 1.0 / SIDE)
    share = rows / rows.sum()
    curved = bends(rows, measure) - share  # shares of rows times polynomials
    assert curved @ (curved / share).T == pytest.approx(np.eye(len(curved)), abs=1e-9)
    assert curved.sum(axis=1) == pytest.approx(0.0, abs=1e-12)

    table = ROWS * (np.outer(share, share) + 0.3 * np.outer(curved[0], curved[0]))
    expected = np.zeros((len(curved), len(curved)))
    expected[0, 0] = UNSURE * (0.3 * ROWS) ** 2
    assert bent(table, share + curved, share + curved) == pytest.approx(expected, abs=1e-3)


def test_nothing_bends_without_a_dependence_or_with_few_values():
    rows = np.arange(1.0, SIDE + 1.0)
    shapes = bends(rows, np.full(SIDE, 1.0 / SIDE))
    assert bent(np.outer(rows, rows), shapes, shapes) == pytest.approx(0.0, abs=1e-6)
    assert bends(np.array([1.0, 2.0, 0.0, 3.0, 4.0]), np.full(5, 0.2)).shape == (0, 5)
