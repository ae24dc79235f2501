"""Reference implementations of the curator's verbs, and the exact law of partitions of four cells.

The kernel's versions are fast and work modulo 2^64. These are slow, in Python's own integers, straight from the
definitions, and share no line with them.

The partition law: four cells are the fewest in which a cell lies in three longer buckets, which is where a missing
noise shows. The noise of the ends, s0 and s3, is fixed first. Then the costs of the six partitions, less s0 and s3,
are sums of independent terms:

    left,  cells 0 and 1:  A: s1 + 2 p1    or  B: d01 + z01 - s0 + p2
    right, cells 2 and 3:  A: s2 + 2 p1    or  B: d23 + z23 - s3 + p2
    the middle bucket:     d12 + z12 + 2 p1 + p2
    one bucket:            d + z - s0 - s3 + p4

All terms of the sums are positive, and the noise that is left out weighs less than exp(-26), about 5e-12: far less
than any of the six probabilities on small tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil, exp, floor, log, prod

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Domain
from sfumato.queries import Queries

UNIT = 256  # prices are rounded down to such parts


def misfits(queries: Queries, targets: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Misfit |A[j] x - targets[j]| of every query j."""
    return [
        abs(sum(weight * count for weight, count in zip(row, counts, strict=True)) - target)
        for row, target in zip(queries.dense().tolist(), targets, strict=True)
    ]


def margin(
    domain: Domain, names: Sequence[str], counts: Sequence[int], classes: Mapping[str, Sequence[int]] | None = None
) -> list[int]:
    """Marginal counts along some attributes, from the counts of all cells. classes: of the values of each attribute."""
    sizes = [axis.size if axis.name in names else 1 for axis in domain]
    kinds = [range(size) for size in sizes] if classes is None else [classes.get(axis.name, (0,)) for axis in domain]
    found = [0] * prod(max(kind) + 1 for kind in kinds)
    for codes, count in zip(product(*(range(axis.size) for axis in domain)), counts, strict=True):
        place = 0
        for code, size, kind in zip(codes, sizes, kinds, strict=True):
            place = place * (max(kind) + 1) + kind[code % size]
        found[place] += count
    return found


def margin_misfit(
    domain: Domain,
    names: Sequence[str],
    guess: Sequence[int],
    counts: Sequence[int],
    parts: Sequence[int] | None = None,
) -> int:
    """L1 distance of a margin from a guess: sum of |count - guess| over its cells, or over parts of them."""
    held = margin(domain, names, counts)
    if parts is not None:
        held = [sum(c for c, place in zip(held, parts, strict=True) if place == part) for part in range(len(guess))]
    return sum(abs(count - one) for count, one in zip(held, guess, strict=True))


def sums_by_group(values: Sequence[int], labels: Sequence[int]) -> list[int]:
    """Sum of values by group."""
    return [sum(v for v, label in zip(values, labels, strict=True) if label == g) for g in range(max(labels) + 1)]


def first_above(values: Sequence[int], threshold: int) -> int | None:
    """Index of the first value above a threshold, noise already added to both; None if there is none."""
    return next((place for place, value in enumerate(values) if value > threshold), None)


def deviation(counts: Sequence[int]) -> int:
    """Sum of |count - median|, the least over all centres."""
    return min(sum(abs(count - middle) for count in counts) for middle in counts)


def bucket_lengths(cells: int, longest: int | None) -> list[int]:
    """Powers of two up to the number of cells or the longest bucket."""
    return [2**power for power in range(cells.bit_length()) if 2**power <= min(cells, longest or cells)]


def buckets(cells: int, longest: int | None = None) -> list[tuple[int, int]]:
    """All buckets of a line, as start and length: by length, then by start. Long ones start at quarters of a length."""
    every = [(start, length) for length in bucket_lengths(cells, longest) for start in range(cells - length + 1)]
    return [(start, length) for start, length in every if 4 * start % length == 0 or length < 4]


def partitions(cells: int, longest: int | None = None) -> list[tuple[int, ...]]:
    """All partitions of a line into buckets, as bucket lengths from the end; ties in cost go to the first."""
    if cells == 0:
        return [()]
    usable = [length for start, length in buckets(cells, longest) if start + length == cells]
    return sorted((length, *rest) for length in usable for rest in partitions(cells - length, longest))


