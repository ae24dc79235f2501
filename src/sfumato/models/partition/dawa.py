"""DAWA: private partition of the cells into buckets of similar counts, and noisy counts of a tree over the buckets.

Li, Hay, Miklau, "A Data- and Workload-Aware Algorithm for Range Queries Under Differential Privacy", VLDB 2014.

    1  order the cells along a Hilbert curve; choose a partition into intervals by noisy deviation + price of a bucket
    2  noisy counts of the buckets, and of 16, 256, ... consecutive buckets together
    3  posterior mean of the bucket totals (models/tree), spread evenly over the cells
    4  noisy deviations of quarters of buckets, for the model error; then the error of the result, measured

Structural zeros come last in the order and are a bucket of their own, which is known to be empty and is not measured.

Corrected: noisy deviations are never truncated at zero, which the proof does not survive, so the price of a bucket must
exceed what noise alone saves, the more the shorter it is. The totals are a posterior mean that lets runs of buckets be
empty or alike, where the paper takes least squares over a tree made for the workload. A part of the budget measures the
error of the result, which the paper's answers do not have.

Order of cells along Hilbert's curve, in which neighbours in the list are neighbours in the grid.

Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004): the bits of the coordinates are
exchanged and flipped, highest first, until their interleaving counts along the curve. The curve runs through a cube
whose side is a power of two; cells outside the domain are left out, and the rest keep their order.

Values of a category have no neighbours, so the curve runs along the ordered attributes only, once for each combination
of categories.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain, Partition
from sfumato.domain.binary_tree import BinaryTree
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.kernel.verbs.scores import Misfit
from sfumato.measurement import Laplace, Measurement
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism, per_cell
from sfumato.models.calibration.first_stage import Shares
from sfumato.models.calibration.fit import MeasuredPartition
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.calibration.model_error import deviation_in_buckets
from sfumato.models.partition.buckets import buckets_with_rows
from sfumato.models.partition.fit import PartitionFit
from sfumato.models.partition.search import in_quarters, places_along
from sfumato.models.tree.fit import TreeFit, fit_tree
from sfumato.queries import Identity, Ranges, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


def curve_order(domain: Domain) -> Codes:
    """The cells of a domain along Hilbert's curve, one combination of categories after the other.

    >>> from sfumato.domain import Axis
    >>> square = Domain((Axis("x", "integer", np.arange(3.0)), Axis("y", "integer", np.arange(3.0))))
    >>> curve_order(square).tolist()
    [0, 1, 3, 2]
    """
    cells = np.arange(domain.size, dtype=np.int64)
    block = np.zeros(domain.size, dtype=np.int64)
    ordered = []
    for axis in domain:
        code = domain.codes_along(axis.name, cells)
        if axis.ordered:
            ordered.append(code)
        else:
            block = block * axis.size + code
    if len(ordered) < 2:
        return np.lexsort((cells, block))
    return np.lexsort((cells, along_curve(np.stack(ordered)), block))


def along_curve(places: Codes) -> Codes:
    """The position on Hilbert's curve of points given by their coordinates, (axes, points).

    >>> along_curve(np.array([[0, 0, 1, 1], [0, 1, 1, 0]])).tolist()
    [0, 1, 2, 3]
    """
    axes = len(places)
    bits = max(1, int(places.max(initial=0)).bit_length())
    x = places.copy()
    top = np.int64(1) << (bits - 1)
    bit = top
    while bit > 1:
        below = bit - 1
        for axis in range(axes):
            set_here = (x[axis] & bit) != 0
            exchanged = np.where(set_here, 0, (x[0] ^ x[axis]) & below)
            x[0] ^= np.where(set_here, below, exchanged)
            x[axis] ^= exchanged
        bit >>= 1
    for axis in range(1, axes):  # Gray code
        x[axis] ^= x[axis - 1]
    flips = np.zeros_like(x[0])
    bit = top
    while bit > 1:
        flips ^= np.where((x[-1] & bit) != 0, bit - 1, 0)
        bit >>= 1
    x ^= flips
    position = np.zeros_like(x[0])
    for level in range(bits - 1, -1, -1):
        for axis in range(axes):
            position = (position << 1) | ((x[axis] >> level) & 1)
    return np.asarray(position, dtype=np.int64)


# -- dawa

MOST_CELLS = 2**20  # that the kernel cuts into buckets


@dataclass(frozen=True)
class Settings:
    """Settings chosen by judgement or trial.

    shares: of the count's budget, less what margins and errors take: for choosing buckets, for their totals, for their
    deviations.
    price, per_halving: price of a bucket of all cells, in scales of the noise on its deviation, and what each halving
    of its length adds: there are more short buckets, so more of them would be cheap by noise alone. Higher prices make
    fewer, less even buckets. Chosen among some dozen on five synthetic tables and three of DPBench; on other synthetic
    ones no pair gains clearly (benchmarks/dawa_price.py).
    levels_apart: distance of the measured levels of the tree over the buckets: 4 levels, 16 children each. Closer
    levels answer long ranges better and single buckets worse.
    """

    shares: tuple[Fraction, Fraction, Fraction] = (Fraction(1, 4), Fraction(7, 10), Fraction(1, 50))
    price: Fraction = Fraction(1)
    per_halving: Fraction = Fraction(1, 4)
    levels_apart: int = 4


SETTINGS = Settings()


def dawa(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Choose buckets of nearly even counts, measure them, and spread each bucket's count evenly over its cells.

    budget: pure epsilon, split by weight over the count and the measures; sums of a measure are measured by region.
    """
    from sfumato.models.sums.measure import sums_by_region  # not loaded to choose a mechanism

    for_count, *for_measures = budget.split(*schema.weights.values())
    shares = Shares.beside_cells(schema.domain, for_count, seen=False)
    for_buckets, for_totals, for_misfit = shares.most.split(*settings.shares)
    assert for_buckets.epsilon is not None  # noqa: S101 (pure epsilon only: the kernel refuses others)
    contributions = curator.charge.contributions

    possible = schema.possible
    counted = shares.measure(curator, possible)
    order = curve_order(schema.domain)
    if possible is not None:
        order = order[np.argsort(~possible[order], kind="stable")]
    scale = 2 * contributions / for_buckets.epsilon
    halvings = reversed(range(schema.domain.size.bit_length()))  # of the longest bucket, for each length
    prices = [(settings.price + halved * settings.per_halving) * scale for halved in halvings]
    labels = curator.best_partition(for_buckets, order=order, price=prices)

    if possible is not None:
        labels = np.where(possible, labels, labels[possible].max() + 1)
    some = buckets_with_rows(labels, possible)

    sizes = np.bincount(labels)
    buckets = curator.reduce(Partition(schema.domain, labels))
    tree = BinaryTree.line(len(sizes))
    measured = _measure_tree(buckets, tree, for_totals, settings.levels_apart, some)
    totals = fit_tree(measured, tree, sizes, possible=some)
    brought = counted.bring_all(_with_spread(curator, labels, totals, for_misfit))
    scales, misfits = measure_errors(curator, brought, shares.errors, for_count, shares.known, seen=False)
    count = MeasuredPartition.of_brought(brought, schema.domain, scales, misfits, possible)

    return Cube(schema, fits=(count, *sums_by_region(curator, schema, for_measures, count, workload)))


