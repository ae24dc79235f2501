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
SIZES = np.exp(np.arange(-2.0, 7.0))  # of deviations, in standard deviations of the noise
SPIKE = 4.0  # standard deviations from what the others say; one in 16,000 is that far off by chance
TOGETHER = 0.7  # of the farthest one, at which a value is taken for a spike in the same round
MOST_SPIKES = 8  # rounds of finding them
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
    values = len(noisy)
    if not 3 <= values <= MOST_SMOOTHED:
        return onto_total(noisy, total)
    off = noisy - total / values
    spikes = np.zeros(values)
    for _ in range(MOST_SPIKES):
        prior, inverse = _likeliest(off, variance, spikes, kernels(values, ordered))
        told, own = inverse @ off, np.diag(inverse)
        odd = np.abs(told) / np.sqrt(own)  # how far a value is from what the others say, in its own deviations
        found = (odd > SPIKE) & (odd >= TOGETHER * odd.max()) & (spikes == 0)
        if not ordered or not found.any():
            break
        spikes[found] = ((told / own) ** 2)[found]
    return onto_total(total / values + prior @ told, total)


def _likeliest(off: Floats, variance: float, spikes: Floats, shapes: list[Floats]) -> tuple[Floats, Floats]:
    """The covariance of deviations that is likeliest, and the inverse of the covariance of what was measured.

    A shape is decomposed once for all sizes, in units of what every value has by itself: its noise, and its spike.
    """
    best, found = -np.inf, None
    alone = np.sqrt(variance + spikes)
    logs = 2.0 * float(np.log(alone).sum())
    for shape in shapes:
        lengths, directions = np.linalg.eigh(variance * shape / np.outer(alone, alone))
        along = directions.T @ (off / alone)
        for size in SIZES**2:
            spread = 1.0 + size * np.maximum(lengths, 0.0)
            likelihood = -0.5 * (float((np.log(spread) + along**2 / spread).sum()) + logs)
            if found is None or likelihood > best:
                best, found = likelihood, (size * variance * shape, spread, directions)
    assert found is not None  # noqa: S101 (there is always a shape)
    prior, spread, directions = found
    inverse = (directions / spread) @ directions.T / np.outer(alone, alone)
    return prior + np.diag(spikes), np.asarray(inverse, dtype=np.float64)


def onto_total(numbers: Floats, total: float) -> Floats:
    """The nearest numbers that are not negative and have this sum.

    >>> onto_total(np.array([5.0, -2.0, 1.0]), 4.0).tolist()
    [4.0, 0.0, 0.0]
    """
    falling = np.sort(numbers)[::-1]
    shifts = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    shift = shifts[np.flatnonzero(falling > shifts)[-1]] if total > 0 else np.inf
    return np.asarray(np.maximum(numbers - shift, 0.0), dtype=np.float64)
