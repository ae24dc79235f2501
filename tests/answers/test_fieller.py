"""Intervals of linear answers and of ratios: do they cover, and are they no wider than they should be?"""

from fractions import Fraction
from functools import lru_cache
from math import exp, inf, isnan, sqrt

import numpy as np
import pytest

from sfumato.answers import fieller as ratios
from sfumato.answers.fieller import Functional, Intervals, Noises, Shared, Term, linear_interval, ratio_interval
from sfumato.answers.noise_sum import half_width, stderr, upper_quantile
from sfumato.errors import QueryError
from sfumato.measurement import Gaussian, Laplace

ONE = Laplace(Fraction(1))
RUNS = 4000  # simulated releases; a 95 % interval covers fewer than 93.3 % of them once in a million times
LEAST = 0.95 - 4.9 * sqrt(0.95 * 0.05 / RUNS)


def exactly(value):
    return Functional(value, value, value)


def term(noise, many, n, d=0.0):
    return Term.of(noise, many, n, n, n, d, d, d)


def draw(rng, noise, *shape):
    """Discrete Laplace noise as the difference of two geometric variables, which is its exact law."""
    leave = 1 - exp(-1 / float(noise.scale))
    return rng.geometric(leave, shape) - rng.geometric(leave, shape)


def sum_law(noise, many, span):
    """P(sum of noises = k) for k from -span to span, by convolution."""
    z = np.arange(-span, span + 1)
    one = np.exp(-np.abs(z) / float(noise.scale))
    law = one / one.sum()
    for _ in range(many - 1):
        law = np.convolve(law, one / one.sum())[span:-span]
    return z, law


def coverage_of_a_share(part, other, cells_of_part, cells_of_other, bounds=(0.0, 1.0)):
    """The exact probability that the interval of part / (part + other) holds it, over all noise worth counting."""
    terms = [term(ONE, cells_of_part, 1.0, 1.0), term(ONE, cells_of_other, 0.0, 1.0)]
    (z, of_part), (_, of_other) = sum_law(ONE, cells_of_part, 40), sum_law(ONE, cells_of_other, 40)
    covered = counted = 0.0
    for i, p in zip(z, of_part, strict=True):
        for j, q in zip(z, of_other, strict=True):
            if p * q > 2e-5:
                found = ratio_interval(exactly(part + i), exactly(part + i + other + j), terms, 0.95, bounds)
                counted += p * q
                covered += p * q * (found.low <= part / (part + other) <= found.high)
    return covered, counted


@pytest.mark.parametrize(
    ("part", "other", "cells"), [(300, 700, (2, 2)), (3, 4, (1, 1)), (0, 40, (1, 3)), (40, 0, (3, 1)), (1, 0, (1, 1))]
)
def test_a_share_is_covered_as_often_as_promised(part, other, cells):
    # No sampling here: every noise with probability above 2e-5 is visited; what is left out may be covered or not.
    covered, counted = coverage_of_a_share(part, other, *cells)
    assert counted > 0.98
    assert covered + (1 - counted) >= 0.95
    if part == 300:
        assert covered <= 0.975  # on the lattice a four-cell sum cannot do better than 95.1 to 97 %


def test_a_share_of_many_rows_has_the_width_of_the_linear_answer():
    terms = [term(ONE, 3, 1.0, 1.0), term(ONE, 5, 0.0, 1.0)]
    found = ratio_interval(exactly(3e5), exactly(1e6), terms, 0.95, (0.0, 1.0))
    width = half_width([(0.7, ONE, 3), (0.3, ONE, 5)], 0.95) / 1e6
    assert found.value == 0.3
    assert found.high - 0.3 == pytest.approx(width, rel=4e-3)
    assert 0.3 - found.low == pytest.approx(width, rel=4e-3)
    assert found.stderr == pytest.approx(stderr([(0.7, ONE, 3), (0.3, ONE, 5)]) / 1e6)


@pytest.mark.parametrize("numerator", [-30.0, 2.0, 40.0])
@pytest.mark.parametrize("bounds", [None, (-1.0, 1.0)])
def test_the_set_holds_what_is_compatible_with_zero_and_nothing_else(numerator, bounds):
    terms = [
        term(ONE, 2, 1.0, 1.0),
        term(Laplace(Fraction(3)), 1, -0.5, 0.25),
        term(Gaussian(Fraction(2)), 3, 0.0, 1.0),
    ]
    found = ratio_interval(exactly(numerator), exactly(60.0), terms, 0.9, bounds)

    def excess(r):
        width = half_width([(t.weights[0] - r * t.weights[3], t.noise, t.multiplicity) for t in terms], 0.9)
        return abs(numerator - r * 60.0) / width - 1

    for end in (found.low, found.high):
        assert abs(excess(end)) < 0.01
        assert excess(end + 0.02 * (end - found.value)) > 0 > excess(end - 0.02 * (end - found.value))


