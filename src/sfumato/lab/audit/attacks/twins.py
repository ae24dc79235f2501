"""Slow twins of what the curator's verbs compute, in Python's own integers and straight from their definitions.

The kernel's versions are fast and work modulo 2^64; an audit compares them with these, which share no line with them.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from math import ceil, floor, prod

from sfumato.domain import Domain
from sfumato.queries import Queries

UNIT = 256  # prices are rounded down to such parts


def misfits(queries: Queries, targets: Sequence[int], counts: Sequence[int]) -> list[int]:
    """|A[j] x - targets[j]| for every row."""
    return [
        abs(sum(weight * count for weight, count in zip(row, counts, strict=True)) - target)
        for row, target in zip(queries.dense().tolist(), targets, strict=True)
    ]


def margin(domain: Domain, names: Sequence[str], counts: Sequence[int]) -> list[int]:
    """The rows in every cell that some attributes span, from those of all cells."""
    sizes = [axis.size if axis.name in names else 1 for axis in domain]
    found = [0] * prod(sizes)
    for codes, count in zip(product(*(range(axis.size) for axis in domain)), counts, strict=True):
        place = 0
        for code, size in zip(codes, sizes, strict=True):
            place = place * size + code % size
        found[place] += count
    return found


def margin_misfit(
    domain: Domain,
    names: Sequence[str],
    guess: Sequence[int],
    counts: Sequence[int],
    parts: Sequence[int] | None = None,
) -> int:
    """The sum of |count - guess| over the cells of a margin, or over parts that its cells are put in."""
    held = margin(domain, names, counts)
    if parts is not None:
        held = [sum(c for c, place in zip(held, parts, strict=True) if place == part) for part in range(len(guess))]
    return sum(abs(count - one) for count, one in zip(held, guess, strict=True))


def sums_by_group(values: Sequence[int], labels: Sequence[int]) -> list[int]:
    """The sum of the values of each group."""
    return [sum(v for v, label in zip(values, labels, strict=True) if label == g) for g in range(max(labels) + 1)]


def first_above(values: Sequence[int], threshold: int) -> int | None:
    """The place of the first value above a threshold, both with their noise."""
    return next((place for place, value in enumerate(values) if value > threshold), None)


def deviation(counts: Sequence[int]) -> int:
    """The sum of |count - median|: no other whole number is closer to all counts together."""
    return min(sum(abs(count - middle) for count in counts) for middle in counts)


def bucket_lengths(cells: int, longest: int | None) -> list[int]:
    """Powers of two up to the number of cells or the longest bucket."""
    return [2**power for power in range(cells.bit_length()) if 2**power <= min(cells, longest or cells)]


def buckets(cells: int, longest: int | None = None) -> list[tuple[int, int]]:
    """All buckets of a line, as start and length: by length, then by start. Long ones start at quarters of a length."""
    every = [(start, length) for length in bucket_lengths(cells, longest) for start in range(cells - length + 1)]
    return [(start, length) for start, length in every if 4 * start % length == 0 or length < 4]


def partitions(cells: int, longest: int | None = None) -> list[tuple[int, ...]]:
    """All ways to cut a line into buckets, as their lengths from the end; of equally cheap ones the first wins."""
    if cells == 0:
        return [()]
    usable = [length for start, length in buckets(cells, longest) if start + length == cells]
    return sorted((length, *rest) for length in usable for rest in partitions(cells - length, longest))


def cheapest_labels(
    counts: Sequence[int], prices: Sequence[Fraction], noise: Sequence[int], longest: int | None = None
) -> list[int]:
    """The bucket of every place in the cheapest partition; prices by length, draws in the order of `buckets`.

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
    """The rows of every piece, dealt out one row after the other."""
    digits = pieces.bit_length() - 1
    found = [0] * (len(counts) * pieces)
    for cell, count in enumerate(counts):
        for row in range(count):
            turn = row % pieces
            found[cell * pieces + sum((turn >> k & 1) << (digits - 1 - k) for k in range(digits))] += 1
    return found


def rank_scores(counts: Sequence[int], quantile: Fraction, rate: Fraction) -> list[int]:
    """How far each place is from holding a quantile of the rows, in whole numbers below 0, cut off at 64 / rate."""
    a, b = quantile.as_integer_ratio()
    total, before, found = a * sum(counts), 0, []
    for count in counts:
        found.append(-max(0, total - b * (before + count), b * before - total))
        before += count
    return [max(score, -ceil(64 / rate)) for score in found] if rate else found
