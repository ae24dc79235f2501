"""Noise against its exact distribution, at rational scales, and along the paths that chance would never take.

Every statistical test raises a false alarm with a chance of 1e-6; sample sizes are given in each. Draws come from the
testing generator, so a test that passes keeps passing.
"""

import tracemalloc
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfumato.errors import MechanismError, PrivacyError
from sfumato.kernel.sampling import noise as noise_module
from sfumato.kernel.sampling.entropy import TestingEntropy
from sfumato.kernel.sampling.exact import Coins, exp_minus, over_one_plus, squared
from sfumato.kernel.sampling.noise import draw, draw_geometric, sparse_hits
from sfumato.measurement import Gaussian, Laplace

FALSE_ALARM = 1e-6
ALL_ONES = 2**64 - 1
SCALES = [Fraction(1, 3), Fraction(1), Fraction(7, 5), Fraction(20), Fraction(1000)]
VARIANCES = [Fraction(1, 9), Fraction(1, 3), Fraction(1), Fraction(7, 5), Fraction(399, 100), Fraction(400), 10**6]


class Scripted:
    """Hands out the words it was given, then the filling."""

    private = False

    def __init__(self, *words, filling=ALL_ONES):
        self.script, self.filling = list(words), filling

    def words(self, count):
        taken, self.script = self.script[:count], self.script[count:]
        return np.array(taken + [self.filling] * (count - len(taken)), dtype=np.uint64)


def laplace_mass(z, scale):
    ratio = np.exp(-1 / float(scale))
    return (1 - ratio) / (1 + ratio) * ratio ** np.abs(z)


def gaussian_mass(z, sigma_squared):
    everywhere = np.arange(-20_000, 20_001)
    return np.exp(-(z**2) / (2 * sigma_squared)) / np.exp(-(everywhere**2) / (2 * sigma_squared)).sum()


def assert_distributed(samples, values, masses, at_least=20):
    """Chi-square of whole-number samples; values next to each other are pooled until 20 samples are expected."""
    order = np.argsort(values)
    values, masses = np.asarray(values)[order], np.asarray(masses)[order]
    edges, total = [-np.inf], 0.0
    expected = []
    for value, mass in zip(values, masses, strict=True):
        total += mass * samples.size
        if total >= at_least:
            edges.append(value + 0.5)
            expected.append(total)
            total = 0.0
    edges[-1] = np.inf
    expected[-1] += samples.size - sum(expected)  # what is left, and the values beyond those listed
    observed = np.histogram(samples, bins=edges)[0]
    assert observed.sum() == samples.size
    if len(expected) > 1:
        assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM
    return len(expected)


@pytest.mark.parametrize("scale", SCALES)
def test_laplace_noise_has_exactly_its_distribution(scale):
    """500,000 draws."""
    samples = draw(Laplace(scale), 500_000, TestingEntropy(1))
    z = np.arange(-int(12 * scale) - 3, int(12 * scale) + 4)
    assert assert_distributed(samples, z, laplace_mass(z, scale)) > 3
    assert samples.dtype == np.int64
    assert abs(stats.pearsonr(samples[:-1], samples[1:]).statistic) < 4.9 / np.sqrt(samples.size)  # neighbours


@pytest.mark.parametrize("sigma_squared", VARIANCES)
def test_gaussian_noise_has_exactly_its_distribution(sigma_squared):
    """300,000 draws."""
    samples = draw(Gaussian(Fraction(sigma_squared)), 300_000, TestingEntropy(2))
    reach = int(5 * float(sigma_squared) ** 0.5) + 3
    z = np.arange(-reach, reach + 1)
    assert assert_distributed(samples, z, gaussian_mass(z, float(sigma_squared))) >= 3
    assert samples.size == 300_000


