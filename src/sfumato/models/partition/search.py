"""Partition noisy cells into buckets of similar counts: connected regions and kd-tree boxes (post-processing).

- `grow_buckets`: region growing, Algorithm 2 of ISPE (Xiao, Xiong, Yuan, TR-2011-005): neighbours join while their
  smoothed counts differ by less than a threshold in absolute value, which the paper's test lacks.
- `split_by_tree`: kd-tree of DPCube (Xiao, Xiong, Yuan, SDM 2010). The paper stops at a threshold that the user must
  guess; here a cut is made if its excess over the box mean exceeds the quantile of the known noise, corrected for the
  number of cuts tried.
- `in_quarters`, `halving_order`: subdivide buckets, in order to measure or shrink their contrasts.

Two-stage release of kdtree and ispe: noisy cells, regions found in them, noisy region totals, shrinkage of both.

One-way marginals are counted first where that pays. Then cells with a share of the budget, a partition of the noisy
cells (post-processing), and totals of its regions. Estimator: the region total is the precision-weighted mean of its
own count and the sum of its cells; within a region, bisected down to cells, each Haar contrast is shrunk by its
posterior mean (models/partition/buckets.py, shrinkage.py). The error of the result is measured last.

Structural zeros are a bucket of their own, known to be empty. They are in no region's sum, mean or size, their noise
tells nothing of where to cut or what to join, and no estimate uses it.

DPCube: noisy cells, a kd-tree of homogeneous boxes found in them, noisy counts of the boxes.

Xiao, Xiong, Yuan, "Differentially private data release through multidimensional partitioning", SDM 2010. Corrected: a
box is cut where the cut is significant given the known noise, not by a threshold that the user must guess; both
measurements enter the estimate by their precisions; and intervals include the deviation within boxes, of which the size
is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain, Partition
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism, per_cell
from sfumato.models.calibration.first_stage import Shares, blocks_of_all
from sfumato.models.calibration.fit import MeasuredShrinkage
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.buckets import Halvings, buckets_with_rows, kept_and_deviation
from sfumato.models.partition.coarse_contrasts import CoarseFit
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

Box = tuple[slice, ...]
# In units of what noise alone reaches: a place that stands out so much less may still be the best. By judgement.
UNCERTAIN = 0.7

Cut = tuple[float, int, int]  # how far it stands out, along which axis, before which place


def grow_buckets(smoothed: Floats, axes: Sequence[int], closeness: float, possible: Flags | None = None) -> Codes:
    """Connected components of cells whose neighbours along `axes` differ by less than `closeness`.

    smoothed: counts in the shape of the domain. possible: flags of the cells that are no structural zeros, in this
    shape; the others are joined to none. Returns the bucket of every cell, (cells,).

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
        if possible is not None:
            close &= np.logical_and(*_neighbours(possible, axis))
        ends.append((first[close], second[close]))
    heads = np.concatenate([head for head, _ in ends]) if ends else np.zeros(0, dtype=np.int64)
    tails = np.concatenate([tail for _, tail in ends]) if ends else np.zeros(0, dtype=np.int64)
    links = coo_array((np.ones(len(heads), dtype=np.int8), (heads, tails)), shape=(cells.size, cells.size))
    _, labels = connected_components(links, directed=False)
    return np.asarray(labels, dtype=np.int64)


