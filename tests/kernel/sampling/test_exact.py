"""Enclosures checked against mpmath, and coins against the numbers they stand for."""

import ast
from fractions import Fraction
from itertools import islice
from pathlib import Path

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import PrivacyError
from sfumato.kernel.sampling import exact, noise
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.exact import Coins, bernoulli, complement, exp_minus, is_below, over_one_plus, squared
from sfumato.kernel.verbs import exponential as choose

FALSE_ALARM = 1e-6
ALL_ONES = 2**64 - 1

positive = st.builds(Fraction, st.integers(1, 10**30), st.integers(1, 10**30)) | st.builds(
    lambda digits, power: digits * Fraction(10) ** power, st.integers(1, 10**6), st.integers(-60, 60)
)
precision = st.integers(0, 300)


class Scripted:
    """Hands out the words it was given and fails when there are no more."""

    private = False

    def __init__(self, *words):
        self.script = list(words)

    def words(self, count):
        taken, self.script = self.script[:count], self.script[count:]
        assert len(taken) == count, "more random words were drawn than expected"
        return np.array(taken, dtype=np.uint64)


def assert_encloses(real, bits, value):
    """value: a function evaluated by mpmath with 600 more bits than asked for, so its own error cannot matter."""
    lower, upper = real(bits)
    with mpmath.workprec(bits + 600):
        assert lower <= value() * mpmath.mpf(2) ** bits <= upper
    assert 0 <= upper - lower <= 2


def rational(x):
    return mpmath.mpf(x.numerator) / x.denominator


@given(positive, precision)
def test_exp_minus_encloses(x, bits):
    assert_encloses(exp_minus(x), bits, lambda: mpmath.exp(-rational(x)))