def cheapest_labels(
    counts: Sequence[int], prices: Sequence[Fraction], noise: Sequence[int], longest: int | None = None
) -> list[int]:
    """Bucket of every position in the partition of least cost; prices by length, noise in the order of `buckets`.

    What was drawn for a bucket makes it cheaper, whatever its sign.
    """
    cells = len(counts)
    of_length = dict(zip(bucket_lengths(cells, longest), prices, strict=True))
    costs = {
        (start, length): deviation(counts[start : start + length])
        - abs(drawn)
        + Fraction(floor(of_length[length] * UNIT), UNIT)
        for (start, length), drawn in zip(buckets(cells, longest), noise, strict=True)
    }
    best: list[tuple[Fraction, tuple[int, ...]]] = [(Fraction(0), ())]  # cost, and lengths from the end
    for end in range(1, cells + 1):
        reach = [length for length in of_length if (end - length, length) in costs]
        ways = [(best[end - size][0] + costs[end - size, size], (size, *best[end - size][1])) for size in reach]
        best.append(min(ways))
    lengths = best[-1][1][::-1]
    return [bucket for bucket, length in enumerate(lengths) for _ in range(length)]


def dealt_out(counts: Sequence[int], pieces: int) -> list[int]:
    """Rows of each piece of a line, each cell's rows dealt to its pieces one at a time."""
    digits = pieces.bit_length() - 1
    found = [0] * (len(counts) * pieces)
    for cell, count in enumerate(counts):
        for row in range(count):
            turn = row % pieces
            found[cell * pieces + sum((turn >> k & 1) << (digits - 1 - k) for k in range(digits))] += 1
    return found


def rank_scores(counts: Sequence[int], quantile: Fraction, rate: Fraction) -> list[int]:
    """Score of each position for the quantile a / b: minus b times its rank error, clipped at 64 / rate."""
    a, b = quantile.as_integer_ratio()
    total, before, found = a * sum(counts), 0, []
    for count in counts:
        found.append(-max(0, total - b * (before + count), b * before - total))
        before += count
    return [max(score, -ceil(64 / rate)) for score in found] if rate else found


Chances = NDArray[np.float64]

WAYS = ((1, 1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2), (4,))  # the earlier one wins where costs are equal
REACH = 26  # scales of noise that are told apart


class _Noise:
    """Law of -|Z| for discrete Laplace noise Z; scale None: no noise."""

    def __init__(self, scale: Fraction | None) -> None:
        self.ratio = 0.0 if scale is None else exp(-1 / scale)
        self.reach = 0 if scale is None else ceil(REACH * scale)

    def at(self, values: NDArray[np.int64]) -> Chances:
        twice = np.where(values > 0, 0, np.where(values < 0, 2, 1))  # either sign
        return np.asarray(twice * (1 - self.ratio) / (1 + self.ratio) * self.ratio ** np.abs(values))

    def from_on(self, values: NDArray[np.int64]) -> Chances:
        """P(-|Z| >= value) for each value."""
        less = 2 * self.ratio ** np.maximum(1 - values, 1).astype(float) / (1 + self.ratio)
        return np.asarray(np.where(values > 0, 0.0, 1 - less))


def partition_law(
    counts: Sequence[int], prices: tuple[int, int, int], single: Fraction | None, longer: Fraction
) -> list[float]:
    """Probability of each of the six partitions WAYS of four cells, computed independently of the kernel.

    prices: of a bucket of one, two and four cells. single, longer: scales of the noise on the costs of single cells and
    of longer buckets; None for no noise.
    """
    one, many = _Noise(single), _Noise(longer)
    p1, p2, p4 = prices
    d01, d12, d23, d = (deviation(counts[a:b]) for a, b in ((0, 2), (1, 3), (2, 4), (0, 4)))
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
    """Privacy loss: max over outcomes y of |log P(y) - log P'(y)|."""
    return max(abs(log(mine / its)) for mine, its in zip(one, other, strict=True))


def _two_ways(
    singles: NDArray[np.int64], bucket: NDArray[np.int64], one: _Noise, many: _Noise
) -> tuple[Chances, Chances]:
    """P(the least cost of two cells is each value), reached by two single cells, or by one bucket.

    singles, bucket: the noise that brings either to that cost. Single cells win ties.
    """
    return one.at(singles) * many.from_on(bucket), many.at(bucket) * one.from_on(singles + 1)


def _or_more(chances: Chances) -> Chances:
    """Survival function P(>= each value), summed from the far end so that small probabilities keep their digits."""
    return np.asarray(np.cumsum(chances[::-1])[::-1])


def _more(chances: Chances) -> Chances:
    """Survival function P(> each value)."""
    return np.append(_or_more(chances)[1:], 0.0)
