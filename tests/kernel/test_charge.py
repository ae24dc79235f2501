from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import PrivacyError
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import Charge, Load, noise_for
from sfumato.measurement import Gaussian, Laplace

units = st.fractions(min_value=Fraction(1, 10**6), max_value=10, max_denominator=10**6)
amounts = st.one_of(st.integers(0, 5), st.lists(st.integers(0, 2**40), min_size=4, max_size=4))


@given(st.lists(st.tuples(amounts, units), max_size=6))
def test_loads_are_the_exact_sum_in_every_cell(parts):
    charge = Charge(Budget.pure(10**6), 1, 4)
    expected = [Fraction(0)] * 4
    for amount, unit in parts:
        load = Load(amount if isinstance(amount, int) else np.array(amount), unit)
        here = [amount] * 4 if isinstance(amount, int) else amount
        after = [old + unit * new for old, new in zip(expected, here, strict=True)]
        if max(after) > 10**6:
            before = charge.fullest
            with pytest.raises(PrivacyError):
                charge.admit([load])
            assert charge.fullest == before
        else:
            charge.admit([load])
            expected = after
        assert charge.fullest == max(expected)


def test_a_budget_can_be_spent_to_the_last_bit_and_not_beyond():
    charge = Charge(Budget.pure("0.3"), 1, 10)
    for _ in range(3):
        charge.admit([Load(1, Fraction(1, 10))])
    assert charge.fullest == charge.limit
    with pytest.raises(PrivacyError, match="borne already"):
        charge.admit([Load(1, Fraction(1, 10**40))])


def test_disjoint_cells_do_not_load_each_other():
    charge = Charge(Budget.pure(1), 1, 2)
    charge.admit([Load(np.array([1, 0]), Fraction(1))])
    charge.admit([Load(np.array([0, 1]), Fraction(1))])
    with pytest.raises(PrivacyError):
        charge.admit([Load(np.array([0, 1]), Fraction(1, 100))])


def test_a_large_domain_is_bounded_by_its_fullest_cell():
    charge = Charge(Budget.pure(1), 1, 10**12)
    charge.admit([Load(1, Fraction(1, 2))])
    charge.admit([Load(np.array([0, 1]), Fraction(1, 2))])
    with pytest.raises(PrivacyError):
        charge.admit([Load(np.array([1, 0]), Fraction(1, 2))])


def test_contributions_divide_what_a_cell_may_bear():
    assert Charge(Budget.pure(1), 4, 1).limit == Fraction(1, 4)
    assert Charge(Budget.zcdp(1), 4, 1).limit == Fraction(1, 16)


def test_negative_loads_are_refused():
    charge = Charge(Budget.pure(1), 1, 2)
    for load in (Load(-1, Fraction(1)), Load(np.array([0, -1]), Fraction(1)), Load(1, Fraction(-1))):
        with pytest.raises(PrivacyError, match="only ever grows"):
            charge.admit([load])


@given(
    epsilon=st.fractions(min_value=Fraction(1, 1000), max_value=10),
    contributions=st.integers(1, 20),
    l1=st.integers(1, 2**31),
)
def test_noise_for_a_budget_loads_the_fullest_cell_with_all_it_may_bear(epsilon, contributions, l1):
    charge = Charge(Budget.pure(epsilon), contributions, 1)
    noise = noise_for(charge.budget, contributions, l1=Fraction(l1), l2_squared=Fraction(l1) ** 2)
    assert isinstance(noise, Laplace)
    charge.admit([Load(l1, 1 / noise.scale)])
    assert charge.fullest == charge.limit

    charge = Charge(Budget.zcdp(epsilon), contributions, 1)
    noise = noise_for(charge.budget, contributions, l1=Fraction(l1), l2_squared=Fraction(l1) ** 2)
    assert isinstance(noise, Gaussian)
    charge.admit([Load(l1**2, 1 / (2 * noise.sigma_squared))])
    assert charge.fullest == charge.limit