@pytest.mark.parametrize("sigma_squared", [10**12, 2**46, Fraction(10**13, 7)])
def test_wide_gaussian_noise(sigma_squared):
    """300,000 draws in 100 bins; the normal law differs from the discrete one by less than a millionth there."""
    samples = draw(Gaussian(Fraction(sigma_squared)), 300_000, TestingEntropy(3))
    bins = stats.norm.ppf(np.linspace(0, 1, 101)) * float(sigma_squared) ** 0.5
    observed = np.histogram(samples, bins=bins)[0]
    assert stats.chisquare(observed).pvalue > FALSE_ALARM
    assert np.unique(samples & 7, return_counts=True)[1].min() > 36_000  # the low digits are alive: 37,500 +- 181


@pytest.mark.parametrize("rate", [Fraction(3), Fraction(1, 7), Fraction(1, 250)])
def test_geometric_noise_has_exactly_its_distribution(rate):
    """300,000 draws."""
    samples = draw_geometric(rate, 300_000, TestingEntropy(4))
    g = np.arange(int(12 / rate) + 3)
    assert_distributed(samples, g, (1 - np.exp(-float(rate))) * np.exp(-float(rate) * g))


def few_digits(rate, digits):
    """The coins of a geometric variable with so few digits that runs beyond them are common."""
    powers = [squared(exp_minus(rate), j) for j in range(digits + 1)]
    return Coins.of([over_one_plus(power, power) for power in powers[:-1]] + powers[-1:])


@pytest.mark.parametrize("digits", [0, 1, 3, 9])
def test_nothing_is_cut_off_above_the_top_digit(digits):
    """6,000 draws; with no digit at all each draw is one long run."""
    samples = noise_module.geometric_from(few_digits(Fraction(1, 5), digits), 6_000, TestingEntropy(5))
    g = np.arange(80)
    assert_distributed(samples, g, (1 - np.exp(-0.2)) * np.exp(-0.2 * g))


WORK = 256


def growth(y):
    """Ends of exp(y) * 2**WORK for 0 <= y <= 1 by its series: all terms positive, the rest below the 60th of them."""
    low = high = least = most = 1 << WORK
    for n in range(1, 60):
        least, most = least * y.numerator // (y.denominator * n), -(-most * y.numerator // (y.denominator * n))
        low, high = low + least, high + most
    return low, high + most


E = growth(Fraction(1))


def exponential(x):
    """Ends of exp(-x) * 2**64, by another formula than the samplers': 1 / (e * e * ... * exp(rest))."""
    if x >= 64:
        return 0, 1
    low, high = growth(x % 1)
    for _ in range(int(x)):
        low, high = low * E[0] >> WORK, (high * E[1] >> WORK) + 1
    return (1 << WORK + 64) // high, -(-(1 << WORK + 64) // low) if x else 1 << 64


