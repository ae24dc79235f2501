"""Buckets of cells that look alike, found in noisy cells: post-processing, which costs nothing.

`grow_buckets` is Algorithm 2 of ISPE (Xiao, Xiong, Yuan, TR-2011-005): neighbours join while their smoothed counts
differ by less than a threshold, in size: the paper's test lacks the absolute value. `split_by_tree` is the kd-tree of
DPCube (Xiao, Xiong, Yuan, SDM 2010): boxes are cut where that explains most. Corrected: the paper stops at a number
that the user must guess; here a cut, or a part that stands out, must be larger than the known noise can make it.
`halving_order` lines up the cells of any bucket so that it can be halved again and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Floats

Box = tuple[slice, ...]
# In units of what noise alone reaches: a place that stands out so much less may still be the best. By judgement.
UNCERTAIN = 0.7

Cut = tuple[float, int, int]  # how far it stands out, along which axis, before which place


def grow_buckets(smoothed: Floats, axes: Sequence[int], closeness: float) -> Codes:
    """The bucket of every cell, flat: connected cells, neighbours along `axes` less than `closeness` apart.

    >>> grow_buckets(np.array([0.0, 1.0, 9.0, 8.0]), [0], 2.0).tolist()
    [0, 0, 1, 1]
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    cells = np.arange(smoothed.size).reshape(smoothed.shape)
    ends = []
    for axis in axes:
        first, second = _neighbours(cells, axis)
        here, there = _neighbours(smoothed, axis)
        close = np.abs(here - there) < closeness
        ends.append((first[close], second[close]))
    heads = np.concatenate([head for head, _ in ends]) if ends else np.zeros(0, dtype=np.int64)
    tails = np.concatenate([tail for _, tail in ends]) if ends else np.zeros(0, dtype=np.int64)
    links = coo_array((np.ones(len(heads), dtype=np.int8), (heads, tails)), shape=(cells.size, cells.size))
    _, labels = connected_components(links, directed=False)
    return np.asarray(labels, dtype=np.int64)


