"""The exponential mechanism against its exact probabilities."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import PrivacyError
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.verbs.exponential import choose, uniform_below

FALSE_ALARM = 1e-6
ALL_ONES = 2**64 - 1
LOWEST, HIGHEST = -(2**63), 2**63 - 1


class Scripted:
    """Hands out the words it was given, then the filling."""

    private = False

    def __init__(self, *words, filling=0):
        self.script, self.filling = list(words), filling

    def words(self, count):
        taken, self.script = self.script[:count], self.script[count:]
        return np.array(taken + [self.filling] * (count - len(taken)), dtype=np.uint64)


@pytest.mark.full
@pytest.mark.parametrize(
    ("scores", "rate"),
    [
        ([0, 1, 2, 3, 1, 0], Fraction(1)),
        ([5, 5, 5, 4, -3], Fraction(5, 2)),
        ([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10], Fraction(1, 4)),  # classes of four scores
        ([0, 700_000, 1_300_000, 1_999_999, 2_000_000], Fraction(1, 10**6)),
        ([HIGHEST, 0, LOWEST, HIGHEST], Fraction(1, 2**62)),
        ([HIGHEST, LOWEST], Fraction(1, 10**40)),
        ([7], Fraction(3)),
    ],
)
def test_candidates_are_chosen_with_exactly_their_probabilities(scores, rate):
    """6,000 choices."""
    entropy = TestingEntropy(1)
    array = np.array(scores, dtype=np.int64)
    chosen = np.bincount([choose(array, rate, entropy) for _ in range(6_000)], minlength=len(scores))
    weights = np.array([np.exp(float(rate * (score - max(scores)))) for score in scores])
    expected = 6_000 * weights / weights.sum()
    likely = expected >= 5
    observed = np.append(chosen[likely], chosen[~likely].sum())
    expected = np.append(expected[likely], expected[~likely].sum())
    if expected[-1] == 0:
        observed, expected = observed[:-1], expected[:-1]
    assert observed.size == 1 or stats.chisquare(observed, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("distance", [1, 40, 1000])
def test_an_improbable_candidate_is_never_ruled_out(distance):
    """exp(-1000) is about 2**-1443: it takes 1,443 ones and not many fewer to choose it."""
    scores = np.array([0, -distance], dtype=np.int64)
    enough = Scripted(*[ALL_ONES] * (1 + distance * 3 // 128))
    assert choose(scores, Fraction(1), enough) == 1
    too_few = Scripted(*[ALL_ONES] * (distance // 64))
    assert choose(scores, Fraction(1), too_few) == 0


def test_huge_distances_take_no_time():
    """A chance of exp(-10**30 * 2**64); all candidates but one are that far away."""
    scores = np.full(1000, LOWEST, dtype=np.int64)
    scores[321] = HIGHEST
    assert choose(scores, Fraction(10**30), TestingEntropy(2)) == 321


def test_a_million_candidates_and_a_small_rate():
    """Scores 0 to 999,999, rate 1e-5: the distance to the best is exponential; 80 choices, Kolmogorov-Smirnov."""
    scores = np.arange(10**6, dtype=np.int64)
    entropy = TestingEntropy(3)
    distances = [(10**6 - 1 - choose(scores, Fraction(1, 10**5), entropy)) / 1e5 for _ in range(80)]
    assert stats.kstest(distances, stats.expon.cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    "scores",
    [np.array([], dtype=np.int64), np.array([1.0, 2.0]), np.array([1, 2], dtype=np.uint64), np.zeros((2, 2), np.int64)],
)
def test_scores_must_be_a_list_of_whole_numbers(scores):
    with pytest.raises(PrivacyError, match="int64"):
        choose(scores, Fraction(1), TestingEntropy(4))


@pytest.mark.parametrize("rate", [Fraction(0), Fraction(-1)])
def test_the_rate_must_be_positive(rate):
    with pytest.raises(PrivacyError, match="positive"):
        choose(np.array([1, 2]), rate, TestingEntropy(4))


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 64, 100])
def test_uniform_numbers_are_uniform(bound):
    """20,000 draws."""
    entropy = TestingEntropy(5)
    counts = np.bincount([uniform_below(bound, entropy) for _ in range(20_000)], minlength=bound)
    assert counts.size == bound
    assert bound == 1 or stats.chisquare(counts).pvalue > FALSE_ALARM


@given(st.integers(1, 2**200), st.integers(0, 2**64))
def test_uniform_numbers_stay_below_any_bound(bound, seed):
    assert 0 <= uniform_below(bound, TestingEntropy(seed)) < bound


def test_a_number_out_of_range_is_drawn_afresh():
    assert uniform_below(5, Scripted(7 << 61, 5 << 61, 4 << 61)) == 4
    assert uniform_below(2**64 + 1, Scripted(ALL_ONES, ALL_ONES, 0, 2**63)) == 1
    assert uniform_below(1, Scripted()) == 0
    with pytest.raises(PrivacyError):
        uniform_below(0, Scripted())


def test_candidates_that_stand_for_many_are_chosen_as_often_as_all_of_them():
    """6,000 choices among 3 scores behind which are 1, 50 and 2**40 candidates."""
    scores, times, rate = np.array([0, -4, -32]), np.array([1, 50, 2**40]), Fraction(1)
    entropy = TestingEntropy(5)
    chosen = np.bincount([choose(scores, rate, entropy, times) for _ in range(6_000)], minlength=3)
    expected = times * np.exp(scores.astype(float))
    assert stats.chisquare(chosen, 6_000 * expected / expected.sum()).pvalue > FALSE_ALARM


@pytest.mark.parametrize("times", [[1, 0], [1], [1, 2**53]])
def test_candidates_behind_a_score_are_whole_numbers_from_one_on(times):
    with pytest.raises(PrivacyError, match="behind every score"):
        choose(np.array([1, 2]), Fraction(1), TestingEntropy(1), np.array(times))