def split_by_tree(noisy: Floats, variance: float, possible: Flags | None = None) -> Codes:
    """Cut the domain into kd-tree boxes where noisy counts differ significantly, given the noise variance.

    noisy: counts in the shape of the domain. possible: flags of the cells that are no structural zeros, in this shape:
    a box is judged by these alone. Returns the box of every cell, (cells,).

    >>> split_by_tree(np.array([0.0, 1.0, 0.0, 90.0, 91.0, 90.0]), 1.0).tolist()
    [0, 0, 0, 1, 1, 1]
    """
    there = np.ones(noisy.shape, dtype=np.bool_) if possible is None else possible
    noisy, labels = noisy * there, np.empty(noisy.shape, dtype=np.int64)
    # Of parts of m cells there are about size / m that do not overlap, tried along each axis and alone, from both
    # sides: so many chances has the noise to make one stand out.
    chances = 4.0 * int(there.sum()) * (1 + noisy.ndim)
    waiting: list[Box] = [tuple(slice(0, size) for size in noisy.shape)]
    buckets = 0
    while waiting:
        box = waiting.pop()
        cut = _best_cut(noisy[box], there[box], variance, chances)
        if cut is None:
            labels[box] = buckets
            buckets += 1
            continue
        _, axis, offset = cut
        middle = box[axis].start + offset
        ends = slice(middle, box[axis].stop), slice(box[axis].start, middle)
        waiting += [(*box[:axis], end, *box[axis + 1 :]) for end in ends]
    return labels.reshape(-1)


