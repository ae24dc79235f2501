"""One-way margins from noisy counts: smooth along an order, where the counts say so, with spikes left alone.

A margin is taken to deviate from an even one as a random curve does, whose roughness and size are the likeliest of a
few; a value that lies far outside what its neighbours say is a spike, such as 40 hours a week, and keeps its count.
Without an order all values deviate independently.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats

LENGTHS = (1, 3, 9, 27, 81)  # steps along an order over which neighbours resemble each other: all scales alike
ROUGH = 0.01  # of a smooth curve's variance that every value has by itself
SIZES = np.exp(np.arange(-2.0, 7.0, 0.5))  # of deviations, in standard deviations of the noise
SPIKE = 4.0  # standard deviations from what the others say; one in 16,000 is that far off by chance
TOGETHER = 0.7  # of the farthest one, at which a value is taken for a spike in the same round
SPIKE_OF_MANY = 8.0  # the same from the middle one of many values, of which every half is told apart otherwise
BLOCK = 64  # values of a margin of many that are brought to their sum at once
MOST_SMOOTHED = 600  # values; the time that it takes grows with their cube


def kernels(values: int, ordered: bool) -> list[Floats]:
    """How values resemble each other, from rough to smooth, and not at all."""
    alone = np.eye(values)
    if not ordered or values < 3:
        return [alone]
    gaps = np.abs(np.subtract.outer(np.arange(values), np.arange(values)))
    return [np.exp(-gaps / length) + ROUGH * alone for length in LENGTHS if length < values] + [alone]


def one_way_margin(noisy: Floats, variance: float, total: float, ordered: bool) -> Floats:
    """A margin that is not negative and has this total, with the noise taken out of it."""
    return one_way_errors(noisy, variance, total, ordered)[0]


def one_way_errors(noisy: Floats, variance: float, total: float, ordered: bool) -> tuple[Floats, Floats]:
    """The same, and the variance of the error that is left in every value, if the margin is what it is taken for."""
    values, left = len(noisy), np.full(len(noisy), variance)
    if values > MOST_SMOOTHED:
        return by_halves(noisy.astype(np.float64), total, SPIKE_OF_MANY * float(np.sqrt(variance))), left
    if values < 3:
        return onto_total(noisy, total), left
    shapes, estimate = kernels(values, ordered), noisy.astype(np.float64)
    rest = np.ones(values, dtype=bool)  # what is no spike
    for _ in range(values if ordered else 1):
        off = noisy[rest] - noisy[rest].mean()
        pull, precision = _likeliest(off, variance, [shape[np.ix_(rest, rest)] for shape in shapes])
        estimate[rest] = noisy[rest] - variance * pull
        left[rest] = np.maximum(variance - variance**2 * precision, 0.0)
        odd = np.abs(pull) / np.sqrt(precision)  # how far a value is from what the others say, in its own deviations
        found = (odd > SPIKE) & (odd >= TOGETHER * odd.max())
        if not found.any() or int(rest.sum() - found.sum()) < 3:
            break
        spikes = np.flatnonzero(rest)[found]
        estimate[spikes], left[spikes] = noisy[spikes], variance
        rest[spikes] = False
    return onto_total(estimate, total), left


def _likeliest(off: Floats, variance: float, shapes: list[Floats]) -> tuple[Floats, Floats]:
    """By the likeliest shape and size: the inverse covariance of what was measured, times it; and its diagonal."""
    best, found = -np.inf, None
    for shape in shapes:
        lengths, directions = np.linalg.eigh(shape)
        along = directions.T @ off
        spreads = variance * (SIZES[:, None] ** 2 * np.maximum(lengths, 0.0) + 1.0)
        likelihoods = -0.5 * (np.log(spreads) + along**2 / spreads).sum(axis=1)
        size = int(likelihoods.argmax())
        if found is None or likelihoods[size] > best:
            best = float(likelihoods[size])
            found = directions @ (along / spreads[size]), directions**2 @ (1.0 / spreads[size])
    assert found is not None  # noqa: S101 (there is always a shape)
    return found


def onto_total(numbers: Floats, total: float) -> Floats:
    """The nearest numbers that are not negative and have this sum.

    >>> onto_total(np.array([5.0, -2.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(numbers)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]] if total > 0 else np.inf
    return np.asarray(np.maximum(numbers - shift, 0.0), dtype=np.float64)


def level_of(margin: Floats) -> Floats:
    """How a change of the total goes along a margin that was brought to it: evenly, over the values that hold rows.

    >>> level_of(np.array([5.0, 0.0, 1.0])).tolist()
    [0.5, 0.0, 0.5]
    """
    held = margin > 0.0 if (margin > 0.0).any() else np.ones(len(margin), dtype=bool)
    return np.asarray(held / held.sum(), dtype=np.float64)


def by_halves(numbers: Floats, total: float, spike: float) -> Floats:
    """Numbers that are not negative and have this sum, brought to it half by half, down to blocks.

    Nearest to many thin counts as a whole is what takes the same from all of them and cuts off at nothing: dense
    stretches lose rows to thin ones, and every range is off to one side. Halves are told apart by sums of many counts,
    of which next to none is negative. spike: how far a value stands out which halves would level; it keeps its count.

    >>> by_halves(np.array([3.0, 90.0, -1.0, 1.0]), 95.0, 40.0).tolist()
    [3.5, 90.0, 0.0, 1.5]
    """
    found = np.maximum(numbers, 0.0)
    rest = numbers - np.median(numbers) <= spike
    if found[~rest].sum() >= total:
        return onto_total(numbers, total)
    places = np.flatnonzero(rest)
    sums = np.append(0.0, np.cumsum(numbers[places]))
    waiting = [(0, len(places), total - float(found[~rest].sum()))]
    while waiting:
        low, high, rows = waiting.pop()
        if high - low <= BLOCK:
            found[places[low:high]] = onto_total(numbers[places[low:high]], rows)
            continue
        middle = (low + high) // 2
        gap = rows - float(sums[high] - sums[low])
        first = float(sums[middle] - sums[low]) + gap * (middle - low) / (high - low)
        first = min(max(first, 0.0), rows)
        waiting += [(low, middle, first), (middle, high, rows - first)]
    return found
