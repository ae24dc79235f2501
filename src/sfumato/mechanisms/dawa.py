"""DAWA: buckets of cells that hold nearly the same, chosen privately, then a tree over the buckets.

Li, Hay, Miklau, "A Data- and Workload-Aware Algorithm for Range Queries Under Differential Privacy", VLDB 2014.
Corrected: noisy deviations are never cut off at zero, which the proof does not survive, so a bucket must be dear enough
that noise alone buys few of them, the dearer the shorter it is; and a twentieth of the budget measures what taking
buckets as even is off by, which the paper's answers do not say.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.domain import Codes, Partition
from sfumato.inference.fits import Linear
from sfumato.inference.joined import ALIKE, MOST_JOINED, join_alike
from sfumato.inference.regions import Regional
from sfumato.inference.unevenness import from_misfit
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.kernel.statistics import Misfit
from sfumato.measurement import Laplace
from sfumato.mechanisms.linear import design_of
from sfumato.mechanisms.regional import places_along
from sfumato.queries import AllRanges, Identity, Workload
from sfumato.releases.cube import Cube
from sfumato.schema import Schema
from sfumato.strategies.bucket_trees import bucket_tree, sampled_gram
from sfumato.strategies.hilbert import curve_order
from sfumato.strategies.partitions import in_quarters

Floats = NDArray[np.float64]

SHARES = (Fraction(1, 4), Fraction(7, 10), Fraction(1, 20))  # for the buckets, their totals, and the misfit
# The price of a bucket of all cells, in scales of the noise on its deviation, and what each halving adds: of short
# buckets there are more, so more of them would be cheap by noise alone. Chosen among some dozen by
# simulation, on five made-up tables and three of DPBench together; the last few were told apart on made-up ones.
PRICE, PER_HALVING = Fraction(1), Fraction(1, 4)
MOST_CELLS = 2**20  # that the kernel cuts into buckets


def dawa(
    curator: Curator,
    schema: Schema,
    budget: Budget,
    workload: Workload | None = None,
    *,
    shares: tuple[Fraction, Fraction, Fraction] = SHARES,
    price: Fraction = PRICE,
    alike: float = ALIKE,
) -> Cube:
    """Choose buckets of nearly even counts, measure them, and spread each bucket's count evenly over its cells.

    budget: pure epsilon, split evenly over the count and the measures, which get noise on every cell. Of the count's
    share, `shares` go to choosing the buckets, to measuring them and to measuring how uneven they are.
    price: of the longest bucket, in scales of the noise on its deviation; a higher one makes fewer, less even buckets.
    """
    for_count, *for_measures = budget.evenly(len(curator.statistics))
    for_buckets, for_totals, for_misfit = for_count.split(*shares)
    assert for_buckets.epsilon is not None  # noqa: S101 (pure epsilon only: the kernel refuses others)
    contributions = curator.charge.contributions

    order = curve_order(schema.domain)
    scale = 2 * contributions / for_buckets.epsilon
    halvings = reversed(range(schema.domain.size.bit_length()))  # of the longest bucket, for each length
    prices = [(price + halved * PER_HALVING) * scale for halved in halvings]
    labels = curator.best_partition(for_buckets, order=order, price=prices)

    strategy = bucket_tree(np.bincount(labels), _gram(workload, labels))
    design = design_of(strategy, for_totals, contributions)
    buckets = curator.reduce(Partition(schema.domain, labels))
    scales = [noise.scale for noise in design.noises if isinstance(noise, Laplace)]
    measured = buckets.measure(
        design.queries, scales=scales if design.which is not None else scales[0], which=design.which
    )
    count = _with_spread(curator, labels, Linear.of_answers(measured), alike, for_misfit)

    every_cell = Identity(schema.domain.size)
    measures = zip(curator.statistics[1:], for_measures, strict=True)
    return Cube(schema, fits=(count, *(Linear.of_answers(curator.measure(every_cell, b, of=of)) for of, b in measures)))


def refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Why dawa does not fit a schema."""
    if schema.domain.size > MOST_CELLS:
        return f"dawa takes at most {MOST_CELLS:,} cells, there are {schema.domain.size:,}; use hierarchical or cells"
    return None


def _gram(workload: Workload | None, labels: Codes) -> Floats | None:
    """What the workload asks of the buckets; None for all ranges along one axis, of which the answer is known."""
    if workload is None or [type(block) for block in workload.blocks] == [AllRanges]:
        return None
    return sampled_gram(workload, labels)


def _with_spread(curator: Curator, buckets: Codes, totals: Linear, alike: float, budget: Budget) -> Regional:
    """The even estimate, buckets that look alike joined, with the unevenness that quarters of the regions show."""
    even = Regional(buckets, totals, np.zeros(len(totals.estimate)))
    if len(totals.estimate) <= MOST_JOINED:
        joined = join_alike(totals.measurement, np.bincount(buckets), alike)
        even = Regional(joined.regions[buckets], joined, np.zeros(len(joined.estimate)), buckets)
    labels, expected = even.labels, even.totals.estimate

    sizes = np.bincount(labels)
    parts, region = in_quarters(labels, places_along(curator.domain))
    shares = np.bincount(parts) / sizes[region]
    classes = _by_size(sizes)
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
        found = from_misfit(
            float(misfit), float(noise.scale), shares[mine], deviations[region[mine]], most[region[mine]]
        )
        spread[region[mine]] = np.minimum(found, most[region[mine]])
    return replace(even, spread=spread, besides=(measured,))


def _by_size(sizes: Codes) -> Codes:
    """Which buckets are as uneven as each other: the largest, with half of all cells, the next two fifths, the rest.

    Queries end in large buckets most often, so these have a class to themselves.
    """
    order = np.argsort(-sizes, kind="stable")
    before = np.cumsum(sizes[order]) - sizes[order]
    classes = np.empty(len(sizes), dtype=np.int64)
    classes[order] = np.searchsorted([0.5, 0.9], before / sizes.sum(), side="right")
    return classes


def _deviations(even: Regional) -> Floats:
    """The standard deviation of every region's total; of very many regions, of some and between them alike."""
    count = len(even.totals.estimate)
    chosen = np.unique(np.linspace(0, count - 1, min(count, 256)).astype(np.int64))
    errors = even.totals.errors((np.arange(count)[:, None] == chosen).astype(np.float64))
    found = np.sqrt((errors.weights**2 * errors.design.variances[:, None]).sum(axis=0))
    return np.asarray(np.interp(np.arange(count), chosen, found), dtype=np.float64)
