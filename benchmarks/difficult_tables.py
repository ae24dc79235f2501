"""Random tables with what is difficult in real ones: few rows, rows on lines, heaps, bursts, smooth parts with spikes.

Made for choosing between ways to descend a tree and to fit it; none is anybody's data.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

LINE, SIDE = 4096, 128
Stream = np.random.Generator


def drawn(stream: Stream, weights: np.ndarray, rows: float) -> np.ndarray:
    """So many rows, each in a cell by these weights."""
    chances = weights.reshape(-1) / weights.sum()
    return stream.multinomial(int(rows), chances).reshape(weights.shape)


def hills(stream: Stream, cells: int, count: int) -> np.ndarray:
    x = np.arange(cells) / cells
    found = np.zeros(cells)
    for _ in range(count):
        high, place, wide = stream.uniform(0.2, 1), stream.uniform(), stream.uniform(0.02, 0.2)
        found += high * np.exp(-0.5 * ((x - place) / wide) ** 2)
    return found


def decay(stream: Stream) -> np.ndarray:
    """9,000 rows: a falling curve, rough, with some spikes."""
    weights = np.exp(-np.arange(LINE) / LINE * stream.uniform(3, 15)) + 0.01 * stream.random()
    weights *= stream.lognormal(0, stream.uniform(0, 1.5), LINE)
    count = stream.integers(3, 30)
    weights[stream.integers(0, LINE, count)] += weights.sum() / count * stream.uniform(0, 0.5)
    return drawn(stream, weights, 9000)


def thin_hills(stream: Stream) -> np.ndarray:
    return drawn(stream, hills(stream, LINE, 5) + 1e-6, 9000 * stream.uniform(0.5, 2))


def heavy(stream: Stream) -> np.ndarray:
    full = stream.random(LINE) < stream.uniform(0.005, 0.05)
    weights = np.where(full, 1 / (1 - stream.random(LINE)), 0)
    return drawn(stream, np.minimum(weights, 0.3 * weights.max()) + 1e-12, 20_000)


def clustered(stream: Stream) -> np.ndarray:
    """Few cells, near each other, and most rows in a few of them."""
    weights = np.zeros(LINE)
    for _ in range(stream.integers(2, 6)):
        middle, wide, count = stream.integers(0, LINE), stream.integers(10, 200), stream.integers(5, 40)
        places = np.clip(np.rint(middle + wide * stream.standard_normal(count)), 0, LINE - 1).astype(int)
        np.add.at(weights, places, stream.lognormal(0, 1.5, count) * stream.lognormal(0, 1))
    return drawn(stream, weights, stream.choice([3000, 10_000, 20_000]))


def bursts(stream: Stream) -> np.ndarray:
    """Rough plateaus and bursts."""
    cuts = np.sort(stream.integers(0, LINE, stream.integers(10, 60)))
    levels = 10 ** stream.uniform(-1.5, 1.5, len(cuts) + 1)
    weights = levels[np.searchsorted(cuts, np.arange(LINE), side="right")]
    weights *= stream.lognormal(0, stream.uniform(0.1, 0.8), LINE)
    weights[stream.integers(0, LINE, 40)] += weights.mean() * stream.pareto(1.0, 40) * 5
    return drawn(stream, weights, 300_000)


def heaped(stream: Stream) -> np.ndarray:
    """A falling curve, heaped on round numbers."""
    x = np.arange(LINE)
    weights = np.exp(-x / LINE * stream.uniform(5, 20))
    for unit, most in ((5, 3), (10, 5), (50, 10), (100, 20)):
        weights[x % unit == 0] *= stream.uniform(1, most)
    weights *= stream.random(LINE) < stream.uniform(0.3, 1)
    return drawn(stream, weights, 10 ** stream.uniform(4.5, 7))


def dense(stream: Stream) -> np.ndarray:
    rough = stream.lognormal(0, stream.uniform(0.05, 0.5), LINE)
    return drawn(stream, (hills(stream, LINE, 8) + 0.05) * rough, 2e7)


def mixed(stream: Stream) -> np.ndarray:
    """Hills and spikes."""
    smooth, spikes, count = hills(stream, LINE, 4) + 1e-4, np.zeros(LINE), stream.integers(5, 60)
    np.add.at(spikes, stream.integers(0, LINE, count), stream.pareto(1.2, count) + 0.1)
    weights = smooth / smooth.sum() + spikes / spikes.sum() * stream.uniform(0.3, 2)
    return drawn(stream, weights, 10 ** stream.uniform(4, 6))


def scattered(stream: Stream) -> np.ndarray:
    weights = stream.pareto(1.5, LINE) * (stream.random(LINE) < 0.3)
    return drawn(stream, weights + 1e-9, 10 ** stream.uniform(3.7, 5))


def cross(stream: Stream) -> np.ndarray:
    """Two lines along the sides, with few values, and a heap where they meet."""
    weights = np.zeros((SIDE, SIDE))
    row, column = stream.choice([0, 0, 1, 5, 40], 2)
    for line in (weights[row], weights[:, column]):
        count = stream.integers(5, 60)
        places = np.minimum((SIDE * stream.beta(0.7, stream.uniform(1, 3), count)).astype(int), SIDE - 1)
        np.add.at(line, places, stream.lognormal(0, 1.5, count) * stream.uniform(0.1, 1))
    if stream.random() < 0.7:
        weights[row, column] += weights.sum() * stream.uniform(1, 10)
    return drawn(stream, weights, 30_000)


def crossed_smooth(stream: Stream) -> np.ndarray:
    weights = np.zeros((SIDE, SIDE))
    for _ in range(stream.integers(1, 4)):
        across = weights if stream.random() < 0.5 else weights.T
        across[stream.integers(SIDE)] += hills(stream, SIDE, 3)
    return drawn(stream, weights, 20_000)


def diagonal(stream: Stream) -> np.ndarray:
    weights, x = np.zeros((SIDE, SIDE)), np.arange(SIDE)
    y = np.clip(x * stream.uniform(0.3, 1) + stream.integers(0, 30), 0, SIDE - 1).astype(int)
    weights[x, y] = stream.lognormal(0, 1, SIDE)
    return drawn(stream, weights, 20_000)


def places(stream: Stream) -> np.ndarray:
    """A map: towns of very different sizes."""
    count = stream.integers(5, 40)
    middles, weights = stream.beta(2, 2, (count, 2)), stream.pareto(1.0, count) + 0.1
    wide, rows = 10 ** stream.uniform(-2.5, -0.7, count), int(10 ** stream.uniform(4, 6.5))
    town = stream.choice(count, rows, p=weights / weights.sum())
    points = middles[town] + wide[town, None] * stream.standard_normal((rows, 2))
    return np.histogram2d(*points.T, bins=SIDE, range=[[0, 1], [0, 1]])[0].astype(np.int64)


def grid_smooth(stream: Stream) -> np.ndarray:
    one, other = (np.outer(hills(stream, SIDE, count), hills(stream, SIDE, count)) for count in (3, 2))
    return drawn(stream, one + 0.3 * other + 1e-5, 10 ** stream.uniform(4.2, 6))


def products(stream: Stream) -> np.ndarray:
    """Rough margins that have next to nothing to do with each other."""
    weights = np.outer(stream.lognormal(0, 1, SIDE), stream.lognormal(0, 1, SIDE))
    return drawn(stream, weights * stream.lognormal(0, 0.7, (SIDE, SIDE)), 10 ** stream.uniform(4.3, 6.3))


KINDS: tuple[Callable[[Stream], np.ndarray], ...] = (
    *(decay, thin_hills, heavy, clustered, bursts, heaped, dense, mixed, scattered),
    *(cross, crossed_smooth, diagonal, places, grid_smooth, products),
)
