"""Random bits of the kernel: from the operating system, or from a marked generator for tests.

Noise protects a table only as long as nobody can predict it, so nothing here is a statistical generator and nothing
can be seeded, except `TestingEntropy`, whose output is marked NOT PRIVATE.
"""

from __future__ import annotations

import builtins
import hashlib
import os
from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import PrivacyError

Words = NDArray[np.uint64]

CHUNK = 2**20  # bytes of key stream per key: far below what AES in counter mode allows, large enough to hide the set-up
SMALL = 2**12  # up to here asking the operating system directly is faster than setting up a cipher
SLACK = 16  # some releases of `cryptography` want this much room behind the output
ZEROS = bytes(CHUNK)  # a stream cipher applied to zeros gives its key stream


class Entropy(Protocol):
    """A source of independent, uniform random bits.

    private: whether nobody can predict the bits. What is drawn from another source must never be published.
    """

    private: bool

    def words(self, count: int) -> Words:
        """`count` fresh random 64-bit words, which the caller may overwrite."""
        ...

    def bytes(self, count: int) -> builtins.bytes:
        """`count` fresh random bytes."""
        ...


class SystemEntropy:
    """The operating system's generator, stretched by AES-256 in counter mode (measured faster than ChaCha20).

    Privacy: it keeps no state at all. Every chunk has its own key, fresh from the operating system and forgotten at
    once, so a forked process, a second thread or a later look into memory finds nothing that tells another chunk.

    >>> SystemEntropy().words(3).shape
    (3,)
    """

    private = True

    def words(self, count: int) -> Words:
        """`count` fresh random 64-bit words, which the caller may overwrite."""
        if 8 * count <= SMALL:
            return np.frombuffer(bytearray(_from_system(8 * count)), dtype=np.uint64)
        return _stretch(count, lambda: _from_system(32))

    def bytes(self, count: int) -> builtins.bytes:
        """`count` fresh random bytes."""
        return self.words(-(-count // 8)).tobytes()[:count]


class TestingEntropy:
    """NOT PRIVATE: the same seed gives the same bits, so whoever knows the seed can take the noise off again.

    For tests, and the only place where seeds exist. What it produces is marked and the tools refuse to serve it.

    >>> int(TestingEntropy(1).words(1)[0]) == int(TestingEntropy(1).words(1)[0])
    True
    >>> TestingEntropy(1).private
    False
    """

    __test__ = False  # the name starts with Test, but it is no test for pytest to collect
    private = False

    def __init__(self, seed: int) -> None:
        self._seed = int(seed)
        self._keys = 0

    def words(self, count: int) -> Words:
        """The next `count` predictable 64-bit words."""
        return _stretch(count, self._next_key)

    def bytes(self, count: int) -> builtins.bytes:
        """The next `count` predictable bytes."""
        return self.words(-(-count // 8)).tobytes()[:count]

    def _next_key(self) -> builtins.bytes:
        self._keys += 1
        return hashlib.sha256(f"sfumato testing {self._seed} {self._keys}".encode()).digest()


def _from_system(count: int) -> builtins.bytes:
    """Random bytes of the operating system, or a refusal: there is no second choice that would be safe."""
    try:
        return os.urandom(count)
    except (NotImplementedError, OSError) as error:
        raise PrivacyError(
            "Noise was asked for, but this system offers no source of secure random numbers (os.urandom failed); "
            "run where one is available"
        ) from error


def _stretch(count: int, next_key: Callable[[], builtins.bytes]) -> Words:
    """`count` words of key stream; the nonce may stay fixed because `next_key` never gives the same key twice."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    size = 8 * count
    stream = np.empty(size + SLACK, dtype=np.uint8)
    for start in range(0, size, CHUNK):
        length = min(CHUNK, size - start)
        cipher = Cipher(algorithms.AES(next_key()), modes.CTR(bytes(16))).encryptor()
        cipher.update_into(memoryview(ZEROS)[:length], stream[start : start + length + SLACK].data)
    return stream[:size].view(np.uint64)
