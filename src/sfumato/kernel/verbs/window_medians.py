"""The deviation from the median, of every window of a given length, for all windows at once.

A wavelet matrix (Claude, Navarro, Ordonez 2015) over the ranks of the counts: one level for each binary digit of a
rank, highest first, and after each the elements with digit 0 come before those with digit 1, in order. Then the half
smallest of a window are found by descending once, and one descent serves all windows together.

Ranks are all different, even of equal counts, so every descent has the same number of steps and nothing in it branches:
once the counts are sorted, the work depends on how many cells there are, not on what is in them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Whole
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False, repr=False)  # no repr: it holds private counts
class _Level:
    """Of the first i elements: how many have digit 0, and the sum of those."""

    zeros: Whole
    sums: Whole


class WindowMedians:
    """Private counts in a fixed order, prepared so that medians of windows are quick to find.

    >>> WindowMedians(np.array([3, 3, 5, 0])).deviations(2).tolist()
    [0, 2, 5]
    """

    def __init__(self, counts: Whole) -> None:
        size = len(counts)
        ranks = np.empty(size, dtype=np.int64)
        ranks[np.argsort(counts, kind="stable")] = np.arange(size)
        self._totals = _before(counts)
        self._levels = []
        for digit in reversed(range((size - 1).bit_length())):
            is_zero = (ranks >> digit) & 1 == 0
            self._levels.append(_Level(_before(is_zero), _before(np.where(is_zero, counts, 0))))
            order = np.concatenate([np.flatnonzero(is_zero), np.flatnonzero(~is_zero)])
            ranks, counts = ranks[order], counts[order]
        self._sorted = counts  # in the end every element stands at its rank

    def deviations(self, length: int) -> Whole:
        """For every window of an even length, by its start, the sum of |count - median|; 0 for windows of length 1.

        The half above the median less the half below it: the sum less twice the sum of the smallest half.
        """
        windows = len(self._sorted) - length + 1
        if length == 1:
            return np.zeros(windows, dtype=np.int64)
        left = np.arange(windows)
        right = left + length
        sums = self._totals[right] - self._totals[left]
        wanted = np.full(
            windows, length // 2
        )  # how many smallest elements between left and right are still to be added
        smallest = np.zeros(windows, dtype=np.int64)
        for level in self._levels:
            zeros_left, zeros_right = level.zeros[left], level.zeros[right]
            zeros = zeros_right - zeros_left
            beyond = wanted > zeros  # all with digit 0 are wanted, and some with digit 1
            smallest += np.where(beyond, level.sums[right] - level.sums[left], 0)
            wanted -= np.where(beyond, zeros, 0)
            all_zeros = level.zeros[-1]
            left = np.where(beyond, left - zeros_left + all_zeros, zeros_left)
            right = np.where(beyond, right - zeros_right + all_zeros, zeros_right)
        # One element is left between them, and it is wanted.
        return np.asarray(sums - 2 * (smallest + self._sorted[left]), dtype=np.int64)


def _before(values: NDArray[np.generic]) -> Whole:
    """The sum of the first 0, 1, 2, ... values."""
    sums = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum(values, out=sums[1:])
    return sums
