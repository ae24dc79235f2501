"""Sfumato: descend a tree once, each measurement deciding the next, and let the posterior find the distribution.

Where a node of the tree holds few rows, one measurement with all the budget left is best; where it holds many, many
with even shares are. Which it is, the noisy counts say themselves, level by level, so the same mechanism serves sparse
and dense tables. Along the path of every cell the shares sum to the budget, whatever the noise was, and each share
depends on earlier noisy counts only: that is the kernel's one rule (docs/privacy.md, theorem 2). The posterior mean
then weighs, for every node, whether its halves are empty, even or neither (models/tree/split_prior.py).

After ISPE (Xiao, Xiong, Yuan, TR-2011-005), which smooths, partitions and estimates from what is noisy already.
Corrected: ISPE measures every cell first, whatever the table is like; here each measurement decides how far to go on.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Partition
from sfumato.domain.binary_tree import BinaryTree, nodes_over
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement, Noise, as_one
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism, per_cell
from sfumato.models.calibration.families import MeasuredTree
from sfumato.models.calibration.first_stage import Shares
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.tree import descent
from sfumato.models.tree.descent import PARTS, Frontier, GoOn, geometry_of, next_measurements
from sfumato.models.tree.fit import MOST_LEAVES, MOST_NODES, fit_tree
from sfumato.queries import Ranges, Workload, default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


def sfumato(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Descend a binary tree over the cells and fit them by the posterior mean.

    budget: split by weight over the count and the measures, whose sums are measured by region.
    """
    from sfumato.models.sums.measure import sums_by_region  # not loaded to choose a mechanism

    for_count, *for_measures = budget.split(*schema.weights.values())
    count = measured_tree(curator, for_count, workload or default_workload(schema.domain))
    return Cube(schema, fits=(count, *sums_by_region(curator, schema, for_measures, count, workload)))


def measured_tree(curator: Curator, budget: Budget, workload: Workload) -> MeasuredTree:
    """A posterior over a tree, brought to counts along attributes where these pay, with errors that were measured."""
    domain, tree = curator.domain, BinaryTree.over(curator.domain)
    shares = Shares.beside_tree(domain, tree, budget)
    counted = shares.measure(curator)
    brought = counted.bring(fit_tree(descend(curator, tree, shares.most, workload), tree))
    scales, misfits = measure_errors(curator, brought, shares.errors, budget, shares.known)
    return MeasuredTree.of_brought(brought, domain, scales, misfits)


def refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Why sfumato does not fit a schema of not too many cells."""
    if (regions := nodes_over(schema.domain)) > MOST_NODES:
        return f"sfumato takes a tree of at most {MOST_NODES:,} regions, here it has {regions:,}; use hierarchical"
    return None


def error_if_full(schema: Schema, workload: Workload, budget: Budget) -> float:
    """About the error on a table with many rows everywhere, where there is nothing to adapt to; reads no data."""
    tree, share = BinaryTree.over(schema.domain), budget.split(*schema.weights.values())[0]
    whole = _noise(Shares.beside_tree(schema.domain, tree, share).most, schema.privacy_unit.contributions)
    return descent.error_if_full(tree, geometry_of(workload, tree), whole.continuous_variance, pure=budget.is_pure)


def _least_of_sums(schema: Schema, budget: Budget) -> dict[str, Budget]:
    from sfumato.models.sums.measure import least_by_region  # not loaded to choose a mechanism

    return least_by_region(schema, budget)


def descend(
    curator: Curator, tree: BinaryTree, budget: Budget, workload: Workload, *, go_on: GoOn = next_measurements
) -> Measurement:
    """Measure nodes level by level; what is seen decides how deep the next measurement goes and what it may spend.

    go_on: from what was seen so far to what is measured next. Whatever it asks, the curator charges every cell for it.
    """
    geometry = geometry_of(workload, tree)
    whole = _noise(budget, curator.charge.contributions)
    along = curator.reduce(Partition(curator.domain, _places(tree.order)))  # the same cells, numbered along it

    ranges: list[Ranges] = []
    seen: list[Measurement] = []
    frontier = Frontier.root()
    while len(frontier):
        here, others = frontier.highest()
        asked = go_on(here, tree, geometry, whole.continuous_variance, pure=budget.is_pure)
        shares, which = np.unique(asked.shares, return_inverse=True)
        scales = [whole.parameter * PARTS / int(share) for share in shares]
        ranges.append(asked.ranges(tree))
        seen.append(along.measure(ranges[-1], scales=scales, which=which))
        frontier = others.together(asked.answered(seen[-1].answers, seen[-1].design.sizes))
    lows, highs = (np.concatenate([getattr(one, end) for one in ranges]) for end in ("lows", "highs"))
    return as_one(seen, Ranges(len(tree.order), lows, highs))


def _noise(budget: Budget, contributions: int) -> Noise:
    """What a measurement that spends everything carries; a share of the budget buys this parameter over the share."""
    return noise_for(budget, contributions, l1=Fraction(1), l2_squared=Fraction(1))


def _places(order: Codes) -> Codes:
    places = np.empty_like(order)
    places[order] = np.arange(len(order))
    return places


MECHANISM = Mechanism(
    name="sfumato",
    summary="descends a tree once, each look deciding the next",
    paper="here, after Xiao, Xiong, Yuan 2011",
    run=sfumato,
    gaussian=True,
    refuses=refuses,
    holds=Holds(most_cells=MOST_LEAVES),
    forecast=Forecast(error_if_full=error_if_full, least_of_sums=_least_of_sums, work=per_cell(1024)),
)
