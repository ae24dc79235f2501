"""Noise under fire: its law at many draws, its coins digit by digit, its time, and systems without random bits.

Every statistical test raises a false alarm with a chance of at most 1e-6, sample sizes are given in each. The small
form draws from the testing generator; `pytest --full` draws from the operating system and prints what it found.
"""

from __future__ import annotations

import os
import time
from fractions import Fraction

import mpmath
import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from sfumato.errors import PrivacyError
from sfumato.kernel.ledger.ledger import Ledger
from sfumato.kernel.sampling.entropy import SystemEntropy, TestingEntropy
from sfumato.kernel.sampling.noise import draw, laplace_digits
from sfumato.measurement import Laplace
from sfumato.publishing import publish

FALSE_ALARM = 1e-6
BLOCK = 10**6
SCALES = [
    Fraction(1, 7),
    Fraction(1, 3),
    Fraction(5, 7),
    Fraction(1),
    Fraction(7, 5),
    Fraction(355, 113),
    Fraction(10),
    Fraction(200, 3),
    Fraction(1000),
    Fraction(99991, 7),
    Fraction(10**6),
    Fraction(2**40 + 1, 3),
]


def below(z: np.ndarray, scale: Fraction) -> np.ndarray:
    """P(Z < z) by the closed form; scaled so that no digits are lost where the scale is large."""
    z = np.asarray(z, dtype=np.float64)
    rate = 1 / float(scale)
    tail = np.exp(-np.where(z > 0, z, 1 - z) * rate) / (1 + np.exp(-rate))  # P(Z >= z), or P(Z <= z - 1) by symmetry
    return np.where(z > 0, 1 - tail, tail)


def edges_for(scale: Fraction, bins: int, draws: int) -> np.ndarray:
    """Whole numbers between which at least 25 draws are expected: every number by itself where that is possible."""
    quantiles = np.linspace(0, 1, bins + 1)[1:-1]
    quantiles = quantiles[(quantiles > 26 / draws) & (quantiles < 1 - 26 / draws)]
    size = -np.log(2 * np.minimum(quantiles, 1 - quantiles)) * float(scale)
    edges = np.unique(np.round(np.where(quantiles < 0.5, -size, size)).astype(np.int64))
    if scale < 50:
        edges = np.arange(-2000, 2001)
    kept = [edges[0]]
    for edge in edges[1:]:
        mass = np.diff(below(np.array([kept[-1], edge]), scale))[0]
        if mass * draws >= 25 and below(kept[-1], scale) * draws >= 25 and (1 - below(edge, scale)) * draws >= 25:
            kept.append(edge)
        elif below(kept[-1], scale) * draws < 25:
            kept[-1] = edge
    return np.array(kept)


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_chi_square_against_the_exact_law(scale, full):
    """200,000 draws; 10,000,000 in full."""
    draws = 10**7 if full else 2 * 10**5
    entropy = SystemEntropy() if full else TestingEntropy(501)
    edges = edges_for(scale, 400, draws)
    observed = np.zeros(len(edges) + 1, dtype=np.int64)
    for start in range(0, draws, BLOCK):
        samples = draw(Laplace(scale), min(BLOCK, draws - start), entropy)
        observed += np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(observed))
    expected = np.diff(np.concatenate([[0.0], below(edges, scale), [1.0]])) * draws
    assert observed.sum() == draws and len(observed) >= 2 and expected.min() >= 24
    p = stats.chisquare(observed, expected).pvalue
    if full:
        print(f"\nchi-square: scale {scale}, {draws:,} draws, {len(observed)} bins, p = {p:.4f}")
    assert p > FALSE_ALARM / len(SCALES)


def test_the_chi_square_would_notice_a_scale_that_is_off():
    """A control: one part in twenty of the scale, at 200,000 draws."""
    scale, draws = Fraction(10), 2 * 10**5
    edges = edges_for(scale, 400, draws)
    samples = draw(Laplace(scale * 19 / 20), draws, TestingEntropy(502))
    observed = np.bincount(np.searchsorted(edges, samples, side="right"), minlength=len(edges) + 1)
    expected = np.diff(np.concatenate([[0.0], below(edges, scale), [1.0]])) * draws
    assert stats.chisquare(observed, expected).pvalue < FALSE_ALARM


@pytest.mark.parametrize("scale", [*SCALES, Fraction(10**15 + 37, 10**3), Fraction(1, 10**6)], ids=str)
def test_every_coin_has_the_digits_of_its_chance(scale, full):
    """The first 32 binary digits, which decide nearly all tosses, and the first 256 (4,096 in full)."""
    coins = laplace_digits(scale)
    bits = 4096 if full else 256
    with mpmath.workprec(bits + 200):
        for j, (chance, sure) in enumerate(zip(coins.chances, coins.sure, strict=True)):
            power = mpmath.exp(-mpmath.mpf(2**j * scale.denominator) / scale.numerator)
            exact = power if j == len(coins.chances) - 1 else power / (1 + power)  # the last coin is that of the run
            lower, upper = chance(bits)
            assert lower <= exact * mpmath.mpf(2) ** bits <= upper and upper - lower <= 2
            prefix = int(mpmath.floor(exact * 2**32))
            assert int(sure) <= prefix <= int(sure) + int(coins.doubt) and int(coins.doubt) <= 3
    if full:
        print(f"\ndigits: scale {scale}, {len(coins.chances)} coins agree with mpmath in {bits} binary digits")


