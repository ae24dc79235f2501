"""The sources of random bits: unpredictable, refused where there are none, and marked where they are predictable."""

import os
import warnings

import numpy as np
import pytest
from scipy import stats

from sfumato.errors import PrivacyError
from sfumato.kernel.sampling.entropy import CHUNK, SMALL, SystemEntropy, TestingEntropy

FALSE_ALARM = 1e-6


@pytest.mark.parametrize("count", [0, 1, SMALL // 8, SMALL // 8 + 1, CHUNK // 8, CHUNK // 8 + 3, 3 * CHUNK // 8])
@pytest.mark.parametrize("entropy", [SystemEntropy(), TestingEntropy(5)])
def test_words_come_in_the_number_asked_for_and_may_be_overwritten(entropy, count):
    words = entropy.words(count)
    assert words.shape == (count,)
    assert words.dtype == np.uint64
    words[:] = 0
    assert np.unique(entropy.words(count)).size == count  # 400,000 words agree somewhere with a chance of 4e-9


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, SMALL + 1])
@pytest.mark.parametrize("entropy", [SystemEntropy(), TestingEntropy(5)])
def test_bytes_come_in_the_number_asked_for(entropy, count):
    assert len(entropy.bytes(count)) == count


@pytest.mark.parametrize("entropy", [SystemEntropy(), TestingEntropy(6)])
def test_every_bit_is_one_half_of_the_time(entropy):
    count = 400_000
    words = entropy.words(count)
    for bit in range(64):
        ones = int(((words >> np.uint64(bit)) & np.uint64(1)).sum())
        assert stats.binomtest(ones, count).pvalue > FALSE_ALARM / 64


def test_no_two_calls_share_their_bits():
    entropy = SystemEntropy()
    assert not np.intersect1d(entropy.words(10_000), entropy.words(10_000)).size
    assert not np.intersect1d(SystemEntropy().words(4), SystemEntropy().words(4)).size


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("count", [4, 2000])  # one straight from the system, one stretched
def test_a_forked_process_draws_other_bits(count):
    entropy = SystemEntropy()
    entropy.words(count)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # about threads of other libraries
        child = os.fork()
    if child == 0:
        os.write(writing, entropy.bytes(8 * count))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = np.frombuffer(pipe.read(), dtype=np.uint64)
    os.waitpid(child, 0)
    assert theirs.size == count
    assert not np.intersect1d(theirs, entropy.words(count)).size


@pytest.mark.parametrize("failure", [NotImplementedError, OSError])
@pytest.mark.parametrize("count", [1, CHUNK])
def test_a_system_without_entropy_is_refused(monkeypatch, failure, count):
    def fail(size):
        raise failure

    monkeypatch.setattr(os, "urandom", fail)
    with pytest.raises(PrivacyError, match="no source of secure random numbers"):
        SystemEntropy().words(count)
    with pytest.raises(PrivacyError):
        SystemEntropy().bytes(count)


def test_keys_come_from_the_system_and_only_once(monkeypatch):
    asked = []
    system = os.urandom
    monkeypatch.setattr(os, "urandom", lambda size: asked.append(size) or system(size))
    SystemEntropy().words(3 * CHUNK // 8)
    assert asked == [32, 32, 32]


def test_testing_entropy_repeats_itself_and_says_that_it_is_not_private():
    first, again, other = TestingEntropy(7), TestingEntropy(7), TestingEntropy(8)
    for count in (3, CHUNK // 8 + 1, 2):
        ours = first.words(count)
        assert np.array_equal(ours, again.words(count))
        assert not np.intersect1d(ours, other.words(count)).size
    assert first.bytes(5) == again.bytes(5)
    assert first.private is False
    assert SystemEntropy().private is True
    assert "NOT PRIVATE" in TestingEntropy.__doc__


def test_testing_entropy_does_not_repeat_within_a_run():
    entropy = TestingEntropy(9)
    assert np.unique(np.concatenate([entropy.words(100) for _ in range(50)])).size == 5000