@pytest.mark.parametrize("middle", [-30.0, 25.0])
def test_with_ends_the_set_holds_what_fits_between_them_and_nothing_else(middle):
    top, bottom = Functional(middle, middle - 12, middle + 9), Functional(80.0, 72.0, 95.0)
    terms = [
        Term.of(Laplace(Fraction(2)), 1, 1.0, 0.6, 1.5, 1.0, 0.4, 1.7),
        Term.of(ONE, 2, 0.5, 0.1, 0.9, 0.3, 0.0, 1.1),
    ]
    found = ratio_interval(top, bottom, terms, 0.9)

    def fits(r):
        low, high = ("low", "high") if r >= 0 else ("high", "low")
        below = [(t.weights[1] - r * t.weights[{"low": 4, "high": 5}[high]], t.noise, t.multiplicity) for t in terms]
        above = [(t.weights[2] - r * t.weights[{"low": 4, "high": 5}[low]], t.noise, t.multiplicity) for t in terms]
        return top.low - r * getattr(bottom, high) <= upper_quantile(below, 0.95) and top.high - r * getattr(
            bottom, low
        ) >= -upper_quantile(above, 0.95)

    for end in (found.low, found.high):
        assert fits(end - 0.01 * (end - found.value))
        assert not fits(end + 0.01 * (end - found.value))


@pytest.mark.parametrize("middle", [-30.0, 25.0])
def test_a_sum_that_is_negative_divides_as_its_negative_does(middle):
    top, bottom = Functional(middle, middle - 12, middle + 9), Functional(80.0, 72.0, 95.0)
    weights = [(1.0, 0.6, 1.5, 1.0, 0.4, 1.7), (0.5, 0.1, 0.9, 0.3, 0.0, 1.1)]
    terms = [Term.of(ONE, 2, *each) for each in weights]
    turned = [Term.of(ONE, 2, *each[:3], -each[3], -each[5], -each[4]) for each in weights]
    plain = ratio_interval(top, bottom, terms, 0.9)
    found = ratio_interval(top, Functional(-80.0, -95.0, -72.0), turned, 0.9, signed=True)
    assert (found.value, found.low, found.high, found.stderr) == (-plain.value, -plain.high, -plain.low, plain.stderr)
    assert np.isnan(ratio_interval(top, Functional(-80.0, -95.0, -72.0), turned, 0.9).value)  # rows are not negative


def test_an_end_is_found_where_laws_jump():
    end = ratios.end_of_interval(lambda r: 1.0 if r < 0.37 else -1000.0, 0.0, 1.0, 0.5, True)
    assert 0.37 <= end <= 0.38


def test_gaussian_noise_gives_the_textbook_interval():
    variance, z = 10**8, 1.959964
    numerator, denominator = 3e5, 1e5
    noise = Gaussian(Fraction(variance))
    found = ratio_interval(
        exactly(numerator), exactly(denominator), [term(noise, 1, 1.0), term(noise, 1, 0.0, 1.0)], 0.95
    )
    # The roots of (N - r D)^2 = z^2 variance (1 + r^2).
    a = denominator**2 - z**2 * variance
    roots = np.roots([a, -2 * numerator * denominator, numerator**2 - z**2 * variance])
    assert (found.low, found.high) == pytest.approx((roots.min(), roots.max()), rel=2e-3)


def test_a_denominator_that_may_be_zero_leaves_the_ratio_open():
    terms = [term(ONE, 1, 1.0), term(ONE, 1, 0.0, 1.0)]
    for numerator in (-4.0, 0.0, 1.0, 30.0):
        found = ratio_interval(exactly(numerator), exactly(2.0), terms, 0.95)
        assert (found.low, found.high) == (-inf, inf)
    assert ratio_interval(exactly(1.0), exactly(2.0), terms, 0.95, (0.0, 5.0)).high == 5.0


@pytest.mark.parametrize("denominator", [0.0, -3.0])
def test_without_a_positive_denominator_there_is_no_value(denominator):
    terms = [term(ONE, 1, 1.0), term(ONE, 1, 0.0, 1.0)]
    found = ratio_interval(exactly(5.0), exactly(denominator), terms, 0.95, (0.0, 1.0))
    assert isnan(found.value)
    assert isnan(found.stderr)
    assert (found.low, found.high) == (0.0, 1.0)
    found = ratio_interval(exactly(5.0), exactly(denominator), terms, 0.95)
    assert (found.low, found.high) == (-inf, inf)