@pytest.mark.parametrize("sigma_squared", [*VARIANCES[1:5], Fraction(10**40 + 1, 10**36 + 7), Fraction(10**13, 7)])
def test_every_threshold_is_that_of_its_chance(sigma_squared):
    """All coins of digits and limbs: a toss is sure only where the chance decides it, and hardly ever in doubt."""
    proposal = noise_module.proposal_for(sigma_squared)
    limbs = [exponential(Fraction(d << 8 * i) / proposal.divisor) for i in range(proposal.limbs) for d in range(256)]
    rate, one = Fraction(proposal.centre, proposal.unit) / sigma_squared, 1 << 64
    odds = [exponential(rate * 2**j) for j in range(len(proposal.digits.chances))]
    digits = [((low << 64) // (one + low), -(-(high << 64) // (one + high))) for low, high in odds[:-1]]
    for coins, chances in ((proposal.coins, limbs), (proposal.digits, [*digits, odds[-1]])):
        assert len(coins.chances) == coins.sure.size == len(chances)
        assert coins.doubt <= 2
        for sure, (low, high) in zip(coins.sure.tolist(), chances, strict=True):
            assert high - low <= 2
            assert sure << 32 <= low
            assert high <= (sure + int(coins.doubt)) << 32
            assert sure == min(low >> 32, 2**32 - 1)  # the floor itself: undecided as seldom as can be


@pytest.mark.parametrize("which", [0, 1, 17, 255, 256, 300, 512, 767])
def test_an_undecided_toss_goes_by_the_chance_of_its_coin(which):
    """Further bits of a chance, which a toss asks for, belong to the same number as its threshold."""
    proposal = noise_module.proposal_for(Fraction(399, 100))
    limb, d = divmod(which, 256)
    low, high = exponential(Fraction(d * 256**limb) / proposal.divisor)
    lower, upper = proposal.coins.chances[which](64)
    assert lower <= high
    assert low <= upper <= lower + 2
    sure = int(proposal.coins.sure[which])
    for word, more in ((sure, 0), (sure, ALL_ONES), (max(sure - 1, 0), ALL_ONES), (min(sure + 3, 2**32 - 1), 0)):
        toss = proposal.coins.toss(np.array([which]), (1,), Scripted(word, more, 0))
        assert toss.tolist() == [(word << 128 | more << 64) < proposal.coins.chances[which](160)[0]]


@pytest.mark.full
def test_gaussian_noise_beyond_64_bit_squares_is_exact_too():
    """20,000 proposals, of which about 15,000 are kept; those above 2 go through big integers."""
    proposal = noise_module.proposal_for(Fraction(9))
    proposal = replace(proposal, digits=few_digits(Fraction(proposal.centre, 9), 1))
    entropy = TestingEntropy(6)
    proposed = noise_module.laplace_from(proposal.digits, 20_000, entropy)
    kept = proposed[noise_module.accepted(proposed, proposal, entropy)]
    z = np.arange(-20, 21)
    assert kept.size > 10_000
    assert_distributed(kept, z, gaussian_mass(z, 9.0))


def test_extreme_random_words():
    """All bits one: no digit is set and the noise is nil. A script sets the highest coin and its run stops."""
    for noise in (Laplace(Fraction(1000)), Laplace(Fraction(1, 10**30))):
        assert draw(noise, 5, Scripted()).tolist() == [0] * 5
    rows = len(noise_module.laplace_digits(Fraction(1)).chances)
    top = 2 ** (rows - 1)
    last_coin_zero = [ALL_ONES] * ((rows - 1) // 2) + [ALL_ONES ^ (0xFFFFFFFF if rows % 2 else 0xFFFFFFFF << 32)]
    assert np.array(last_coin_zero, dtype=np.uint64).view(np.uint32)[rows - 1] == 0
    # The coin's 32 bits are 0 and leave it open; 64 more zeros make it a success; after it the run goes on or ends.
    assert draw_geometric(Fraction(1), 1, Scripted(*last_coin_zero)).tolist() == [0]
    assert draw_geometric(Fraction(1), 1, Scripted(*last_coin_zero, 0)).tolist() == [top]
    assert draw_geometric(Fraction(1), 1, Scripted(*last_coin_zero, 0, 0, 0)).tolist() == [2 * top]


def test_noise_that_does_not_fit_is_refused_not_wrapped():
    top = Coins.of([exp_minus(Fraction(1))] * 62 + [exp_minus(Fraction(0))])  # a run that never ends
    assert noise_module.geometric_from(top, 3, TestingEntropy(7)).tolist() == [2**62] * 3
    with pytest.raises(PrivacyError, match="does not fit"):
        noise_module.laplace_from(top, 3, TestingEntropy(7))


@pytest.mark.parametrize("scale", [Fraction(0), Fraction(-1), Fraction(2**50) + Fraction(1, 3)])
def test_impossible_laplace_scales_are_refused(scale):
    with pytest.raises(PrivacyError, match="at most 2"):
        draw(Laplace(scale), 1, TestingEntropy(1))
    with pytest.raises(PrivacyError):
        sparse_hits(10, 1, Laplace(scale), TestingEntropy(1))


@pytest.mark.parametrize("sigma_squared", [Fraction(0), Fraction(-1), Fraction(1, 2**60 + 1), Fraction(2**46 + 1)])
def test_impossible_gaussian_variances_are_refused(sigma_squared):
    with pytest.raises(PrivacyError, match="must lie between"):
        draw(Gaussian(sigma_squared), 1, TestingEntropy(1))


def test_a_rate_must_be_positive_and_exact():
    with pytest.raises(PrivacyError):
        draw_geometric(Fraction(0), 1, TestingEntropy(1))
    with pytest.raises(PrivacyError, match="Fraction"):
        draw(Laplace(0.12345), 1, TestingEntropy(1))


@given(st.builds(Fraction, st.integers(1, 2**60), st.integers(1, 2**60)).filter(lambda v: v <= 2**46))
@settings(max_examples=30, deadline=None)
def test_squares_of_proposals_fit_64_bits_and_most_are_kept(sigma_squared):
    proposal = noise_module.proposal_for(sigma_squared)
    largest = max(proposal.centre, proposal.unit * noise_module.largest_of(proposal.digits))
    assert largest**2 < 2**62
    assert proposal.limbs * 8 >= (largest**2).bit_length()
    assert Fraction(1, 2) < Fraction(proposal.centre, proposal.unit) ** 2 / sigma_squared * 4 <= 4
    assert draw(Gaussian(sigma_squared), 100, TestingEntropy(8)).size == 100


def test_largest_scale_and_smallest_variance():
    samples = draw(Laplace(Fraction(2**50)), 20_000, TestingEntropy(9))
    assert stats.kstest(samples / 2.0**50, stats.laplace.cdf).pvalue > FALSE_ALARM
    assert not draw(Gaussian(Fraction(1, 2**60)), 1000, TestingEntropy(9)).any()


@pytest.mark.parametrize("count", [0, 1, 2, 100_001])
@pytest.mark.parametrize("noise", [Laplace(Fraction(3)), Gaussian(Fraction(3))])
def test_as_many_samples_as_asked_for_and_reproducible_only_for_tests(noise, count):
    samples = draw(noise, count, TestingEntropy(10))
    assert samples.shape == (count,)
    assert np.array_equal(samples, draw(noise, count, TestingEntropy(10)))


def test_memory_stays_bounded():
    """Three million draws: beyond the result itself (24 MB) less than 30 MB are held at any moment."""
    entropy = TestingEntropy(11)
    for noise in (Laplace(Fraction(1000)), Gaussian(Fraction(10**6))):
        tracemalloc.start()
        result = draw(noise, 3_000_000 // (1 + 2 * isinstance(noise, Gaussian)), entropy)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak - result.nbytes < 30e6


def test_sparse_hits_are_those_of_a_draw_per_cell():
    """4,000 domains of 60 cells: number of hits, where and which noise, beside their laws and beside brute force."""
    scale, threshold, size, repeats = Fraction(2), 3, 60, 4000
    entropy = TestingEntropy(12)
    chance = np.exp(-1.5) / (1 + np.exp(-0.5))
    runs = [sparse_hits(size, threshold, Laplace(scale), entropy) for _ in range(repeats)]
    counts = np.array([cells.size for cells, _ in runs])
    cells, values = (np.concatenate(parts) for parts in zip(*runs, strict=True))
    assert all((np.diff(run) > 0).all() for run, _ in runs)
    assert_distributed(counts, np.arange(size + 1), stats.binom.pmf(np.arange(size + 1), size, chance))
    assert_distributed(cells, np.arange(size), np.full(size, 1 / size))
    beyond = np.arange(40)
    assert_distributed(values - threshold, beyond, (1 - np.exp(-0.5)) * np.exp(-0.5 * beyond))

    brute = draw(Laplace(scale), size * repeats, entropy).reshape(repeats, size)
    brute_counts = (brute >= threshold).sum(axis=1)
    assert two_samples(counts, brute_counts) > FALSE_ALARM
    assert two_samples(values, brute[brute >= threshold]) > FALSE_ALARM


def two_samples(ours, theirs, at_least=10):
    """The p-value of a chi-square test that two samples of whole numbers have one distribution."""
    both = np.sort(np.concatenate([ours, theirs]))
    edges = np.unique(both[:: max(both.size // 40, 1)])
    edges = np.concatenate([[-np.inf], edges + 0.5, [np.inf]])
    table = np.array([np.histogram(sample, bins=edges)[0] for sample in (ours, theirs)])
    table = table[:, table.sum(axis=0) >= at_least]
    return stats.chi2_contingency(table).pvalue


@pytest.mark.parametrize("working_coins", [250, 2**18])  # the first: one or a few hits a batch
def test_sparse_hits_in_a_domain_of_the_largest_size(monkeypatch, working_coins):
    """400 domains of 2**62 cells, each with about 9.6 hits: a Poisson number, spread evenly."""
    monkeypatch.setattr(noise_module, "WORKING_COINS", working_coins)
    entropy = TestingEntropy(13)
    size, threshold, scale = 2**62, 400, Fraction(10)
    mean = size * np.exp(-40.0) / (1 + np.exp(-0.1))
    runs = [sparse_hits(size, threshold, Laplace(scale), entropy) for _ in range(400)]
    counts = np.array([cells.size for cells, _ in runs])
    assert_distributed(counts, np.arange(60), stats.poisson.pmf(np.arange(60), mean))
    cells = np.concatenate([cells for cells, _ in runs])
    assert cells.min() >= 0
    assert cells.max() < size
    assert all((np.diff(run) > 0).all() for run, _ in runs)
    assert stats.chisquare(np.bincount(cells >> 58, minlength=16)).pvalue > FALSE_ALARM
    assert min(values.min(initial=threshold) for _, values in runs) >= threshold


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_sparse_hits_with_a_likely_hit(size):
    """Threshold 1 at a scale of 2**40: half of all cells, up to a millionth; 200 domains."""
    entropy = TestingEntropy(14)
    hits = sum(sparse_hits(size, 1, Laplace(Fraction(2**40)), entropy)[0].size for _ in range(200))
    assert hits == 0 if size == 0 else stats.binomtest(hits, 200 * size).pvalue > FALSE_ALARM


@pytest.mark.parametrize("threshold", [10**6, 2**62])
def test_sparse_hits_with_an_unreachable_threshold(threshold):
    """The gap is beyond any number of bits; a hit has a chance below exp(-49,000)."""
    cells, values = sparse_hits(2**62, threshold, Laplace(Fraction(20)), TestingEntropy(15))
    assert cells.size == values.size == 0
    assert cells.dtype == values.dtype == np.int64


@pytest.mark.parametrize(("size", "threshold"), [(10, 0), (10, 2**62 + 1), (-1, 1), (2**62 + 1, 100), (2**62, 30)])
def test_sparse_hits_refuses_what_it_cannot_do(size, threshold):
    with pytest.raises(MechanismError):
        sparse_hits(size, threshold, Laplace(Fraction(5)), TestingEntropy(16))


@pytest.mark.parametrize("scale", [1, 20])
def test_opendp_agrees(scale):
    """20,000 draws of OpenDP's integer Laplace beside 200,000 of ours. OpenDP cannot be seeded."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=float(scale))([0] * 20_000))
    ours = draw(Laplace(Fraction(scale)), 200_000, TestingEntropy(17))
    assert two_samples(ours, theirs) > FALSE_ALARM
    deviation = float(np.sqrt(Laplace(Fraction(scale)).variance))
    assert abs(theirs.mean()) < 4.9 * deviation / np.sqrt(theirs.size)
    assert abs(ours.mean()) < 4.9 * deviation / np.sqrt(ours.size)
