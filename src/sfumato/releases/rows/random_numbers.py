"""Random numbers for rows that are drawn from a release.

Rows are made of what is published already, so whoever can foresee them learns nothing: here, and only here, a user may
give a seed. Noise is drawn elsewhere and has none.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.kernel.sampling.entropy import Entropy, SystemEntropy, TestingEntropy


class RandomNumbers:
    """Uniform numbers and orders, the same ones for the same seed.

    >>> RandomNumbers(7).uniform(2).tolist() == RandomNumbers(7).uniform(2).tolist()
    True
    """

    def __init__(self, seed: int | None = None) -> None:
        self._entropy: Entropy = SystemEntropy() if seed is None else TestingEntropy(seed)

    def uniform(self, count: int) -> Floats:
        """Numbers from 0 up to, not including, 1."""
        return np.asarray((self._entropy.words(count) >> np.uint64(11)) * 2.0**-53, dtype=np.float64)

    def order(self, count: int) -> Codes:
        """The numbers 0, 1, ..., count - 1 in random order."""
        return np.argsort(self._entropy.words(count), kind="stable")