def split_by_tree(noisy: Floats, variance: float) -> Codes:
    """The bucket of every cell, flat: boxes of a kd-tree that differ by more than noise of this variance explains.

    >>> split_by_tree(np.array([0.0, 1.0, 0.0, 90.0, 91.0, 90.0]), 1.0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    labels = np.empty(noisy.shape, dtype=np.int64)
    # Of parts of m cells there are about size / m that do not overlap, tried along each axis and alone, from both
    # sides: so many chances has the noise to make one stand out.
    chances = 4.0 * noisy.size * (1 + noisy.ndim)
    waiting: list[Box] = [tuple(slice(0, size) for size in noisy.shape)]
    found = 0
    while waiting:
        box = waiting.pop()
        cut = _best_cut(noisy[box], variance, chances)
        if cut is None:
            labels[box] = found
            found += 1
            continue
        _, axis, place = cut
        middle = box[axis].start + place
        ends = slice(middle, box[axis].stop), slice(box[axis].start, middle)
        waiting += [(*box[:axis], end, *box[axis + 1 :]) for end in ends]
    return labels.reshape(-1)


def in_quarters(labels: Codes, places: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Every bucket cut across its longest axis into four parts: the part of each cell, and the bucket of each part.

    places: where each cell lies on each axis. Parts of a bucket differ by one cell at most; buckets of fewer cells have
    fewer parts.

    >>> [part.tolist() for part in in_quarters(np.array([0, 0, 0, 0, 0, 1]), [np.arange(6)])]
    [[0, 0, 1, 2, 3, 4], [0, 0, 0, 0, 1]]
    """
    sizes = np.bincount(labels)
    along = np.stack(places)[np.argmax(_extents(labels, places), axis=0)[labels], np.arange(len(labels))]
    order = np.lexsort((along, labels))
    rank = np.empty_like(labels)
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    found, parts = np.unique(labels * 4 + rank * 4 // sizes[labels], return_inverse=True)
    return parts.astype(np.int64), found // 4


def halving_order(labels: Codes, places: Sequence[Codes]) -> Codes:
    """All cells, bucket after bucket, so that a bucket's stretch, halved again and again, is halved across its axes.

    places: where each cell lies on each axis. At every depth a bucket is cut across the axis along which its parts are
    longest, the same for all its parts.

    >>> halving_order(np.zeros(4, dtype=np.int64), [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]).tolist()
    [0, 1, 2, 3]
    """
    sizes = np.bincount(labels)
    extent = _extents(labels, places).astype(np.float64)
    order = np.argsort(labels, kind="stable")
    stop = np.cumsum(sizes)
    start, stop = np.repeat(stop - sizes, sizes), np.repeat(stop, sizes)  # of the part around each cell, in order
    position = np.arange(len(labels))
    while (stop - start > 1).any():
        longest = extent.argmax(axis=0)
        along = np.choose(longest[labels[order]], [place[order] for place in places])
        order = order[np.lexsort((along, start))]
        middle = start + (stop - start + 1) // 2
        first = position < middle
        start, stop = np.where(first, start, middle), np.where(first, middle, stop)
        extent[longest, np.arange(len(sizes))] /= 2.0
    return order


def _extents(labels: Codes, places: Sequence[Codes]) -> Codes:
    """How far every bucket reaches along each axis, (axes, buckets)."""
    extents = np.empty((len(places), int(labels.max()) + 1), dtype=np.int64)
    for extent, place in zip(extents, places, strict=True):
        low, high = np.full(len(extent), place.max()), np.zeros(len(extent), dtype=np.int64)
        np.minimum.at(low, labels, place)
        np.maximum.at(high, labels, place)
        extent[:] = high - low + 1
    return extents


def _best_cut(values: Floats, variance: float, chances: float) -> Cut | None:
    """Where a box is best cut in two; None if nothing stands out of the noise."""
    if values.size == 1:
        return None
    best: Cut = (0.0, 0, 0)
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            best = max(best, _along(values, axis, variance, chances))
    if values.ndim > 1:
        best = max(best, _single_cell(values, variance, chances))
    return best if best[0] > 1.0 else None


def _along(values: Floats, axis: int, variance: float, chances: float) -> Cut:
    """The best cut along one axis: of the axis in two, or beside a stretch of 1, 2, 4, ... that stands out."""
    slices = values.sum(axis=tuple(other for other in range(values.ndim) if other != axis))
    length, width = len(slices), values.size // len(slices)
    sums = np.concatenate([[0.0], np.cumsum(slices - slices.mean())])
    places = np.arange(1, length)
    stands = _stands_out(sums[1:-1], places * width, values.size, variance, chances)
    # Of places that the noise cannot tell from the best, the roundest: one that the noise picks makes its halves look
    # further apart than they are, in all that is estimated later.
    best: Cut = (float(stands.max()), axis, _roundest(places[stands > stands.max() - UNCERTAIN], length))
    part = 1
    while part < length - 1:
        inside = sums[part:] - sums[:-part]
        stands = _stands_out(inside, part * width, values.size, variance, chances)
        start = int(stands.argmax())
        if stands[start] > best[0]:
            beside = [place for place in (start, start + part) if 0 < place < length]
            best = float(stands[start]), axis, max(beside, key=lambda place: abs(sums[place]))
        part *= 2
    return best


def _roundest(places: NDArray[np.int64], length: int) -> int:
    """The place that is a multiple of the largest power of two; of several, the one closest to the middle.

    >>> _roundest(np.array([3, 4, 5, 12, 13]), 20)
    12
    """
    twos = places & -places
    kept = places[twos == twos.max()]
    return int(kept[np.abs(2 * kept - length).argmin()])


def _single_cell(values: Floats, variance: float, chances: float) -> Cut:
    """A cut beside the cell that stands out most, across the longest axis that it does not fill."""
    apart = values - values.mean()
    cell = np.unravel_index(int(np.abs(apart).argmax()), values.shape)
    stands = float(_stands_out(apart[cell], 1, values.size, variance, chances))
    axis = int(np.argmax(values.shape))
    place = int(cell[axis])
    return stands, axis, place if place > 0 else 1


def _stands_out(
    excess: Floats | float, cells: NDArray[np.int64] | int, size: int, variance: float, chances: float
) -> Floats:
    """How far the excess of some cells over the mean of all exceeds what noise alone reaches; above 1 it does.

    With L the logarithm of the chances, a sum of many noises is nearly normal and has this quantile at sqrt(2 L)
    deviations; a single Laplace noise, whose tail is exponential, at L / sqrt(2) of its own.
    """
    fewer = np.minimum(cells, size - cells)
    deviation = np.sqrt(variance * cells * (size - cells) / size)
    rarity = np.log(chances / fewer)
    quantile = np.maximum(np.sqrt(2.0 * rarity), rarity / np.sqrt(2.0 * fewer))
    # Without noise every difference counts, however small.
    return np.asarray(np.abs(excess) / np.maximum(deviation * quantile, 1e-6), dtype=np.float64)


def _neighbours(values: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairs of neighbours along an axis, flat."""
    size = values.shape[axis]
    first = np.take(values, np.arange(size - 1), axis=axis)
    second = np.take(values, np.arange(1, size), axis=axis)
    return first.reshape(-1), second.reshape(-1)
