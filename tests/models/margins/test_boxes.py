"""Ends of counts over boxes, from all tables that know of them."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from sure_coverage import most_misses

from sfumato.answers.noise_sum import Ends
from sfumato.measurement import Gaussian, Laplace, Measurement
from sfumato.models.margins.guaranteed import Boxes, Tables
from sfumato.queries import Identity

SIZES = (3, 2, 4)
KINDS = {place: np.arange(size) for place, size in enumerate(SIZES)}
QUIET = Fraction(1, 50)  # noise of this scale is 0 but once in 10^21 times
PAIRS = ((0, 1), (0, 2), (1, 2))


def table(counts: np.ndarray, scale: Fraction = QUIET) -> Measurement:
    return Measurement("count", Identity(counts.size), counts.reshape(-1), (Laplace(scale),))


def along(counts: np.ndarray, places: tuple[int, ...]) -> np.ndarray:
    return counts.sum(axis=tuple(axis for axis in range(counts.ndim) if axis not in places))


def boxes(counts: np.ndarray, sets: tuple[tuple[int, ...], ...], **further: object) -> Boxes:
    first = [((place,), table(along(counts, (place,)))) for place in range(3)]
    return Boxes(SIZES, KINDS, first, [(places, table(along(counts, places))) for places in sets], **further)


def weights(*inside: list[int]) -> np.ndarray:
    found = np.zeros(SIZES)
    found[np.ix_(*inside)] = 1.0
    return found


@pytest.mark.parametrize("seed", range(6))
def test_pairs_bound_a_count_of_three_attributes_from_both_sides(seed):
    """Without noise the ends are those of linear programming over the eight cells of insides and outsides."""
    from scipy.optimize import linprog

    rng = np.random.default_rng(seed)
    counts, inside = rng.poisson(9.0, SIZES) * (rng.random(SIZES) < 0.6), ([0, 1], [0], [1, 2])
    asked = weights(*inside)
    found = boxes(counts, PAIRS).ends(asked, asked, 0.025)
    corners, cells = [], np.array(list(np.ndindex(2, 2, 2)))
    for axis, each in enumerate(inside):
        corners.append(np.isin(np.arange(SIZES[axis]), each))
    known, rows = [], []
    for places in [(), (0,), (1,), (2,), *PAIRS]:
        rows.append((cells[:, list(places)] == 1).all(axis=1).astype(float))
        mask = np.ones(SIZES, dtype=bool)
        for place in places:
            mask &= corners[place].reshape([-1 if axis == place else 1 for axis in range(3)])
        known.append(counts[mask].sum())
    target = (cells == 1).all(axis=1).astype(float)
    best = [sign * linprog(sign * target, A_eq=np.array(rows), b_eq=known).fun for sign in (1.0, -1.0)]
    assert (found.low, found.high) == pytest.approx(tuple(best), abs=1e-6)


def test_a_misfit_bounds_a_pair_of_which_there_is_no_table():
    """Counts along each attribute leave 0 to 60; a misfit of 8 lets the box move by 2 either way."""
    counts = np.full(SIZES, 10)
    guess = along(counts, (0, 2)).astype(float)
    asked, sets = weights([0], [0, 1], [0, 1, 2]), ((0,), (1,), (2,))
    plain = boxes(counts, sets).ends(asked, asked, 0.025)
    told = boxes(counts, sets, misfits={(0, 2): (8.0, Laplace(QUIET), guess)}).ends(asked, asked, 0.025)
    assert (plain.low, plain.high) == pytest.approx((20.0, 80.0))
    assert (told.low, told.high) == pytest.approx((58.0, 62.0))


def test_what_is_no_box_is_left_to_others():
    counts = np.full(SIZES, 10)
    asked = weights([0], [0], [0]) + weights([1], [1], [1])
    assert boxes(counts, PAIRS).ends(asked, asked, 0.025) is None
    nothing = boxes(counts, PAIRS).ends(0.0 * asked, 0.0 * asked, 0.025)
    assert (nothing.low, nothing.high) == (0.0, 0.0)


def test_a_box_whose_cells_are_cut_has_the_ends_of_the_smaller_and_of_the_larger_one():
    counts = np.arange(24).reshape(SIZES)
    found = boxes(counts, PAIRS).ends(weights([0], [0, 1], [0]), weights([0], [0, 1], [0, 1]), 0.025)
    assert (found.low, found.high) == pytest.approx((4.0, 10.0))


@pytest.mark.parametrize("pooled", [True, False])
def test_low_noise_does_not_bound_a_count_by_zero(pooled):
    """A cell measured far below 0 may hold rows all the same: its end is more than that of two empty cells."""
    counts, scale = np.full(SIZES, 40), Fraction(20)
    counts[0, 0, 0] = -500
    measured = [((0, 1, 2), table(counts, scale))]
    asked = weights([0], [0], [0])
    if pooled:
        first = [((place,), table(np.full(SIZES[place], 300), scale)) for place in range(3)]
        found = Boxes(SIZES, KINDS, first, measured).ends(asked, asked, 0.025)
    else:
        found = Tables(SIZES, measured, counts=True).ends(asked, asked, KINDS, 0.025)
    deviation = float(Laplace(scale).variance) ** 0.5
    assert found.low <= 0.0
    assert 0.5 * deviation < found.high < 3.0 * deviation


def test_sums_of_a_measure_are_pooled_over_all_tables_that_tell_them():
    rng, scale = np.random.default_rng(3), Fraction(20)
    sums = rng.integers(-50, 50, SIZES)
    measured = [(places, table(along(sums, places), scale)) for places in ((0,), *PAIRS[:2])]
    asked = weights([1], [0, 1], [0, 1, 2, 3])
    pooled = Boxes(SIZES, KINDS, [], measured, counts=False).ends(asked, asked, 0.025)
    alone = Tables(SIZES, measured, counts=False).ends(asked, asked, KINDS, 0.025)
    assert pooled.low < along(sums, (0,))[1] < pooled.high
    assert pooled.high - pooled.low < 0.9 * (alone.high - alone.low)
    untold = weights([1], [0], [0])
    assert Boxes(SIZES, KINDS, [], measured, counts=False).ends(untold, untold, 0.025) is None


@pytest.mark.parametrize(
    "asked", [weights([0], [0], [0, 1]), weights([1, 2], [0, 1], [2]), weights([2], [0, 1], [0, 1, 2, 3])]
)
def test_ends_hold_where_noise_decides_what_is_measured_and_how(asked):
    """150 surveys with a tail of 1 / 4 beyond each end. Noise of both first steps decides upon tables and noise sizes.

    A pair is measured where its misfit came out small, and all more finely where noise made a margin small. Counts are
    large, so that noise alone keeps ends apart where a table has all attributes. A false alarm has a chance of 1e-6.
    """
    rng, runs, missed = np.random.default_rng(8), 150, np.zeros(2, dtype=int)
    counts = 400 + 60 * (np.arange(24).reshape(SIZES) * 7 % 5)
    truth = float((asked * counts).sum())

    def noisy(values: np.ndarray, sigma: int) -> Measurement:
        drawn = np.rint(rng.normal(0.0, sigma, values.shape)).astype(np.int64)
        return Measurement(
            "count", Identity(values.size), (values + drawn).reshape(-1), (Gaussian(Fraction(sigma**2)),)
        )

    for _ in range(runs):
        first = [((place,), noisy(along(counts, (place,)), 24)) for place in range(3)]
        guess = along(counts, (0, 2)) + first[0][1].answers[0] % 3
        off = noisy(np.abs(along(counts, (0, 2)) - guess).sum().reshape(1), 30)
        sets, scale = [(0, 1), (0,), (2,)], 12 if first[0][1].answers[0] < along(counts, (0,))[0] else 48
        if off.answers[0] < 12:
            sets.append((0, 2))
        tables = [(places, noisy(along(counts, places), scale)) for places in sets]
        misfits = {(0, 2): (float(off.answers[0]), off.noise, guess.astype(float))}
        ends = Boxes(SIZES, KINDS, first, tables, misfits).ends(asked, asked, 0.25)
        missed += ends.low > truth + 1e-6, ends.high < truth - 1e-6
    assert missed.max() <= most_misses(runs, 1e-6 / 6, 0.25)


def test_ends_are_nearer_than_frechets_by_kind_of_question():
    """Eight tables of five attributes in latent classes: all one-way tables, then every pair but one, with its misfit.

    Widths over Frechet's: 0.21 for the pair without a table, 0.54 for one with a table, 0.80 to 0.92 for three ranges,
    of which pairs do not say more where attributes depend little on each other.
    """
    rng, wider = np.random.default_rng(2), 0
    kept: dict[tuple[int, ...], list[tuple[float, float]]] = {}
    sizes = (12, 10, 8, 6, 3)
    kinds = {place: np.arange(size) for place, size in enumerate(sizes)}
    for _ in range(8):
        shares = sum(_product([rng.dirichlet(np.ones(size) * 3.0) for size in sizes]) for _class in range(4)) / 4.0
        counts = rng.multinomial(20000, shares.reshape(-1)).reshape(sizes)

        def noisy(places: tuple[int, ...], sigma: int) -> tuple[tuple[int, ...], Measurement]:
            values = counts.sum(axis=tuple(axis for axis in range(5) if axis not in places))  # noqa: B023
            drawn = np.rint(rng.normal(0.0, sigma, values.shape)).astype(np.int64)
            noises = (Gaussian(Fraction(sigma**2)),)
            return places, Measurement("count", Identity(values.size), (values + drawn).reshape(-1), noises)

        first = [noisy((place,), 100) for place in range(5)]
        margins = [counts.sum(axis=tuple(axis for axis in range(5) if axis != place)) for place in range(5)]
        guess = np.rint(np.outer(margins[0], margins[1]) / 20000.0)
        off = float(np.abs(counts.sum(axis=(2, 3, 4)) - guess).sum() + rng.laplace(0.0, 200.0))
        tables = [noisy(places, 15) for places in combinations(range(5), 2) if places != (0, 1)]
        misfits = {(0, 1): (off, Laplace(Fraction(200)), guess)}
        boxed = Boxes(sizes, kinds, first, tables, misfits)
        for asked in ((0, 1), (0, 2), (0, 1, 2), (1, 2, 4), (1, 2, 3)):
            mask = _product(
                [_range(rng, size) if place in asked else np.ones(size) for place, size in enumerate(sizes)]
            )
            ends = boxed.ends(mask, mask, 0.025)
            far = Tables(sizes, [*first, *tables], counts=True).ends(mask, mask, kinds, 0.025)
            widths = ends.high - max(ends.low, 0.0), far.high - max(far.low, 0.0)
            kept.setdefault(asked, []).append(widths)
            wider += widths[0] > 1.05 * widths[1]
    ratios = {asked: np.sum(each, axis=0)[0] / np.sum(each, axis=0)[1] for asked, each in kept.items()}
    assert ratios[0, 1] < 0.35
    assert ratios[0, 2] < 0.65
    assert max(ratios.values()) < 0.96
    assert wider == 0


def _product(each: list[np.ndarray]) -> np.ndarray:
    found = np.ones([1] * len(each))
    for axis, one in enumerate(each):
        found = found * one.reshape([-1 if other == axis else 1 for other in range(len(each))])
    return found


def _range(rng: np.random.Generator, size: int) -> np.ndarray:
    low, length = rng.integers(0, size - size // 3), rng.integers(size // 3, 2 * size // 3 + 1)
    return ((np.arange(size) >= low) & (np.arange(size) < low + max(1, length))).astype(float)


def test_the_lower_end_is_left_out_where_the_upper_one_is_beyond_what_matters():
    counts = np.random.default_rng(3).poisson(9.0, SIZES)
    asked, of = weights([0], [1], [2]), boxes(counts, PAIRS)
    both = of.ends(asked, asked, 0.025)
    assert of.ends(asked, asked.copy(), 0.025) == both
    assert of.ends(asked, asked, 0.025, beyond=both.high) == both
    assert of.ends(asked, asked, 0.025, beyond=both.high - 0.5) == Ends(-np.inf, both.high)
