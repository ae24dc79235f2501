"""Budgets are exact, junk is refused quickly, and the zCDP conversion is never optimistic."""

import time
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import BudgetError
from sfumato.kernel.budget import Budget, as_delta, as_epsilon, epsilon_for, rho_for
from sfumato.plain_text import readable


@pytest.mark.parametrize(
    ("value", "exact"),
    [
        ("0.5", Fraction(1, 2)),
        (" 0.1 ", Fraction(1, 10)),
        (".5", Fraction(1, 2)),
        ("1/3", Fraction(1, 3)),
        ("1e-3", Fraction(1, 1000)),
        ("+2", Fraction(2)),
        (3, Fraction(3)),
        (np.int64(3), Fraction(3)),
        (0.1, Fraction(1, 10)),
        (np.float64(0.1), Fraction(1, 10)),
        (1e-30, Fraction(1, 10**30)),
        (Decimal("0.25"), Fraction(1, 4)),
        (Fraction(2, 7), Fraction(2, 7)),
        (10**6, Fraction(10**6)),
    ],
)
def test_an_epsilon_is_what_was_written_down(value, exact):
    assert as_epsilon(value) == exact
    assert type(as_epsilon(value)) is Fraction


@pytest.mark.parametrize(
    "value",
    [
        *(0, 0.0, "0", "-0.5", -1, Fraction(-1, 2), True, False, np.bool_(True)),
        *(float("nan"), float("inf"), "-inf", "nan", Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity")),
        *("", "abc", "1/0", "1/-2", "0x10", "1_000", "½", "٣", "0.5 0.5", "1,5", "0.5\n;", None, [1], b"1", 1j),
        *("1e999999999", "1e-999999999", "1E+301", Decimal("1E+999999"), "1e7", 1e300, 10**5000, -(10**5000)),
        *("9" * 51, "0." + "1" * 60, Fraction(1, 10**400)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_junk_is_refused_in_one_line_and_at_once(value):
    started = time.process_time()
    with pytest.raises(BudgetError) as refusal:
        as_epsilon(value, "the total")
    assert time.process_time() - started < 10  # laid out, these would take minutes, or all memory
    message = str(refusal.value)
    assert message.startswith("the total") and ("give a" in message or "must be a number such as 0.5" in message)
    assert "\n" not in message and len(message) < 200


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (Fraction(0), "0"),
        (Fraction(3, 10), "0.3"),
        (Fraction(1, 3), "1/3"),
        (Fraction(200), "200"),
        (Fraction(1, 10**30), "1e-30"),
        (Fraction(3, 10) + Fraction(1, 10**30), "0.300000000000000000000000000001"),
        (Fraction(1, 3**100), "about 1.94033e-48"),
    ],
)
def test_amounts_are_written_as_people_write_them(amount, text):
    assert readable(amount) == text


def test_a_budget_is_one_kind():
    assert str(Budget.pure("0.50")) == "epsilon 0.5"
    assert str(Budget.zcdp("1/3")) == "rho 1/3"
    assert Budget.pure(2).is_pure and Budget.pure(2).amount == 2
    assert not Budget.zcdp("1/3").is_pure and Budget.zcdp("1/3").amount == Fraction(1, 3)
    for both_or_none in ({}, {"epsilon": Fraction(1), "rho": Fraction(1)}, {"epsilon": Fraction(0)}, {"rho": -1}):
        with pytest.raises(BudgetError):
            Budget(**both_or_none)


parts = st.integers(1, 50) | st.fractions(min_value="1/9", max_value=9, max_denominator=9)
amounts = st.fractions(min_value="1/1000", max_value=10, max_denominator=1000)


@settings(max_examples=50, deadline=None)
@given(amounts, st.lists(parts, min_size=1, max_size=9), st.booleans())
def test_shares_sum_to_the_whole_exactly(amount, weights, pure):
    budget = Budget.pure(amount) if pure else Budget.zcdp(amount)
    shares = budget.split(*weights)
    values = [share.epsilon if pure else share.rho for share in shares]
    assert sum(values) == amount
    assert [value * weights[0] for value in values] == [values[0] * weight for weight in weights]
    assert all((share.rho if pure else share.epsilon) is None for share in shares)


def test_even_shares():
    assert Budget.pure(1).evenly(3) == (Budget.pure("1/3"),) * 3
    assert sum(share.epsilon for share in Budget.pure("0.1").evenly(7)) == Fraction(1, 10)


@pytest.mark.parametrize("weights", [(), (0,), (1, -1), (True,), (0.5,), ("1",)])
def test_senseless_shares_are_refused(weights):
    with pytest.raises(BudgetError, match="split"):
        Budget.pure(1).split(*weights)


@pytest.mark.parametrize("count", [0, -1, 2.0, True])
def test_senseless_counts_are_refused(count):
    with pytest.raises(BudgetError, match="evenly"):
        Budget.pure(1).evenly(count)


@pytest.mark.parametrize("delta", [0, 1, "1.5", -1e-6, "x", "1e-101"])
def test_a_delta_lies_between_0_and_1(delta):
    with pytest.raises(BudgetError, match="delta"):
        as_delta(delta)
    with pytest.raises(BudgetError, match="delta"):
        rho_for(1, delta)


def smallest_log_delta(rho, epsilon):
    """The corollary's bound as printed in the paper, minimised over alpha by the root of its convex derivative."""
    rho, epsilon = (mpmath.mpf(v.numerator) / v.denominator for v in (rho, epsilon))

    def log_bound(a):
        return (a - 1) * (a * rho - epsilon) - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)

    low, high = mpmath.mpf(1) + mpmath.mpf(10) ** -9, mpmath.mpf(10) ** 45
    for _ in range(170):
        middle = mpmath.sqrt((low - 1) * (high - 1)) + 1
        slope = (2 * middle - 1) * rho - epsilon + mpmath.log(1 - 1 / middle)
        low, high = (middle, high) if slope < 0 else (low, middle)
    return log_bound(high)


budgets = st.floats(-3, 3).map(lambda power: Fraction(10**power).limit_denominator(10**6))
deltas = st.floats(-40, -0.5).map(lambda power: as_delta(float(f"{10**power:.3g}")))


@settings(max_examples=40, deadline=None)
@given(budgets, deltas)
def test_rho_is_safe_and_wastes_next_to_nothing(epsilon, delta):
    with mpmath.workdps(50):
        log_delta = mpmath.log(mpmath.mpf(delta.numerator) / delta.denominator)
        rho = rho_for(epsilon, delta)
        assert smallest_log_delta(rho, epsilon) <= log_delta
        assert smallest_log_delta(rho * (1 + Fraction(1, 10**9)), epsilon) > log_delta


@settings(max_examples=40, deadline=None)
@given(budgets, deltas)
def test_epsilon_is_safe_and_wastes_next_to_nothing(rho, delta):
    with mpmath.workdps(50):
        log_delta = mpmath.log(mpmath.mpf(delta.numerator) / delta.denominator)
        epsilon = epsilon_for(rho, delta)
        assert smallest_log_delta(rho, epsilon) <= log_delta
        if epsilon > 0:
            assert smallest_log_delta(rho, epsilon * (1 - Fraction(1, 10**9))) > log_delta


@settings(max_examples=100, deadline=None)
@given(budgets, deltas)
def test_there_and_back_never_gains(epsilon, delta):
    assert epsilon_for(rho_for(epsilon, delta), delta) <= epsilon


@pytest.mark.parametrize("rho", ["1e-4", "0.01", "0.5", "3"])
@pytest.mark.parametrize("delta", ["1e-12", "1e-6", "0.01"])
def test_the_gaussian_mechanism_keeps_the_promise(rho, delta):
    """Balle and Wang (2018) give the exact delta of Gaussian noise of variance 1 / (2 rho) at sensitivity 1."""
    with mpmath.workdps(50):
        epsilon = epsilon_for(rho, delta)
        e, mu = mpmath.mpf(epsilon.numerator) / epsilon.denominator, mpmath.sqrt(2 * mpmath.mpf(rho))
        exact = mpmath.ncdf(mu / 2 - e / mu) - mpmath.exp(e) * mpmath.ncdf(-mu / 2 - e / mu)
        assert exact <= mpmath.mpf(delta)
        looser = mpmath.mpf(rho) + 2 * mpmath.sqrt(mpmath.mpf(rho) * mpmath.log(1 / mpmath.mpf(delta)))
        assert e < looser  # Bun and Steinke (2016), proposition 1.3


def test_extreme_conversions():
    assert epsilon_for("1e-30", "1e-6") == 0  # so little rho that delta alone covers it
    assert 0 < rho_for("1e-30", "1e-6") < Fraction(1, 10**11)
    assert rho_for(10**6, "1e-100") < 10**6
    assert rho_for("1e-9", "1e-100") > 0
    assert epsilon_for(rho_for("1e-9", "1e-100"), "1e-100") <= Fraction(1, 10**9)
