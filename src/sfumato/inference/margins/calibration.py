"""Spreads and errors brought to the size that was measured.

A release measures, with noise, how far its own answers are off: the sum over cells of |count - answer|, added up over
sets of attributes of one kind. If every cell's error were normal with the variance that is claimed for it, that sum
would be about sqrt(2 / pi) times the sum of the standard deviations. The claimed variances of what is in doubt, of
tables along all attributes of the set, are scaled until it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.model_error import OF_NORMAL

HALVINGS = 60
NEARLY_ALL = 0.8  # of what cells can be off by, as which errors are taken at most


@dataclass(frozen=True, eq=False)
class Doubt:
    """What is claimed of the cells of one set of attributes: sure variances, and those that are to be scaled.

    most: what the error of each cell comes to at most, on average. Where few rows are expected they cannot be off by
    more than there are: the mean of |count - guess| is at most mean + guess, however large the variance. Without this
    bound the thousands of nearly empty cells of a sparse table would seem to explain what a few full ones are off by.
    """

    sure: Floats
    doubtful: Floats
    most: Floats | float = inf

    def size(self, scale: float) -> float:
        """The expected sum of the cells' errors."""
        if scale == inf:
            return float(np.broadcast_to(self.most, self.sure.shape).sum())
        return float(np.minimum(OF_NORMAL * np.sqrt(self.sure + scale * self.doubtful), self.most).sum())


def scale_of(doubts: Sequence[Doubt], measured: float, error: float, least: float = 0.0, most: float = 1e6) -> float:
    """The factor on doubtful variances with which the expected sum is the measured one.

    error: the standard deviation of what was measured. What is claimed is believed to within itself, so where the noise
    is large beside it not much is changed; half of the noise is added, for an error that is too small misleads more
    than one that is too large.
    """
    claimed = sum(doubt.size(1.0) for doubt in doubts)
    trust = claimed**2 / max(claimed**2 + error**2, 1e-300)
    wanted = claimed + trust * (measured + error / 2.0 - claimed)
    # Near the most that cells can be off by, the sum tells that their variances are large and not how large.
    wanted = min(wanted, NEARLY_ALL * sum(doubt.size(inf) for doubt in doubts))
    low, high = least, most
    if sum(doubt.size(low) for doubt in doubts) >= wanted:
        return least
    for _ in range(HALVINGS):
        middle = sqrt(max(low, 1e-9) * high)
        if sum(doubt.size(middle) for doubt in doubts) < wanted:
            low = middle
        else:
            high = middle
    return high
