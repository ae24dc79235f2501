"""Releases added up: beside exact hockey-stick divergences of real pairs, and the figures that are promised."""

from __future__ import annotations

from fractions import Fraction
from math import comb, erfc, exp, log, sqrt
from random import Random

import pytest

from sfumato.kernel.budget import Cost, rho_for
from sfumato.kernel.ledger.composition import Loss, Total, composed, fits, largest_next, sum_of_rho, told_delta

NANO = Fraction(1, 10**9)


def gaussian(epsilon: object = 1, delta: Fraction = NANO) -> Loss:
    return Loss(Fraction(str(epsilon)), delta, rho_for(str(epsilon), delta))


def pure(epsilon: object) -> Loss:
    return Loss(Fraction(str(epsilon)))


@pytest.mark.parametrize(("releases", "epsilon"), [(12, 3.46), (60, 8.02), (120, 11.74)])
def test_releases_of_one_and_a_nano_delta(releases, epsilon):
    listed = [gaussian()] * releases
    assert float(composed(listed, None).epsilon) == pytest.approx(epsilon, abs=0.005)
    assert composed(listed, None).delta == told_delta(listed) == releases * NANO
    assert composed(listed, releases * NANO) == composed(listed, None)


def test_what_is_told_is_never_more_than_the_sums():
    random = Random(1)
    for _ in range(40):
        listed = [gaussian(random.randint(1, 9) / 4) for _ in range(random.randint(0, 5))]
        listed += [pure(random.randint(1, 30) / 10) for _ in range(random.randint(0, 5))]
        listed += [Loss(Fraction(1, 2), NANO) for _ in range(random.randint(0, 2))]
        found = composed(listed, None)
        assert found.epsilon <= sum(loss.epsilon for loss in listed)
        assert found.delta <= sum(loss.delta for loss in listed)


def test_one_more_release_never_makes_the_account_smaller():
    random = Random(2)
    for total in (None, 40 * NANO):
        listed: list[Loss] = []
        before = Fraction(0)
        for _ in range(20):
            listed.append(random.choice([gaussian(0.3), gaussian(2), pure(0.1), pure(3)]))
            now = composed(listed, total).epsilon
            if total is not None:
                assert now >= before * (1 - Fraction(1, 10**6))  # the best order is found in floating point
            before = now


def test_what_fits_is_told_within_the_total():
    random = Random(3)
    seen = set()
    for _ in range(60):
        listed = [gaussian(random.randint(1, 8) / 4) for _ in range(random.randint(0, 6))]
        listed += [pure(random.randint(1, 20) / 10) for _ in range(random.randint(0, 6))]
        total = Fraction(random.randint(1, 40), 4)
        is_fine = fits(listed, total, 10 * NANO)
        seen.add(is_fine)
        if is_fine:
            assert composed(listed, 10 * NANO).epsilon <= total * (1 + Fraction(1, 10**6))
    assert seen == {True, False}


def test_the_order_comes_from_the_total_and_is_tight_for_gaussian_releases_alone():
    listed = [gaussian()] * 12
    told = composed(listed, 12 * NANO).epsilon
    assert fits(listed, told * Fraction(10001, 10000), 12 * NANO)
    assert not fits(listed, told * Fraction(9999, 10000), 12 * NANO)


def test_pure_releases_add_up_as_epsilons_unless_a_delta_is_stated():
    hundred = [pure(0.1)] * 100
    assert composed(hundred, None).epsilon == 10
    assert composed(hundred, Fraction(0)).epsilon == 10
    assert float(composed(hundred, Fraction(1, 10**6)).epsilon) == pytest.approx(5.22, abs=0.01)
    assert composed([pure(3)], Fraction(1, 10**6)).epsilon == 3


def test_a_large_delta_does_not_buy_back_what_was_spent():
    before = composed([gaussian()], None).epsilon
    after = composed([gaussian(), gaussian("0.1", Fraction(1, 100))], None)
    assert after.epsilon > before * Fraction(98, 100)
    assert not fits([gaussian(), gaussian("0.1", Fraction(1, 100))], Fraction(1), None)


def test_a_threshold_stands_beside():
    listed = [gaussian()] * 12
    alone, threshold = composed(listed, 12 * NANO), Loss(Fraction(1, 2), NANO)
    both = composed([*listed, threshold], 13 * NANO)
    assert both.epsilon == pytest.approx(float(alone.epsilon) + 0.5, rel=1e-6)
    assert composed([threshold] * 3, NANO).delta == 3 * NANO  # there is no way to tell them at a smaller one
    assert not fits([threshold] * 3, Fraction(9), NANO)


def test_the_largest_next_release_fits_and_a_larger_one_does_not():
    for listed, total, delta in [([gaussian()] * 5, 4, 20 * NANO), ([pure(1)], 3, None), ([], 2, NANO)]:
        for at in (Fraction(0), NANO):
            found = largest_next(listed, Fraction(total), delta, at)
            assert found > 0
            one = Loss(found, at, Cost(found, at).budget.rho)
            assert fits([*listed, one], Fraction(total), delta)
            more = found * Fraction(102, 100)
            assert not fits([*listed, Loss(more, at, Cost(more, at).budget.rho)], Fraction(total), delta)


