"""Two-stage release of kdtree and ispe: noisy cells, regions found in them, noisy region totals, shrinkage of both.

One-way marginals are counted first where that pays. Then cells with a share of the budget, a partition of the noisy
cells (post-processing), and totals of its regions. Estimator: the region total is the precision-weighted mean of its
own count and the sum of its cells; within a region, bisected down to cells, each Haar contrast is shrunk by its
posterior mean (models/partition/buckets.py, shrinkage.py). The error of the result is measured last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain, Partition
from sfumato.errors import QueryError
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement
from sfumato.models.calibration.families import MeasuredShrinkage
from sfumato.models.calibration.first_stage import Shares, blocks_of_all
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.buckets import Halvings, kept_and_deviation
from sfumato.models.partition.coarse_contrasts import CoarseFit
from sfumato.models.partition.search import halving_order
from sfumato.models.partition.shrinkage import ShrinkageFit
from sfumato.queries import Identity, Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

Regions = Callable[[Floats, float], Codes]  # noisy cells in the shape of the domain, and the variance of their noise

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

    counted = shares.measure(curator)
    cells = curator.measure(Identity(schema.domain.size), for_cells)
    labels = find(cells.answers.astype(np.float64).reshape(schema.domain.shape), cells.noise.variance)
    regions = curator.reduce(Partition(schema.domain, labels))
    totals = LinearFit.of_answers(regions.measure(Identity(int(labels.max()) + 1), for_regions))

    fit, blocks = both_used(schema.domain, labels, cells, totals), blocks_of_all(schema.domain)
    brought = counted.bring_all(fit if blocks is None else CoarseFit.of_residuals(fit, blocks))
    scales, misfits = measure_errors(curator, brought, shares.errors, for_count, shares.known)
    count = MeasuredShrinkage.of_brought(brought, schema.domain, scales, misfits)
    return Cube(schema, fits=(count, *sums_by_region(curator, schema, for_measures, count, workload)))


def both_used(domain: Domain, labels: Codes, cells: Measurement, totals: LinearFit) -> ShrinkageFit:
    """Shrinkage estimate from noisy cells and noisy region totals; shrinkage factors and deviations from the cells.

    labels: region of each cell, (cells,).
    """
    noise, of_totals = cells.noise.variance, totals.measurement.noise.variance
    sizes = np.bincount(labels)
    order = halving_order(labels, places_along(domain))
    noisy = cells.answers.astype(np.float64)[order]
    keep, spread = kept_and_deviation(Halvings.of(sizes), noisy, noise)
    lean: Floats = of_totals / (of_totals + sizes.astype(np.float64) * noise) if noise > 0 else np.zeros(len(sizes))
    return ShrinkageFit(labels, order, totals, cells, lean, keep, spread, together=False)


def ordered_axes(domain: Domain) -> list[int]:
    """Indices of the ordered axes, along which cells have neighbours; all axes where none is ordered."""
    ordered = [index for index, axis in enumerate(domain) if axis.ordered]
    return ordered or list(range(len(domain.shape)))


def places_along(domain: Domain) -> Sequence[Codes]:
    """Code of each cell on every axis, (cells,) each."""
    cells = np.arange(domain.size, dtype=np.int64)
    return [domain.codes_along(axis.name, cells) for axis in domain]