def _measure_tree(
    buckets: Curator, tree: BinaryTree, budget: Budget, apart: int, some: Flags | None = None
) -> Measurement:
    """Noisy counts of all buckets and of every 2^apart, 4^apart, ... consecutive ones, with equal shares by level.

    some: flags of the buckets that rows can be in, (buckets,), without which nothing is counted; None: all.
    """
    levels = [level for level in range(tree.height, 0, -apart) if level >= apart // 2] or [tree.height]
    begins = np.concatenate([tree.begins[level][:-1] for level in levels])
    closes = np.concatenate([tree.begins[level][1:] - 1 for level in levels])
    if some is not None:
        before = np.append(0, np.cumsum(some))
        there = before[closes + 1] > before[begins]
        begins, closes = begins[there], closes[there]
    (share, *_) = budget.evenly(len(levels))
    noise = noise_for(share, buckets.charge.contributions, l1=Fraction(1), l2_squared=Fraction(1))
    assert isinstance(noise, Laplace)  # noqa: S101 (pure epsilon only)
    return buckets.measure(Ranges(len(tree.order), begins, closes), scales=noise.scale)


def _with_spread(curator: Curator, labels: Codes, totals: TreeFit, budget: Budget) -> PartitionFit:
    """Uniform estimate with within-bucket deviations, measured as the misfit of quarters of buckets."""
    even = PartitionFit(labels, totals, np.zeros(len(totals.estimate)))
    expected = totals.estimate

    sizes = np.bincount(labels)
    parts, region = in_quarters(labels, places_along(curator.domain))
    shares = np.bincount(parts) / sizes[region]
    classes = _by_size(sizes if totals.possible is None else sizes * totals.possible)
    targets = np.rint(expected[region] * shares).astype(np.int64)
    reduced = curator.reduce(Partition(curator.domain, parts))
    measured = reduced.measure_misfit(Misfit(Identity(len(region)), targets), budget, classes[region])

    noise = measured.noise
    assert isinstance(noise, Laplace)  # noqa: S101 (pure epsilon only)
    deviations = _deviations(even)
    # A bucket with all of its rows in one cell has a spread of its count, and none has more.
    most = np.maximum(expected, 0.0) + 2.0 * deviations
    spread = np.zeros(len(sizes))
    for number, misfit in enumerate(measured.answers):
        mine = (classes[region] == number) & (shares < 1.0)  # single cells cannot be uneven
        deviation = deviation_in_buckets(
            float(misfit), float(noise.scale), shares[mine], deviations[region[mine]], most[region[mine]]
        )
        spread[region[mine]] = np.minimum(deviation, most[region[mine]])
    return replace(even, deviations=spread, besides=(measured,), over=curator.domain)


def _by_size(sizes: Codes) -> Codes:
    """Class of each bucket by size: the largest with half of all cells, those with the next two fifths, the others.

    One deviation is measured per class. Queries end in large buckets most often, so these have a class of their own.
    """
    order = np.argsort(-sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    classes = np.empty(len(sizes), dtype=np.int64)
    classes[order] = np.searchsorted([0.5, 0.9], before / sizes.sum(), side="right")
    return classes


def _deviations(even: PartitionFit) -> Floats:
    """Standard deviation of every bucket's total, (buckets,); interpolated between 256 of them where there are more."""
    totals, every = even.totals, np.arange(len(even.totals.estimate))
    some = totals.possible if isinstance(totals, TreeFit) else None
    there = every if some is None else np.flatnonzero(some)
    chosen = there[np.unique(np.linspace(0, len(there) - 1, min(len(there), 256)).astype(np.int64))]
    errors = totals.errors((every[:, None] == chosen).astype(np.float64))
    deviations = np.interp(every, chosen, np.sqrt(np.diagonal(errors.model)))
    return np.asarray(deviations if some is None else deviations * some, dtype=np.float64)


MECHANISM = Mechanism(
    name="dawa",
    summary="puts alike neighbours into buckets",
    paper="Li, Hay, Miklau 2014",
    run=dawa,
    holds=Holds(most_cells=MOST_CELLS, zeros=True),
    forecast=Forecast(checks_itself=True, work=per_cell(1024)),
)