@pytest.mark.parametrize("work", range(1, 40))
def test_the_series_encloses_even_where_no_spare_bit_hides_an_error(work):
    tiny = [Fraction(n, 2**work * d) for d in range(2, 6) for n in range(1, 12) if 2 * n <= 2**work * d]
    for y in tiny + [Fraction(n, d) for d in range(2, 40) for n in range(1, d // 2 + 1)]:
        lower, upper = exact.series(y, work)
        with mpmath.workprec(200):
            assert 0 <= lower <= mpmath.exp(-rational(y)) * 2**work <= upper <= 2**work


@given(positive, precision)
def test_logistic_encloses(x, bits):
    odds = exp_minus(x)
    assert_encloses(over_one_plus(odds, odds), bits, lambda: 1 / (1 + mpmath.exp(rational(x))))


@given(positive, st.integers(0, 62), precision)
def test_squared_encloses(x, times, bits):
    assert_encloses(squared(exp_minus(x), times), bits, lambda: mpmath.exp(-rational(x) * 2**times))


def rounded(v):
    """A Real of exactly known value v, a Fraction, as tight as can be."""
    return lambda bits: (v.numerator * 2**bits // v.denominator, -(-v.numerator * 2**bits // v.denominator))


@pytest.mark.parametrize("work", range(1, 40))
def test_powers_and_squares_enclose_even_where_no_spare_bit_hides_an_error(work):
    """Against exact powers of rational numbers; the widths are those that the docstrings promise."""
    for v in [Fraction(n, d) for d in range(1, 16) for n in range(d + 1)] + [1 - Fraction(1, 2**work + 1)]:
        kinds = [
            (exact.powers, range(40), lambda last: last + 4),
            (exact.squares, (1, 2, 4, 8, 16, 32), lambda last: 2 * last + 2),
        ]
        for enclosures, exponents, widest in kinds:
            last = 1
            for n, (lower, upper) in zip(exponents, enclosures(rounded(v), work), strict=False):
                assert 0 <= lower <= v**n * 2**work <= upper <= 2**work
                assert upper - lower <= (last := widest(last))


@pytest.mark.parametrize("work", range(1, 7))
def test_division_encloses_even_where_no_spare_bit_hides_an_error(work):
    ends = [(low, high) for low in range(2**work + 1) for high in range(low, min(low + 3, 2**work) + 1)]
    for top in ends:
        for bottom in ends:
            lower, upper = exact.divide_by_one_plus(top, bottom, work)
            least, most = (Fraction(t, 2**work + b) * 2**work for t, b in zip(top, bottom[::-1], strict=True))
            assert lower <= least < lower + 1
            assert upper - 1 < most <= upper


@given(positive, precision)
def test_powers_enclose(x, work):
    with mpmath.workprec(work + 600):
        for n, (lower, upper) in islice(enumerate(exact.powers(exp_minus(x), work)), 0, 256, 15):
            assert lower <= mpmath.exp(-n * rational(x)) * mpmath.mpf(2) ** work <= upper <= lower + 4 * n


@given(positive, st.integers(1, 2**62), st.integers(0, 62), precision)
def test_missing_a_threshold_encloses(rate, threshold, times, bits):
    hit = over_one_plus(exp_minus(threshold * rate), exp_minus(rate))

    def miss():
        r = rational(rate)
        return 1 - mpmath.exp(-threshold * r) / (1 + mpmath.exp(-r))

    assert_encloses(complement(hit), bits, miss)
    assert_encloses(squared(complement(hit), times), bits, lambda: miss() ** (2**times))


@pytest.mark.parametrize("bits", [1, 64, 5000])
def test_extreme_arguments(bits):
    assert exp_minus(Fraction(10) ** 300)(bits) == (0, 1)
    assert_encloses(exp_minus(Fraction(1, 10**100)), bits, lambda: mpmath.exp(-(mpmath.mpf(10) ** -100)))
    assert exp_minus(Fraction(0))(bits) == (2**bits, 2**bits)
    assert_encloses(exp_minus(Fraction(100, 3)), bits, lambda: mpmath.exp(-mpmath.mpf(100) / 3))


@pytest.mark.parametrize("x", [Fraction(-1, 10**9), 0.5, 2])
def test_what_is_not_an_exact_positive_number_is_refused(x):
    with pytest.raises(PrivacyError, match="give a Fraction"):
        exp_minus(x)


def test_a_number_is_decided_by_its_first_digits_wherever_they_suffice():
    v = exp_minus(Fraction(1))  # 0.01011110 00101101 ... in binary
    first = v(8)[0]
    for digits in range(256):
        if digits != first:
            assert is_below(v, digits, 8, Scripted()) is (digits < first)


def test_a_tie_draws_more_digits_until_it_is_resolved():
    v = exp_minus(Fraction(1))
    first, second, third = v(8)[0], v(72)[0] % 2**64, v(136)[0] % 2**64
    assert is_below(v, first, 8, Scripted(second - 1))
    assert not is_below(v, first, 8, Scripted(second + 1))
    assert is_below(v, first, 8, Scripted(second, third - 1))
    assert not is_below(v, first, 8, Scripted(second, third + 1))
    assert is_below(v, first, 8, Scripted(0))
    assert not is_below(v, first, 8, Scripted(ALL_ONES))


def test_certain_outcomes_need_no_randomness():
    assert bernoulli(exp_minus(Fraction(0)), Scripted())
    assert not bernoulli(complement(exp_minus(Fraction(0))), Scripted())


def test_a_chance_far_below_any_word_is_still_possible():
    rare = exp_minus(Fraction(1000))  # about 2**-1442.7
    assert bernoulli(rare, Scripted(*[0] * 23))
    assert not bernoulli(rare, Scripted(*[0] * 22, ALL_ONES))


@pytest.mark.parametrize("width", [0, 5])
def test_coins_agree_with_the_number_they_compare_with(width):
    """Also where an enclosure is wider than it should be: that costs time, never exactness."""
    v = exp_minus(Fraction(1))
    loose = Coins.of([lambda bits: (max(v(bits)[0] - width, 0), v(bits)[1] + width)])
    near = v(32)[0]
    for further in (0, v(96)[0] % 2**64, ALL_ONES):
        for word in [0, 2**32 - 1, *range(near - 9, near + 10)]:
            script = Scripted(word | word << 32, further, 1)
            expected = (word << 128 | further << 64 | 1) < v(160)[0]
            assert loose.toss(np.array([[0]]), (1, 1), script).tolist() == [[expected]]


def test_coins_come_with_an_enclosure_for_each_chance():
    v = exp_minus(Fraction(1))
    with pytest.raises(PrivacyError, match="2 chances came with 1"):
        Coins.enclosed([v, v], [v(32)])
    coins = Coins.enclosed([v, v, v], [(-3, 1), (5, 7), (2**32, 2**32)])
    assert coins.sure.tolist() == [0, 5, 2**32 - 1]
    assert coins.doubt == 2


def test_coins_succeed_with_their_chances():
    """300,000 tosses of each of 8 coins."""
    count = 300_000
    rates = [Fraction(1, 10**9), Fraction(1, 100), Fraction(1, 3), Fraction(1), Fraction(2), Fraction(5), Fraction(9)]
    coins = Coins.of([exp_minus(Fraction(0)), *map(exp_minus, rates)])
    tossed = coins.toss(np.arange(8)[:, None], (8, count), TestingEntropy(1))
    assert tossed[0].all()
    for rate, successes in zip(rates, tossed[1:].sum(axis=1), strict=True):
        chance = float(mpmath.exp(-rational(rate)))
        assert stats.binomtest(int(successes), count, chance).pvalue > FALSE_ALARM / 8


@pytest.mark.parametrize("module", [exact, noise, choose])
def test_no_floating_point_and_no_other_generator_in_the_source(module):
    for node in ast.walk(ast.parse(Path(module.__file__).read_text())):
        if isinstance(node, ast.Constant):
            assert not isinstance(node.value, float), f"floating-point literal in line {node.lineno}"
        names = []
        if isinstance(node, ast.ImportFrom):
            names = [node.module, *(alias.name for alias in node.names if node.module != "math")]
            if node.module == "math":
                assert {alias.name for alias in node.names} <= {"isqrt", "ceil"}
                names = []
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Name):
            names = [node.id]
        assert not {"random", "math", "float", "float16", "float32", "float64", "double", "exp", "log"} & set(names)
