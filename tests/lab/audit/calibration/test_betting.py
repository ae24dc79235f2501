"""Bounds on the mean of numbers between 0 and 1: never too sure, and sharp where the numbers are alike."""

from math import log

import numpy as np
import pytest

from sfumato.lab.audit.calibration.calibrate import evidence_below, mean_at_least, mean_at_most, shares_at


@pytest.mark.parametrize("alike", [0.0, 0.2, 1.0])
def test_the_money_grows_tenfold_with_a_chance_of_a_tenth_at_most(alike):
    """4,000 samples, seeded: at a true mean of 95 % at most 1 in 10 wins 10, by Markov, plus 6 standard errors."""
    money = evidence_below(shares_at(0.95, 60, 7, alike, samples=4000), 0.95)
    assert (money >= log(10)).mean() <= 0.1 + 6 * np.sqrt(0.09 / 4000)
    assert (money >= log(1e6)).sum() == 0


def test_means_may_differ_if_their_average_is_high_enough():
    """Half of the releases at 90 %, half at 100 %: the average is 95 %, and so is the chance of a false alarm."""
    half = shares_at(0.90, 40, 7, 0.1, samples=4000)
    money = evidence_below(np.concatenate([half, np.ones_like(half)], axis=1), 0.95)
    assert (money >= log(10)).mean() <= 0.1


def test_bounds_hold_the_mean_between_them_and_close_in():
    shares = shares_at(0.6, 400, 7, 0.2, samples=1)[0]
    low, high = mean_at_least(shares, 1e-3), mean_at_most(shares, 1e-3)
    assert 0.5 < low < 0.6 < high < 0.7 and low < shares.mean() < high
    assert mean_at_least(shares[:40], 1e-3) < low and mean_at_most(shares[:40], 1e-3) > high
    assert mean_at_most(shares, 1e-9) > high


def test_evidence_grows_with_the_mean_that_is_bet_against():
    shares = shares_at(0.8, 50, 7, 0.2, samples=1)[0]
    found = [float(evidence_below(shares, mean)) for mean in (0.7, 0.8, 0.9, 0.99)]
    assert found == sorted(found) and found[0] < 0 < found[-1]


def test_what_always_holds_is_not_known_to_hold_always():
    assert mean_at_most(np.ones(20), 1e-3) == 1.0 and mean_at_least(np.ones(20), 1e-3) < 0.9
    assert mean_at_least(np.zeros(20), 1e-3) == 0.0 and mean_at_most(np.zeros(20), 1e-3) > 0.1


@pytest.mark.parametrize("alike", [0.0, 0.3, 1.0])
def test_samples_have_the_mean_and_the_likeness_that_was_asked_for(alike):
    """200,000 shares of seven questions: the variance is p (1 - p) (1 + 6 alike) / 7; within 3 %."""
    shares = shares_at(0.85, 100, 7, alike)
    assert shares.mean() == pytest.approx(0.85, abs=0.005)
    assert shares.var() == pytest.approx(0.85 * 0.15 * (1 + 6 * alike) / 7, rel=0.03)