def two_samples(one: np.ndarray, other: np.ndarray, bins: int = 60) -> float:
    """The p-value of a chi-square test that two samples of whole numbers have one law."""
    both = np.concatenate([one, other])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, bins + 1)[1:-1]).astype(np.int64))
    tables = [np.bincount(np.searchsorted(edges, s, side="right"), minlength=len(edges) + 1) for s in (one, other)]
    table = np.array(tables)[:, np.sum(tables, axis=0) > 0]
    return float(stats.chi2_contingency(table).pvalue)


@pytest.mark.parametrize("scale", [0.5, 3.25, 100.125])
def test_opendp_draws_from_the_same_law(scale, full):
    """5,000 of theirs beside 100,000 of ours; 200,000 beside 4,000,000 in full. OpenDP cannot be seeded."""
    dp = pytest.importorskip("opendp.prelude")
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    count = 200_000 if full else 5000
    theirs = np.array(dp.m.make_laplace(*space, scale=scale)([0] * count))
    ours = draw(Laplace(Fraction(scale)), 20 * count, SystemEntropy() if full else TestingEntropy(503))
    p = two_samples(ours, theirs)
    if full:
        print(f"\nOpenDP: scale {scale}, {count:,} of theirs, {20 * count:,} of ours, p = {p:.4f}")
    assert p > FALSE_ALARM / 3
    wrong = draw(Laplace(Fraction(scale) * 6 / 5), 20 * count, TestingEntropy(504))
    assert two_samples(wrong, theirs) < FALSE_ALARM  # a control: a fifth more noise is noticed


@pytest.mark.parametrize("scale", [Fraction(3), Fraction(1000), Fraction(10**9, 7)], ids=str)
def test_time_does_not_follow_the_noise(scale, full):
    """Spearman's rank correlation at 20,000 single draws: ranks, so that a draw that was interrupted counts as one.

    Under independence sqrt(n - 1) times the correlation is normal: beyond 5.2 with a chance of 2e-7, for each of three.
    """
    if not full:
        pytest.skip("20,000 draws one by one; run pytest --full")
    entropy, noise, clock = SystemEntropy(), Laplace(scale), time.perf_counter_ns
    for _ in range(500):
        draw(noise, 1, entropy)
    taken, size = np.empty(20_000), np.empty(20_000)
    for i in range(20_000):
        start = clock()
        sample = draw(noise, 1, entropy)
        taken[i] = clock() - start
        size[i] = abs(int(sample[0]))
    found = stats.spearmanr(taken, size).statistic
    z = found * np.sqrt(len(taken) - 1)
    print(f"\ntime: scale {scale}, 20,000 draws, correlation {found:+.4f}, z = {z:+.2f}, median {np.median(taken)} ns")
    assert abs(z) < 5.2


SCHEMA_FIELDS = {
    "dataset": "fire",
    "privacy_unit": "row",
    "budget": {"epsilon": 10},
    "attributes": {"x": {"type": "integer", "lower": 0, "upper": 99}},
    "measures": {"m": {"lower": 0, "upper": 10}},
}
TABLE = pa.table({"x": np.arange(300) % 100, "m": np.ones(300)})


@pytest.fixture
def schema():
    from sfumato.schema import Schema

    return Schema.from_dict(SCHEMA_FIELDS)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork is POSIX")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded")
def test_forked_processes_draw_noise_of_their_own(full):
    """8 forks (100 in full) of one process that has drawn before: all noise differs, from each other and from ours."""
    entropy = SystemEntropy()
    noise = Laplace(Fraction(10**6))
    draw(noise, 10_000, entropy)  # what a parent could have left behind
    seen = []
    for _ in range(100 if full else 8):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                os.write(writer, draw(noise, 100, entropy).tobytes())
            finally:
                os._exit(0)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            seen.append(pipe.read())
        os.waitpid(child, 0)
    seen.append(draw(noise, 100, entropy).tobytes())
    assert {len(sample) for sample in seen} == {800}
    assert len(set(seen)) == len(seen)
    firsts = np.array([np.frombuffer(sample, np.int64)[:20] for sample in seen])
    # 20 values of noise as wide as a million: two samples share more than two of them with a chance below 1e-9.
    for place, row in enumerate(firsts):
        assert all((row == other).sum() <= 2 for other in firsts[place + 1 :])


@pytest.mark.parametrize("failure", [NotImplementedError("none"), OSError(5, "no device")])
@pytest.mark.parametrize("answered", [0, 1, 2, 3])
def test_without_random_bits_nothing_is_published(failure, answered, schema, tmp_path, monkeypatch):
    """The source dries up at once, or after some calls; the ledger keeps at most a reservation."""
    genuine, calls = os.urandom, []

    def dry(count):
        calls.append(count)
        if len(calls) > answered:
            raise failure
        return genuine(count)

    ledger, out = Ledger(tmp_path / "l.sqlite"), tmp_path / "r.sfumato"
    ledger.set_budget("fire", 10)
    monkeypatch.setattr("sfumato.kernel.sampling.entropy.os.urandom", dry)
    made = None
    with pytest.raises(PrivacyError, match="no source of secure random numbers"):
        made = publish.release(TABLE, schema, 1, ledger=ledger)
        made.save(out)
    monkeypatch.undo()
    assert made is None and not out.exists()
    assert [path.name for path in tmp_path.iterdir()] == ["l.sqlite"]
    entries = ledger.entries()
    assert len(entries) == (1 if answered >= 2 else 0)  # the nonce and the key come before the reservation
    assert all(entry.state == "reserved" for entry in entries)
    assert ledger.account("fire").spent == len(entries)
