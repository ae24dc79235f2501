"""How sure a parity is: the tail is a bound and a tight one, and claims are wrong no more often than they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.papers.parity.content import learn, odd, parity_doubt, tail, transformed
from sfumato.measurement import Laplace


@pytest.mark.parametrize(("scale", "many"), [(Fraction(1, 3), 40), (Fraction(20), 1), (Fraction(5), 64)])
def test_the_tail_is_a_bound_and_not_a_wild_one(scale, many):
    """20,000 sums: a share may exceed its bound by 5 standard errors with a chance under 1e-6."""
    noise, runs = Laplace(scale), 20_000
    sums = draw(noise, runs * many, TestingEntropy(3)).reshape(runs, many).sum(axis=1)
    for deviations in (1.0, 2.0, 3.0):
        beyond = deviations * np.sqrt(many * noise.variance)
        share, bound = float((sums >= beyond).mean()), tail(noise, many, beyond)
        assert share <= bound + 5 * np.sqrt(bound / runs) and bound <= 1.0
    assert bound < 0.2


@pytest.mark.full
def test_claims_are_wrong_no_more_often_than_they_say():
    """2,000 releases of a table on which two vectors nearly tie: claims with a doubt up to 0.2 err with at most 0.2.

    Of 2,000, more than 500 wrong ones have a chance under 1e-6.
    """
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 16, 400)
    label = np.where(rng.random(400) < 0.6, odd(bits & 0b1010), odd(bits & 0b0111))
    zeros, ones = (np.bincount(bits[label == value], minlength=16) for value in (0, 1))
    fits = transformed(zeros - ones)
    fits[0] = 0
    best = int(np.abs(fits).argmax())
    noise, wrong, claims = Laplace(Fraction(4)), 0, 0
    for run in range(2000):
        drawn = draw(noise, 32, TestingEntropy(run)).reshape(2, 16)
        found = learn(zeros + drawn[0], ones + drawn[1])
        doubt = parity_doubt(found.lead, found.gap, 32, noise)
        claims += doubt <= 0.2
        wrong += doubt <= 0.2 and found.vector != best
    assert claims > 50 and wrong <= 500


@pytest.mark.parametrize("rate", [700, 710, 10**6])
def test_without_noise_there_is_no_doubt(rate):
    """A variance that is 0, or so small that its moments are beyond all numbers."""
    assert parity_doubt(3.0, 3.0, 8, Laplace(Fraction(1, rate))) <= 1e-9