def responses(count: int, epsilon: float) -> dict[float, tuple[float, float]]:
    """Chances under both tables of each loss of `count` randomised responses."""
    p = exp(epsilon) / (1 + exp(epsilon))
    return {
        (2 * k - count) * epsilon: (comb(count, k) * p**k * (1 - p) ** (count - k),
                                    comb(count, k) * p ** (count - k) * (1 - p) ** k)
        for k in range(count + 1)
    }  # fmt: skip


def exact_delta(epsilon: float, count: int, each: float, rho: float) -> float:
    """The least delta of `count` randomised responses and a Gaussian release of rho together, at an epsilon.

    Given the responses' loss the Gaussian's is normal with mean rho and variance 2 rho under one table.
    """
    delta, spread = 0.0, sqrt(2 * rho)
    for loss, (one, other) in responses(count, each).items():
        if not rho:
            delta += max(0.0, one - exp(epsilon) * other)
            continue
        at = (epsilon - loss) / spread  # P(normal(rho, 2 rho) > epsilon - loss), and the same under the other table
        above = erfc((at - rho / spread) / sqrt(2)) / 2, erfc((at + rho / spread) / sqrt(2)) / 2
        delta += one * above[0] - exp(epsilon) * other * above[1]
    return delta


@pytest.mark.parametrize(
    ("count", "each", "rho"), [(50, 0.1, 0.0), (8, 0.5, 0.0), (20, 0.2, 0.05), (3, 1.0, 0.3), (0, 1, 0.7)]
)
@pytest.mark.parametrize("delta", ["1e-9", "1e-5", "0.01"])
def test_the_true_delta_of_real_releases_is_below_the_one_that_is_told(count, each, rho, delta):
    listed = [pure(each)] * count
    if rho:
        listed.append(Loss(Fraction(1000), Fraction(delta), Fraction(str(rho))))
    found = composed(listed, Fraction(delta))
    true = exact_delta(float(found.epsilon), count, each, rho)
    assert true <= float(found.delta) * (1 + 1e-9) + 1e-15  # of rounding
    if found.rho is not None:  # and an order is of use: at two thirds of what is told the promise would be broken
        assert exact_delta(float(found.epsilon) * 2 / 3, count, each, rho) > float(found.delta)


def test_a_pure_release_has_no_more_divergence_than_the_lemma_says():
    for epsilon in (0.01, 0.3, 1.0, 4.0):
        for alpha in (1.01, 1.5, 2.0, 10.0, 100.0):
            mean = sum(other * exp(alpha * loss) for loss, (_, other) in responses(1, epsilon).items())
            bound = float(pure(epsilon).at(Fraction(alpha)))
            assert log(mean) / (alpha - 1) <= bound * (1 + 1e-9)


def test_a_total_in_rho_is_kept_to_exactly():
    listed = [Loss(Fraction(1), NANO, Fraction(1, 10))] * 3 + [pure("0.6")]  # 0.3 and 0.18
    assert sum_of_rho(listed) == Fraction(48, 100)
    epsilon = Fraction(100)
    assert fits(listed, epsilon, None, Fraction(48, 100))
    assert not fits(listed, epsilon, None, Fraction(48, 100) - Fraction(1, 10**200))
    # An epsilon total that is smaller does not matter then, nor does the sum of deltas.
    assert fits(listed, Fraction(1, 10**6), Fraction(1, 10**50), Fraction(48, 100))


def test_a_threshold_fits_into_no_total_in_rho():
    threshold = Loss(Fraction(1, 100), NANO)
    assert sum_of_rho([pure(1), threshold]) is None
    assert not fits([threshold], Fraction(100), None, Fraction(100))
    assert fits([threshold], Fraction(100), None)


def test_what_is_left_of_a_total_in_rho_fits_and_hardly_more_does():
    total = Total.in_rho(Fraction(1, 2))
    for before in ([], [pure("0.5")], [gaussian(1), gaussian("0.5")]):
        for at in (Fraction(0), NANO):
            left = largest_next(before, total.epsilon, None, at, total.rho)
            for factor, kept in ((1, True), (Fraction(1002, 1000), False)):
                more = Loss(left * factor, at, rho_for(left * factor, at) if at else None)
                assert fits([*before, more], total.epsilon, None, total.rho) is kept


def test_releases_within_a_total_in_rho_are_as_private_as_it_tells():
    """Exact divergences of a real pair: n Gaussian releases of one count are one with n times the precision."""
    for rho in (Fraction(1, 50), Fraction(1, 2), Fraction(3)):
        total = Total.in_rho(rho, NANO)
        parts = [rho / 7] * 7
        assert fits([Loss(Fraction(9), NANO, part) for part in parts], total.epsilon, NANO, rho)
        sigma = sqrt(1 / (2 * float(sum(parts))))
        mean = float(total.epsilon) * sigma - 1 / (2 * sigma)
        below = float(total.epsilon) * sigma + 1 / (2 * sigma)
        delta = 0.5 * erfc(mean / sqrt(2)) - exp(float(total.epsilon)) * 0.5 * erfc(below / sqrt(2))
        assert delta <= float(NANO)


def test_a_pure_release_in_place_of_a_rho_spends_no_more_of_it():
    for rho in ("0.1", "1/3", "2", "1e-9", "123.456"):
        cost = Cost.stated(None, NANO, rho)
        assert cost.budget.rho == Fraction(rho) == cost.rho
        pure_cost = cost.without_delta
        assert pure_cost.pure and pure_cost.epsilon**2 / 2 <= Fraction(rho)
        assert (pure_cost.epsilon + Fraction(2, 10**12)) ** 2 / 2 > Fraction(rho)
