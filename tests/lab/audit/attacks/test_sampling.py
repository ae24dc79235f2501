"""The sampling audit reaches what theory says it can, finds each kind of leak, and spares what keeps its promise.

Whatever keeps its promise is flagged with a chance of at most 1e-6 for each audit. Seeds are fixed, so nothing here
changes from day to day; sample sizes are such that other seeds would do as well.
"""

from __future__ import annotations

from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.errors import QueryError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.noise import draw
from sfumato.lab.audit.attacks.sampling import BLOCK, audit, clopper_pearson, epsilon_bound, paired_bound
from sfumato.lab.audit.subjects.subject import HIDDEN, Subject, plain_laplace
from sfumato.measurement import Laplace

ONE = Fraction(1)


def tail(runs: int, least: int, chance: float) -> float:
    """P(at least so many successes in so many runs), by adding up."""
    p = Fraction(chance)
    return float(sum(comb(runs, k) * p**k * (1 - p) ** (runs - k) for k in range(least, runs + 1)))


@settings(deadline=None)  # the first call loads scipy
@given(st.integers(1, 30), st.data(), st.sampled_from([0.3, 0.05, 1e-3, 5e-7]))
def test_clopper_pearson_solves_the_binomial_tail(runs, data, miss):
    happened = data.draw(st.integers(0, runs))
    lower, upper = (float(bound) for bound in clopper_pearson(happened, runs, miss))
    assert (lower == 0) if happened == 0 else tail(runs, happened, lower) == pytest.approx(miss, rel=1e-9)
    assert (upper == 1) if happened == runs else 1 - tail(runs, happened + 1, upper) == pytest.approx(miss, rel=1e-6)


@pytest.mark.parametrize("happened", [1, 20, 201_700, 548_300, 749_999])
def test_clopper_pearson_holds_at_the_size_of_a_full_audit(happened):
    from scipy.stats import binom

    lower, upper = (float(bound) for bound in clopper_pearson(happened, 750_000, 5e-7))
    assert binom.sf(happened - 1, 750_000, lower) == pytest.approx(5e-7, rel=1e-6)
    assert binom.cdf(happened, 750_000, upper) == pytest.approx(5e-7, rel=1e-4)  # 1 - upper has few digits


def test_the_bound_splits_the_error_between_both_sides_and_is_never_negative():
    lower, upper = clopper_pearson(700, 1000, 3e-7)[0], clopper_pearson(300, 1000, 7e-7)[1]
    assert float(epsilon_bound(700, 300, 1000, 1e-6, 0.3)) == pytest.approx(float(np.log(lower / upper)))
    assert float(epsilon_bound(300, 700, 1000, 1e-6)) == 0
    assert float(epsilon_bound(0, 0, 1000, 1e-6)) == 0


def test_plain_laplace_is_measured_almost_at_its_claim_and_not_flagged():
    """200,000 runs: the best event has p = 0.731 and q = 0.269 on 150,000 runs, standard error 0.0016 + 0.0043 in the
    logarithm, so the bound lies at 1 - 4.89 * 0.0058 = 0.971, give or take 0.0045: below 0.95 with a chance of 2e-6."""
    found = audit(plain_laplace(), 200_000, TestingEntropy(1))
    assert 0.95 < found.bound <= 1
    assert not found.violated
    assert (found.subject, found.claimed, found.runs) == ("laplace", 1, 200_000)


def test_plain_laplace_reaches_097_at_a_million_runs():
    """Expected 0.987, give or take 0.002."""
    assert 0.97 < audit(plain_laplace(), 10**6, TestingEntropy(2)).bound <= 1


def test_a_noise_shortfall_of_two_percent_is_caught_twenty_times_out_of_twenty():
    """A million runs each. Epsilon is really 1.0204; the bound lies at 1.0078, give or take 0.002, so one audit misses
    it with a chance of 1e-4. A rarer event would do worse; the choice takes one only if it is 5 standard errors off."""
    found = [audit(plain_laplace(scale=Fraction(98, 100)), 10**6, TestingEntropy(seed)) for seed in range(20)]
    assert [finding.violated for finding in found] == [True] * 20


def test_half_the_noise_is_caught_by_two_thousand_runs():
    assert audit(plain_laplace(scale=Fraction(1, 2)), 2_000, TestingEntropy(1)).violated


def test_a_small_epsilon_is_measured_too():
    found = audit(plain_laplace(Fraction(1, 10)), 200_000, TestingEntropy(1))
    assert 0.05 < found.bound <= 0.1


# -- every family of events finds the leak it is there for


def wide(columns: int, runs: int, entropy, scale: int = 50) -> np.ndarray:
    return draw(Laplace(Fraction(scale)), columns * runs, entropy).reshape(runs, columns)


def some_hidden(outputs: np.ndarray, count: int, entropy) -> np.ndarray:
    """Hide so many numbers of each run, anywhere."""
    ranks = np.argsort(np.argsort(wide(outputs.shape[1], len(outputs), entropy, 10**9), axis=1), axis=1)
    return np.where(ranks < count, HIDDEN, outputs)


def doubled(values: np.ndarray) -> np.ndarray:
    return np.concatenate([values, values], axis=1)


