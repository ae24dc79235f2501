"""Odds, against mechanisms whose best guess is known in closed form."""

from __future__ import annotations

from fractions import Fraction
from math import exp
from statistics import NormalDist

import pytest

from sfumato.kernel.budget import epsilon_for
from sfumato.public.report.opening import belief_after, odds_of
from sfumato.releases.file.manifest import CONCENTRATED, Guarantee

WORDS = {"unit": "any one row", "neighbours": "x", "statement": "x"}


@pytest.mark.parametrize("epsilon", [Fraction(1, 10), Fraction(1), Fraction(5)])
def test_of_pure_epsilon_they_are_what_randomised_response_reaches(epsilon):
    """Telling the truth with a chance of e^epsilon / (1 + e^epsilon) is the best that can be guessed from."""
    found = odds_of(Guarantee(epsilon, **WORDS))
    assert [one.people for one in found] == [1, 2, 3, 4]
    for one in found:
        truth = exp(one.people * epsilon) / (1 + exp(one.people * epsilon))
        assert one.right == pytest.approx(truth)
    assert belief_after(0.5, float(epsilon)) == pytest.approx(found[0].right)


@pytest.mark.parametrize("rho", [Fraction(1, 1000), Fraction(1, 50), Fraction(1, 2), Fraction(3)])
def test_of_gaussian_noise_they_bound_the_best_test_and_not_by_much(rho):
    """N(0, 1) against N(d, 1) with d^2 / 2 = rho: the best guess is right with a chance of Phi(d / 2)."""
    delta = Fraction(1, 10**6)
    found = odds_of(Guarantee(epsilon_for(rho, delta), **WORDS, definition=CONCENTRATED, delta=delta, rho=rho))
    for one in found:
        shift = one.people * float(2 * rho) ** 0.5
        best = NormalDist().cdf(shift / 2)
        assert best <= one.right <= 1.0
        assert one.right - 0.5 <= 1.4 * (best - 0.5) + 1e-9


def test_a_hundred_guesses_are_rounded_to_the_nearest():
    assert odds_of(Guarantee(Fraction(1), **WORDS))[0].of_hundred == 73