def test_an_empty_group_is_never_given_a_definite_ratio():
    # Both counts are truly 0: the ratio is not defined, and no interval may leave out a part of the bounds too often.
    rng = np.random.default_rng(11)
    part, other = draw(rng, ONE, RUNS), draw(rng, ONE, RUNS)
    terms = [term(ONE, 1, 1.0, 1.0), term(ONE, 1, 0.0, 1.0)]

    @lru_cache(None)
    def ends(top, bottom):
        found = ratio_interval(exactly(top), exactly(bottom), terms, 0.95, (0.0, 1.0))
        return found.low, found.high

    found = [ends(top, bottom) for top, bottom in zip(part.tolist(), (part + other).tolist(), strict=True)]
    for ratio in (0.0, 0.3, 0.5, 1.0):
        assert np.mean([low <= ratio <= high for low, high in found]) >= LEAST


@pytest.mark.full
@pytest.mark.parametrize(("mean", "rows"), [(-22.5, 4000), (-49.0, 300), (9.5, 60), (-5.0, 10)])
def test_an_average_that_may_be_negative_is_covered(mean, rows):
    # SUM = step * measured + centre * COUNT, so both share noise. 600 runs: fewer than 90.4 % once in a million times.
    rng, runs = np.random.default_rng(5), 600
    bounds, cells, step, centre = (-50.0, 10.0), 4, 2.0**-10, -20.0
    of_sum = Laplace(Fraction(30 * 2**10 * 2))  # half of epsilon 1 on 30 / step units
    of_count = Laplace(Fraction(2))
    terms = [term(of_sum, cells, step), term(of_count, cells, centre, 1.0)]
    noise_in_sum, noise_in_count = (
        draw(rng, of_sum, runs, cells).sum(axis=1),
        draw(rng, of_count, runs, cells).sum(axis=1),
    )
    covered = 0
    for in_sum, in_count in zip(noise_in_sum.tolist(), noise_in_count.tolist(), strict=True):
        top = mean * rows + step * in_sum + centre * in_count
        found = ratio_interval(exactly(top), exactly(rows + in_count), terms, 0.95, bounds)
        covered += found.low <= mean <= found.high
        assert bounds[0] <= found.low <= found.high <= bounds[1]
    assert covered / runs >= 0.95 - 5.2 * sqrt(0.95 * 0.05 / runs)
    if rows == 4000:
        assert covered / runs <= 0.99