LEAKS = {
    "the lowest bit": lambda which, runs, e: 2 * wide(1, runs, e) + which,
    "the second lowest bit": lambda which, runs, e: 4 * wide(1, runs, e) + 2 * which,
    "zeros left alone": lambda which, runs, e: which * (1 + wide(1, runs, e)),
    "one value that only one input has": lambda which, runs, e: np.where(wide(1, runs, e) > 150, 77, 2 * which),
    "a grid": lambda which, runs, e: 9 * wide(1, runs, e) if which else wide(1, runs, e, 450),
    "a shifted grid": lambda which, runs, e: 9 * wide(1, runs, e) + 4 if which else wide(1, runs, e, 450),
    "published or not": lambda which, runs, e: np.where(wide(1, runs, e) > 100 * which, HIDDEN, 0),
    "how many are published": lambda which, runs, e: some_hidden(wide(6, runs, e), 2 + which, e),
    "noise used twice": lambda which, runs, e: doubled(wide(1, runs, e)) if which else wide(2, runs, e),
    "noise taken off": lambda which, runs, e: doubled(wide(1, runs, e)) * [1, -1] + [0, which],
    "noise added twice": lambda which, runs, e: doubled(wide(1, runs, e)) + np.array([0, which]),
    "order": lambda which, runs, e: np.sort(wide(2, runs, e), axis=1) if which else wide(2, runs, e),
    "a total": lambda which, runs, e: wide(8, runs, e) * [1, 1, 1, 1, 0, 0, 0, 0] + 25 * which,
    "many small steps": lambda which, runs, e: wide(12, runs, e, 2) + which,
    "a fixed seed": lambda which, runs, e: wide(3, 1, TestingEntropy(5)).repeat(runs, axis=0) + which,
}


@pytest.mark.parametrize("leak", LEAKS)
def test_a_leak_is_found(leak):
    found = audit(Subject(leak, ONE, LEAKS[leak]), 4_000, TestingEntropy(3))
    assert found.violated, found


@pytest.mark.parametrize("leak", LEAKS)
@pytest.mark.parametrize("which", [0, 1])
def test_the_same_input_twice_shows_nothing(leak, which):
    """30 audits of 4,000 runs: any of them bounds an epsilon of 0 away from 0 with a chance below 3e-5."""
    same = Subject(leak, ONE, lambda _, runs, entropy: LEAKS[leak](which, runs, entropy))
    assert audit(same, 4_000, TestingEntropy(4)).bound == 0


def test_many_numbers_are_weighed_together():
    """Each of 12 numbers shows 0.1, all of them 1.2, though mostly far less: the best event is good for about 0.5."""
    steps = Subject("steps", ONE, lambda which, runs, e: wide(12, runs, e, 10) + which)
    found = audit(steps, 100_000, TestingEntropy(1))
    assert 0.4 < found.bound <= 1.2
    assert "evidence" in found.event or "sum of all" in found.event


# -- how it is done


def test_what_chooses_the_event_does_not_bound_it():
    """A leak that only the choosing quarter has must not show."""
    runs, seen = 4_000, {0: 0, 1: 0}

    def run(which, count, entropy):
        seen[which] += count
        return wide(1, count, entropy) + 1000 * which * (seen[which] <= runs // 4)

    assert audit(Subject("early", ONE, run), runs, TestingEntropy(1)).bound == 0
    assert seen == {0: runs, 1: runs}


def test_runs_come_in_blocks():
    sizes = []

    def run(which, count, entropy):
        sizes.append(count)
        return wide(1, count, entropy)

    audit(Subject("blocks", ONE, run), 150_001, TestingEntropy(1))
    assert max(sizes) <= BLOCK and sum(sizes) == 300_002


def test_wide_outputs_choose_on_fewer_runs(monkeypatch):
    monkeypatch.setattr("sfumato.lab.audit.attacks.sampling.BLOCK", 100)
    monkeypatch.setattr("sfumato.lab.audit.attacks.sampling.MOST_HELD", 2_000)
    calls = []

    def run(which, count, entropy):
        calls.append(which)
        return wide(10, count, entropy) + 1000 * which

    assert audit(Subject("wide", ONE, run), 4_000, TestingEntropy(1)).bound > 1
    assert calls[:6] == [0, 0, 1, 1, 0, 1]  # 200 runs on each input choose, then they alternate


def test_too_few_runs_are_refused():
    with pytest.raises(QueryError, match="at least 100"):
        audit(plain_laplace(), 99, TestingEntropy(1))


def test_a_paired_bound_is_half_the_log_odds_of_pairs_that_differ():
    lower = float(clopper_pearson(880, 1000, 1e-6)[0])
    assert float(paired_bound(880, 120, 1e-6)) == pytest.approx(0.5 * float(np.log(lower / (1 - lower))))
    assert float(paired_bound(120, 880, 1e-6)) == 0 and float(paired_bound(0, 0, 1e-6)) == 0


@pytest.mark.parametrize("p", [0.02, 0.3, 0.7])
def test_a_paired_bound_never_exceeds_what_privacy_allows(p):
    """With p and q as far apart as epsilon 1 allows, exact odds are at most exp(2): 300 bounds, none above 1.

    Each is wrong with a chance of at most 1e-6.
    """
    q = max(p / np.e, 1 - np.e * (1 - p))  # the least that both inequalities leave
    pairs, stream = 20_000, TestingEntropy(31)
    for _ in range(300):
        high, low = (uniform(pairs, stream) < chance for chance in (p, q))
        assert float(paired_bound((high & ~low).sum(), (low & ~high).sum(), 1e-6)) <= 1


def uniform(count, entropy):
    return (entropy.words(count) >> np.uint64(11)) * 2.0**-53