def in_quarters(labels: Codes, places: Sequence[Codes]) -> tuple[Codes, Codes]:
    """Cut every bucket into four parts of nearly equal size along its longest axis.

    places: code of each cell on each axis, (cells,) each. Parts of a bucket differ by at most one cell; small buckets
    have fewer parts. Returns the part of each cell, (cells,), and the bucket of each part, (parts,).

    >>> [part.tolist() for part in in_quarters(np.array([0, 0, 0, 0, 0, 1]), [np.arange(6)])]
    [[0, 0, 1, 2, 3, 4], [0, 0, 0, 0, 1]]
    """
    sizes = np.bincount(labels)
    along = np.stack(places)[np.argmax(_extents(labels, places), axis=0)[labels], np.arange(len(labels))]
    order = np.lexsort((along, labels))
    rank = np.empty_like(labels)
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    keys, parts = np.unique(labels * 4 + rank * 4 // sizes[labels], return_inverse=True)
    return parts.astype(np.int64), keys // 4


def halving_order(labels: Codes, places: Sequence[Codes]) -> Codes:
    """Order cells by bucket such that bisecting a bucket's run of cells bisects the bucket across its longest axis.

    places: code of each cell on each axis, (cells,) each. At every depth all parts of a bucket are cut across the same
    axis, the one along which they are longest. Returns a permutation, (cells,).

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
    """Extent of every bucket along each axis, in cells, (axes, buckets)."""
    extents = np.empty((len(places), int(labels.max()) + 1), dtype=np.int64)
    for extent, codes in zip(extents, places, strict=True):
        low, high = np.full(len(extent), codes.max()), np.zeros(len(extent), dtype=np.int64)
        np.minimum.at(low, labels, codes)
        np.maximum.at(high, labels, codes)
        extent[:] = high - low + 1
    return extents


def _best_cut(values: Floats, there: Flags, variance: float, chances: float) -> Cut | None:
    """Most significant binary cut of a box; None if no cut is significant.

    values: noisy counts of the box, 0 in structural zeros. there: flags of its other cells. chances: number of tests
    that the significance level is corrected for.
    """
    if there.sum() <= 1:
        return None
    best: Cut = (0.0, 0, 0)
    for axis in range(values.ndim):
        if values.shape[axis] > 1:
            best = max(best, _along(values, there, axis, variance, chances))
    if values.ndim > 1:
        best = max(best, _single_cell(values, there, variance, chances))
    return best if best[0] > 1.0 else None


def _along(values: Floats, there: Flags, axis: int, variance: float, chances: float) -> Cut:
    """Most significant cut along one axis: a change of level, or the edge of an outlying run of 1, 2, 4, ... cells."""
    others = tuple(other for other in range(values.ndim) if other != axis)
    slices, cells = values.sum(axis=others), there.sum(axis=others)
    length, size = len(slices), int(cells.sum())
    sums = np.concatenate([[0.0], np.cumsum(slices - slices.mean() * (cells * length / size))])
    before = np.append(0, np.cumsum(cells))
    places = np.arange(1, length)
    stands = _stands_out(sums[1:-1], before[1:-1], size, variance, chances)
    # Of places that the noise cannot tell from the best, the roundest: one that the noise picks makes its halves look
    # further apart than they are, in all that is estimated later.
    best: Cut = (float(stands.max()), axis, _roundest(places[stands > stands.max() - UNCERTAIN], length))
    segment = 1
    while segment < length - 1:
        inside = sums[segment:] - sums[:-segment]
        stands = _stands_out(inside, before[segment:] - before[:-segment], size, variance, chances)
        start = int(stands.argmax())
        if stands[start] > best[0]:
            beside = [place for place in (start, start + segment) if 0 < place < length]
            best = float(stands[start]), axis, max(beside, key=lambda place: abs(sums[place]))
        segment *= 2
    return best


def _roundest(places: NDArray[np.int64], length: int) -> int:
    """Position divisible by the largest power of two; of several, the one nearest the middle.

    >>> _roundest(np.array([3, 4, 5, 12, 13]), 20)
    12
    """
    twos = places & -places
    kept = places[twos == twos.max()]
    return int(kept[np.abs(2 * kept - length).argmin()])


def _single_cell(values: Floats, there: Flags, variance: float, chances: float) -> Cut:
    """Cut beside the most outlying cell, across the box's longest axis."""
    size = int(there.sum())
    apart = (values - values.mean() * (values.size / size)) * there
    cell = np.unravel_index(int(np.abs(apart).argmax()), values.shape)
    stands = float(_stands_out(apart[cell], 1, size, variance, chances))
    axis = int(np.argmax(values.shape))
    place = int(cell[axis])
    return stands, axis, place if place > 0 else 1


def _stands_out(
    excess: Floats | float, cells: NDArray[np.int64] | int, size: int, variance: float, chances: float
) -> Floats:
    """Test statistic of an excess over the box mean, relative to its critical value; above 1 it is significant.

    excess: sum of some cells less their share of the box total. With L the log of the number of tests per part, the
    critical value is sqrt(2 L) standard deviations for a sum of many noises (normal), and L / sqrt(2) of its own
    standard deviation for a single Laplace noise. No cells, or all, do not stand out.
    """
    none = np.minimum(cells, size - cells) == 0
    fewer = np.minimum(cells, size - cells) + none
    deviation = np.sqrt(variance * cells * (size - cells) / size)
    rarity = np.log(chances / fewer)
    quantile = np.maximum(np.sqrt(2.0 * rarity), rarity / np.sqrt(2.0 * fewer))
    # Without noise every difference counts, however small.
    stands = np.abs(excess) / np.maximum(deviation * quantile, 1e-6)
    return np.asarray(np.where(none, 0.0, stands), dtype=np.float64)


def _neighbours(values: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """All pairs of neighbours along an axis, flattened."""
    size = values.shape[axis]
    first = np.take(values, np.arange(size - 1), axis=axis)
    second = np.take(values, np.arange(1, size), axis=axis)
    return first.reshape(-1), second.reshape(-1)


# -- two stage

# Noisy cells in the shape of the domain, the variance of their noise, and flags of those that are no structural zeros.
Regions = Callable[[Floats, float, Flags | None], Codes]

MOST_CELLS = 2**22  # cells that are laid out, smoothed and cut


def release_regions(
    curator: Curator, schema: Schema, budget: Budget, first: Fraction, find: Regions, workload: Workload | None = None
) -> Cube:
    """Measure cells, partition them by `find`, measure the totals of the regions, and fit both.

    first: share of the budget for the cells. budget: split by weight over the count and the measures; sums of a measure
    are measured by region.
    """
    from sfumato.models.sums.measure import sums_by_region  # not loaded to choose a mechanism

    if not 0 < first < 1:
        raise QueryError(f"the cells' share of the budget lies between 0 and 1, such as 3/4; got {first}")
    for_count, *for_measures = budget.split(*schema.weights.values())
    shares = Shares.beside_cells(schema.domain, for_count)
    for_cells, for_regions = shares.most.split(first, 1 - first)

    possible, shape = schema.possible, schema.domain.shape
    counted = shares.measure(curator, possible)
    cells = curator.measure(Identity(schema.domain.size), for_cells)
    laid_out = None if possible is None else possible.reshape(shape)
    labels = find(cells.answers.astype(np.float64).reshape(shape), cells.noise.variance, laid_out)
    labels = labels if possible is None else set_apart(labels, possible)
    regions = curator.reduce(Partition(schema.domain, labels))
    totals = LinearFit.of_answers(regions.measure(Identity(int(labels.max()) + 1), for_regions))

    fit = both_used(schema.domain, labels, cells, totals, possible)
    blocks = blocks_of_all(schema.domain, possible)
    brought = counted.bring_all(fit if blocks is None else CoarseFit.of_residuals(fit, blocks))
    scales, misfits = measure_errors(curator, brought, shares.errors, for_count, shares.known, possible=possible)
    count = MeasuredShrinkage.of_brought(brought, schema.domain, scales, misfits, possible)
    return Cube(schema, fits=(count, *sums_by_region(curator, schema, for_measures, count, workload)))


def set_apart(labels: Codes, possible: Flags) -> Codes:
    """Regions of possible cells, numbered without gaps, and one of structural zeros, the last, (cells,).

    >>> set_apart(np.array([0, 0, 1, 2]), np.array([True, False, False, True])).tolist()
    [0, 2, 2, 1]
    """
    regions, labels_of_possible = np.unique(labels[possible], return_inverse=True)
    result = np.full(len(labels), len(regions), dtype=np.int64)
    result[possible] = labels_of_possible
    return result


def both_used(
    domain: Domain, labels: Codes, cells: Measurement, totals: LinearFit, possible: Flags | None = None
) -> ShrinkageFit:
    """Shrinkage estimate from noisy cells and noisy region totals; shrinkage factors and deviations from the cells.

    labels: region of each cell, (cells,). possible: flags of the cells that are no structural zeros, (cells,).
    """
    noise, of_totals = cells.noise.variance, totals.measurement.noise.variance
    sizes = np.bincount(labels)
    order = halving_order(labels, places_along(domain))
    noisy = cells.answers.astype(np.float64)[order]
    keep, spread = kept_and_deviation(Halvings.of(sizes, buckets_with_rows(labels, possible)), noisy, noise)
    lean: Floats = of_totals / (of_totals + sizes.astype(np.float64) * noise) if noise > 0 else np.zeros(len(sizes))
    return ShrinkageFit(labels, order, totals, cells, lean, keep, spread, together=False, possible=possible)


def ordered_axes(domain: Domain) -> list[int]:
    """Indices of the ordered axes, along which cells have neighbours; all axes where none is ordered."""
    ordered = [index for index, axis in enumerate(domain) if axis.ordered]
    return ordered or list(range(len(domain.shape)))


def places_along(domain: Domain) -> Sequence[Codes]:
    """Code of each cell on every axis, (cells,) each."""
    cells = np.arange(domain.size, dtype=np.int64)
    return [domain.codes_along(axis.name, cells) for axis in domain]


# -- kdtree


@dataclass(frozen=True)
class Boxes:
    """Settings chosen by judgement.

    first: share of the budget for the cells; the boxes get the rest. More finds boxes better and measures them worse.
    """

    first: Fraction = Fraction(3, 4)


BOXES = Boxes()


def kdtree(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Boxes = BOXES
) -> Cube:
    """Measure cells, cut the domain into homogeneous boxes, measure the boxes, and estimate from both."""
    return release_regions(curator, schema, budget, settings.first, split_by_tree, workload)


KDTREE = Mechanism(
    name="kdtree",
    summary="cuts the noisy cube into even boxes",
    paper="Xiao, Xiong, Yuan 2010",
    run=kdtree,
    holds=Holds(most_cells=MOST_CELLS, zeros=True),
    forecast=Forecast(work=per_cell(2048)),
)
