"""Odds, against mechanisms whose best guess is known in closed form."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log
from statistics import NormalDist

import pytest

from sfumato.kernel.budget import epsilon_for
from sfumato.releases.group_privacy import belief_after, beliefs_after, odds_of


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_of_pure_epsilon_they_are_what_randomised_response_reaches(epsilon):
    """Telling the truth with a chance of e^epsilon / (1 + e^epsilon) is the best that can be guessed from."""
    found = odds_of(epsilon)
    assert [one.people for one in found] == [1, 2, 3, 4]
    for one in found:
        truth = exp(one.people * epsilon) / (1 + exp(one.people * epsilon))
        assert one.right == pytest.approx(truth)
    assert belief_after(0.5, float(epsilon)) == pytest.approx(found[0].right)


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 50), Fraction(1, 2), Fraction(3)])
def test_of_gaussian_noise_they_bound_the_best_test_and_not_by_much(rho):
    """N(0, 1) against N(d, 1) with d^2 / 2 = rho: the best guess is right with a chance of Phi(d / 2)."""
    delta = Fraction(1, 10**6)
    found = odds_of(epsilon_for(rho, delta), delta=delta, rho=rho)
    for one in found:
        shift = one.people * float(2 * rho) ** 0.5
        best = NormalDist().cdf(shift / 2)
        assert best <= one.right <= 1.0
        assert one.right - 0.5 <= 1.4 * (best - 0.5) + 1e-9


def test_a_hundred_guesses_are_rounded_to_the_nearest():
    assert odds_of(1)[0].of_hundred == 73


@pytest.mark.parametrize("before", [0.001, 0.3, 0.9])
def test_beliefs_from_pure_epsilon_are_those_of_the_worst_answer_to_randomised_response(before):
    """By Bayes: "yes" has a chance of e^epsilon / (1 + e^epsilon) where the person is in, else 1 / (1 + e^epsilon)."""
    low, high = beliefs_after(before, Fraction(1, 2))
    yes, no = exp(0.5) / (1 + exp(0.5)), 1 / (1 + exp(0.5))
    assert high == pytest.approx(before * yes / (before * yes + (1 - before) * no))
    assert low == pytest.approx(before * no / (before * no + (1 - before) * yes))


@pytest.mark.parametrize("rho", [Fraction(1, 50), Fraction(1, 2), Fraction(3)])
def test_gaussian_noise_moves_a_belief_further_with_a_chance_of_twice_delta_at_most(rho):
    """N(d, 1) against N(0, 1): the log ratio is normal with mean rho and variance 2 rho where the person is in."""
    delta = Fraction(1, 10**6)
    epsilon = epsilon_for(rho, delta)
    low, high = beliefs_after(0.2, epsilon, delta)
    loss = log(high / (1 - high)) - log(0.2 / 0.8)
    assert loss == pytest.approx(float(epsilon) + log(2)) and low < 0.2
    assert 1.0 - NormalDist(float(rho), float(2 * rho) ** 0.5).cdf(loss) <= 2 * float(delta)