@pytest.mark.full
@pytest.mark.parametrize("inside", [0, 11, 50])
def test_a_share_with_a_bin_cut_by_its_predicate_is_covered_wherever_the_rows_lie(inside):
    # Cells: 60 rows surely counted; a cut bin of 50 rows of which `inside` count, taken as half; 100 rows of the rest.
    rng = np.random.default_rng(7)
    sure, cut, rest = 60 + draw(rng, ONE, RUNS), 50 + draw(rng, ONE, RUNS), 100 + draw(rng, ONE, RUNS)
    terms = [
        Term.of(ONE, 1, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
        Term.of(ONE, 1, 0.5, 0.0, 1.0, 1.0, 1.0, 1.0),
        Term.of(ONE, 1, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0),
    ]

    @lru_cache(None)
    def ends(a, b, c):
        found = ratio_interval(Functional(a + b / 2, a, a + b), exactly(a + b + c), terms, 0.95, (0.0, 1.0))
        return found.low, found.high

    found = [ends(*values) for values in zip(sure.tolist(), cut.tolist(), rest.tolist(), strict=True)]
    truth = (60 + inside) / 210
    assert np.mean([low <= truth <= high for low, high in found]) >= LEAST


@pytest.mark.parametrize(("mean_inside", "inside"), [(-8.0, 0), (-8.0, 40), (12.0, 40), (12.0, 13)])
def test_an_average_over_a_cut_bin_is_covered_wherever_the_rows_lie(mean_inside, inside):
    # 50 rows at value 2 surely count, a cut bin holds 40 rows with values from -8 to 12; denominator and numerator
    # are both known between two ends only.
    rng, runs = np.random.default_rng(9), RUNS
    sure, cut = 50 + draw(rng, ONE, runs), 40 + draw(rng, ONE, runs)
    terms = [Term.of(ONE, 1, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0), Term.of(ONE, 1, 1.0, -8.0, 12.0, 0.5, 0.0, 1.0)]

    @lru_cache(None)
    def ends(a, b):
        top = Functional(2 * a + b, 2 * a - 8 * b, 2 * a + 12 * b)
        found = ratio_interval(top, Functional(a + b / 2, a, a + b), terms, 0.95, (-8.0, 12.0))
        assert found.low <= found.value <= found.high
        return found.low, found.high

    truth = (50 * 2 + mean_inside * inside) / (50 + inside)
    found = [ends(*values) for values in zip(sure.tolist(), cut.tolist(), strict=True)]
    assert np.mean([low <= truth <= high for low, high in found]) >= LEAST


def test_ends_are_found_with_few_laws(monkeypatch):
    asked = []
    width = Noises.width
    monkeypatch.setattr(Noises, "width", lambda *given: asked.append(1) or width(*given))
    terms = [term(ONE, 3, 1.0, 1.0), term(ONE, 5, 0.0, 1.0)]
    for top, bottom in ((300.0, 1000.0), (4.0, 20.0), (1.0, 12.0), (11.0, 12.0), (7e5, 1e6)):
        for bounds in (None, (0.0, 1.0)):
            asked.clear()
            ratio_interval(exactly(top), exactly(bottom), terms, 0.95, bounds)
            assert len(asked) <= 39  # 15 for each end, 4 before if it does not settle, and one for the denominator


@pytest.mark.parametrize("rows", [3e3, 3e5])
def test_an_average_of_many_values_takes_two_laws_for_each_end(rows, monkeypatch):
    """At most: the first guess, of a sum that is nearly normal, takes none, and a sure denominator neither."""
    asked = []
    width = Noises.width
    monkeypatch.setattr(Noises, "width", lambda *given: asked.append(1) or width(*given))
    terms = [term(ONE, 7, float(hour), 1.0) for hour in range(24)]
    found = ratio_interval(exactly(11.3 * rows), exactly(rows), terms, 0.95, (0.0, 23.0))
    assert len(asked) <= 4 and found.low < 11.3 < found.high


@pytest.mark.parametrize("top", [5e3, 3e4, -3e4, 100.0])
@pytest.mark.parametrize("spread", [0.0, 0.01])
def test_an_end_that_settles_is_the_one_that_is_searched_for(top, spread):
    """To a thousandth of the distance between value and end, by which both may be rounded outwards."""
    terms = [
        Term.of(ONE, 7, h, h * (1 - spread), h * (1 + spread), 1.0, 1 - spread, 1 + spread)
        for h in np.arange(-12.0, 12)
    ]
    ends = Functional(top, top - abs(top) * spread, top + abs(top) * spread), Functional(3000.0, 2980.0, 3030.0)
    found = ratio_interval(*ends, terms, 0.95, (-12.0, 12.0))
    for sign, end in ((1.0, found.high), (-1.0, found.low)):

        def room(r, sign=sign):
            low = 1 if sign * r >= 0 else 2
            numerator, at = (ends[0].high, 2) if sign > 0 else (ends[0].low, 1)
            denominator = ends[1].low if low == 1 else ends[1].high
            mixed = [(t.weights[at] - r * t.weights[3 + low], t.noise, t.multiplicity) for t in terms]
            return sign * (numerator - r * denominator) + upper_quantile(mixed, 0.975)

        assert room(end) < 0 <= room(end - 1e-3 * (end - found.value))


def test_ratios_without_noise_are_exact():
    found = ratio_interval(exactly(1.0), exactly(4.0), [], 0.95, (0.0, 1.0))
    assert (found.value, found.stderr, found.low, found.high) == (0.25, 0.0, 0.25, 0.25)


def test_an_estimate_outside_the_bounds_is_brought_back():
    terms = [term(ONE, 1, 1.0, 1.0), term(ONE, 1, 0.0, 1.0)]
    found = ratio_interval(exactly(-2.0), exactly(50.0), terms, 0.95, (0.0, 1.0))
    assert (found.value, found.low) == (0.0, 0.0)
    assert 0.0 < found.high < 0.1
    found = ratio_interval(exactly(52.0), exactly(50.0), terms, 0.95, (0.0, 1.0))
    assert (found.value, found.high) == (1.0, 1.0)
    assert 0.9 < found.low < 1.0


def test_a_linear_answer_without_ends_is_symmetric():
    terms = [term(ONE, 4, 1.0), term(Laplace(Fraction(2)), 1, -0.5)]
    listed = [(1.0, ONE, 4), (-0.5, Laplace(Fraction(2)), 1)]
    found = linear_interval(exactly(100.0), terms, 0.95)
    assert found.high - 100.0 == 100.0 - found.low == half_width(listed, 0.95)
    assert found.stderr == found.noise == stderr(listed)
    assert found.model == 0.0


@pytest.mark.parametrize("inside", [0, 20, 50])
def test_a_linear_answer_with_a_cut_bin_is_covered_wherever_the_rows_lie(inside):
    rng = np.random.default_rng(3)
    sure, cut = 60 + draw(rng, ONE, RUNS), 50 + draw(rng, ONE, RUNS)
    terms = [Term.of(ONE, 1, 1.0, 1.0, 1.0), Term.of(ONE, 1, 0.5, 0.0, 1.0)]
    covered = 0
    for a, b in zip(sure.tolist(), cut.tolist(), strict=True):
        found = linear_interval(Functional(a + b / 2, a, a + b), terms, 0.95)
        covered += found.low <= 60 + inside <= found.high
        assert found.model == pytest.approx(b / sqrt(12))
        assert found.stderr == pytest.approx(sqrt(found.noise**2 + b**2 / 12))
    assert covered / RUNS >= LEAST


def test_the_interval_holds_its_value_even_if_noise_turns_the_ends_around():
    found = linear_interval(Functional(10.0, 12.0, 8.0), [], 0.95)
    assert (found.low, found.high, found.model) == (10.0, 10.0, 0.0)


def test_confidence_is_checked():
    with pytest.raises(QueryError, match="between 0 and 1"):
        linear_interval(exactly(1.0), [term(ONE, 1, 1.0)], 1.0)
    with pytest.raises(QueryError, match="between 0 and 1"):
        ratio_interval(exactly(1.0), exactly(2.0), [term(ONE, 1, 1.0, 1.0)], 1.5)


@pytest.mark.parametrize("size", [1e-90, 1.0, 1e100])
def test_a_ratio_of_sums_of_any_size_is_the_same_in_its_own_units(size):
    """Weights of 1e100 have no fourth powers; those of 1e-90 none but 0."""
    terms = [Term.of(Laplace(Fraction(50)), 40, size, size, size, 1, 1, 1)]
    found = ratio_interval(Functional(3e4 * size, 3e4 * size, 3e4 * size), Functional(1e5, 1e5, 1e5), terms, 0.95)
    plain = ratio_interval(
        Functional(3e4, 3e4, 3e4),
        Functional(1e5, 1e5, 1e5),
        [Term.of(Laplace(Fraction(50)), 40, 1, 1, 1, 1, 1, 1)],
        0.95,
    )
    ends = found.low / size, found.value / size, found.high / size
    if size == 1.0:
        assert ends == (plain.low, plain.value, plain.high)
    assert ends[0] < ends[1] < ends[2] and ends[1] == pytest.approx(plain.value)


@pytest.mark.parametrize("noise", [ONE, Laplace(Fraction(1, 4)), Gaussian(Fraction(34))])
def test_widths_that_many_groups_share_are_those_of_each_but_for_half_a_percent(noise):
    terms = [term(noise, 1, 1.0, 1.0), term(noise, 59, 0.0, 1.0)]
    for top in (40.0, 41.5, 47.0, 90.0, -3.0):
        own, shared = ratios.Shared(1).noises(terms), ratios.Shared(ratios.SHARED_BY).noises(terms)
        assert shared.shares and not own.shares
        one, other = (ratio_interval(exactly(top), exactly(2400.0), each, 0.95) for each in (own, shared))
        width = one.high - one.low
        assert (other.value, other.stderr) == (one.value, one.stderr)
        assert other.low == pytest.approx(one.low, abs=ratios.TOO_LONG * width)
        assert other.high == pytest.approx(one.high, abs=ratios.TOO_LONG * width)


def test_groups_of_one_noise_have_the_digits_that_each_has_alone():
    terms = (term(ONE, 3, 1.0), term(Gaussian(Fraction(7)), 2, -2.5))
    values = np.random.default_rng(8).normal(0.0, 40.0, 200)
    together = Intervals.of_noise([values] * 3, Shared(200).linear(terms, 0.9))
    alone = Intervals.of([linear_interval(exactly(value), terms, 0.9) for value in values.tolist()])
    for name in ("value", "stderr", "low", "high", "noise", "model"):
        assert np.array_equal(getattr(together, name), getattr(alone, name)), name


def test_groups_that_lean_on_a_model_are_worked_out_one_by_one():
    errors = Shared(2).linear((term(ONE, 3, 1.0),), 0.9)
    assert Intervals.of_noise([np.zeros(2), np.zeros(2), np.ones(2)], errors) is None
    assert Intervals.of_noise([np.zeros(2)] * 3, (*errors[:1], 0.5, *errors[2:])) is None
