"""With which chances a line of four cells is cut in each of its six ways, computed rather than sampled.

Four cells are the fewest in which a cell lies in three longer buckets, which is where a missing noise shows. The ends'
noise, s0 and s3, is fixed first. Then the costs of a partition, less s0 and s3, are made of independent parts:

    left,  cells 0 and 1:  A: s1 + 2 p1    or  B: d01 + z01 - s0 + p2
    right, cells 2 and 3:  A: s2 + 2 p1    or  B: d23 + z23 - s3 + p2
    the middle bucket:     d12 + z12 + 2 p1 + p2
    one bucket:            d + z - s0 - s3 + p4

All terms of the sums are positive and what is left out of the noise weighs less than exp(-26), about 5e-12: far
less than any of the six chances on small tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, exp, log

import numpy as np
from numpy.typing import NDArray

from sfumato.lab.audit.attacks import twins

Chances = NDArray[np.float64]

WAYS = ((1, 1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2), (4,))  # the earlier one wins where costs are equal
REACH = 26  # scales of noise that are told apart


class _Noise:
    """Discrete Laplace noise with its sign taken for minus; a scale of None stands for no noise at all."""

    def __init__(self, scale: Fraction | None) -> None:
        self.ratio = 0.0 if scale is None else exp(-1 / scale)
        self.reach = 0 if scale is None else ceil(REACH * scale)

    def at(self, values: NDArray[np.int64]) -> Chances:
        twice = np.where(values > 0, 0, np.where(values < 0, 2, 1))  # either sign
        return np.asarray(twice * (1 - self.ratio) / (1 + self.ratio) * self.ratio ** np.abs(values))

    def from_on(self, values: NDArray[np.int64]) -> Chances:
        """The chance of at least so much."""
        less = 2 * self.ratio ** np.maximum(1 - values, 1).astype(float) / (1 + self.ratio)
        return np.asarray(np.where(values > 0, 0.0, 1 - less))


def partition_law(
    counts: Sequence[int], prices: tuple[int, int, int], single: Fraction | None, longer: Fraction
) -> list[float]:
    """The chance of each of WAYS, for noise of these scales on single cells and on longer buckets."""
    one, many = _Noise(single), _Noise(longer)
    p1, p2, p4 = prices
    d01, d12, d23, d = (twins.deviation(counts[a:b]) for a, b in ((0, 2), (1, 3), (2, 4), (0, 4)))
    most = many.reach + one.reach + 2 * max(map(abs, prices)) + d + 1
    v = np.arange(-most, most + 1)  # values of one part
    w = np.arange(-2 * most, 2 * most + 1)  # values of a sum of two
    ends = range(-one.reach, 1)
    weights = dict(zip(ends, one.at(np.array(ends)).tolist(), strict=True))
    middle = w - d12 - 2 * p1 - p2  # the noise that brings the middle bucket to w
    rights = [_two_ways(v - 2 * p1, v - d23 + s3 - p2, one, many) for s3 in ends]
    distribution = np.zeros(len(WAYS))
    for s0 in ends:
        left = _two_ways(v - 2 * p1, v - d01 + s0 - p2, one, many)
        for s3, right in zip(ends, rights, strict=True):
            whole = w - d + s0 + s3 - p4
            aa, ba, ab, bb = (np.convolve(x, y) for y in right for x in left)
            # Whoever comes earlier in WAYS wins ties: the middle one against ab, bb and the whole line, not aa and ba.
            from_middle, from_whole = many.from_on(middle), many.from_on(whole)
            after_middle = many.from_on(middle + 1)
            rest_from, rest_after = _or_more(ab + bb), _more(aa + ba)
            all_after = _more(aa + ba + ab + bb)
            found = (
                aa * from_middle * from_whole,
                ba * from_middle * from_whole,
                many.at(middle) * (rest_from + rest_after) * from_whole,
                ab * after_middle * from_whole,
                bb * after_middle * from_whole,
                many.at(whole) * all_after * after_middle,
            )
            distribution += weights[s0] * weights[s3] * np.array([chances.sum() for chances in found])
    return [float(chance) for chance in distribution]


def largest_gap(one: Sequence[float], other: Sequence[float]) -> float:
    """The largest |log P(y) - log P'(y)|."""
    return max(abs(log(mine / its)) for mine, its in zip(one, other, strict=True))


def _two_ways(
    singles: NDArray[np.int64], bucket: NDArray[np.int64], one: _Noise, many: _Noise
) -> tuple[Chances, Chances]:
    """The chance that two cells come to each value as singles, which win ties, and as a bucket."""
    return one.at(singles) * many.from_on(bucket), many.at(bucket) * one.from_on(singles + 1)


def _or_more(chances: Chances) -> Chances:
    """The chance of each value or more, summed from the far end so that small chances keep their digits."""
    return np.asarray(np.cumsum(chances[::-1])[::-1])


def _more(chances: Chances) -> Chances:
    """The chance of more than each value."""
    return np.append(_or_more(chances)[1:], 0.0)
