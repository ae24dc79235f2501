"""Sfumato: adaptive noisy counts of the nodes of a binary tree, and the posterior mean of its leaves.

Below a node with few rows one measurement with all of the budget that is left is best; below a node with many rows,
several measurements with equal shares are. The noisy counts themselves decide which, level by level, so that one
mechanism serves sparse and dense tables (descent.py). Along the path of every cell the shares sum to the budget,
whatever the noise was, and each share depends on earlier noisy counts only, which is the condition of adaptive
composition that the kernel enforces (docs/privacy.md, theorem 2). The prior of a split is a mixture: a child is empty,
holds few rows, or holds about its share (split_prior.py); messages.py computes the posterior.

After ISPE (Xiao, Xiong, Yuan, TR-2011-005), which smooths, partitions and estimates from noisy cells. Different here:
ISPE measures every cell first, whatever the table is like; here each measurement decides how far to refine.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from sfumato.arrays import Codes, Flags
from sfumato.domain import Partition
from sfumato.domain.binary_tree import BinaryTree, nodes_over
from sfumato.kernel.budget import Budget
from sfumato.kernel.charge import noise_for
from sfumato.kernel.curator import Curator
from sfumato.measurement import Measurement, Noise, as_one
from sfumato.models.base.mechanism import Forecast, Holds, Mechanism, per_cell
from sfumato.models.calibration.first_stage import Shares
from sfumato.models.calibration.fit import MeasuredTree
from sfumato.models.calibration.misfits_by_kind import measure_errors
from sfumato.models.tree import descent
from sfumato.models.tree.descent import PARTS, Frontier, GoOn, geometry_of, next_measurements
from sfumato.models.tree.fit import MOST_LEAVES, MOST_NODES, fit_tree
from sfumato.queries import Ranges, Workload, default_workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema


def sfumato(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Publish the posterior mean of the cells from adaptive counts of a binary tree over them.

    budget: split by weight over the count and the measures; the sums of a measure are measured by region of the count's
    fit.
    """
    from sfumato.models.sums.measure import sums_by_region  # not loaded to choose a mechanism

    for_count, *for_measures = budget.split(*schema.weights.values())
    count = measured_tree(curator, for_count, workload or default_workload(schema.domain), schema.possible)
    return Cube(schema, fits=(count, *sums_by_region(curator, schema, for_measures, count, workload)))


def measured_tree(curator: Curator, budget: Budget, workload: Workload, possible: Flags | None = None) -> MeasuredTree:
    """Fit the tree, update it with one-way marginals where these pay (GLS), and measure its error privately.

    possible: flags of the cells that are no structural zeros, (cells,); None: all.
    """
    domain, tree = curator.domain, BinaryTree.over(curator.domain)
    shares = Shares.beside_tree(domain, tree, budget)
    counted = shares.measure(curator)
    measured = descend(curator, tree, shares.most, workload, possible=possible)
    brought = counted.bring(fit_tree(measured, tree, possible=possible))
    scales, misfits = measure_errors(curator, brought, shares.errors, budget, shares.known, possible=possible)
    return MeasuredTree.of_brought(brought, domain, scales, misfits, possible)


def refuses(schema: Schema, workload: Workload | None) -> str | None:
    """Reason why a schema's tree has too many nodes, or None."""
    if (regions := nodes_over(schema.domain)) > MOST_NODES:
        return f"sfumato takes a tree of at most {MOST_NODES:,} regions, here it has {regions:,}; use hierarchical"
    return None


def error_if_full(schema: Schema, workload: Workload, budget: Budget, *, of: Workload | None = None) -> float:
    """Approximate root mean squared error on a dense table, where there is nothing to adapt to; reads no data.

    of: queries whose error is wanted; by default those of the workload that the descent is planned for.
    """
    tree, share = BinaryTree.over(schema.domain), budget.split(*schema.weights.values())[0]
    whole = _noise(Shares.beside_tree(schema.domain, tree, share).most, schema.most_of_a_unit)
    tree = tree if schema.possible is None else tree.pruned(schema.possible).tree
    asked = None if of is None else geometry_of(of, tree)
    unit = whole.continuous_variance
    return descent.error_if_full(tree, geometry_of(workload, tree), unit, pure=budget.is_pure, of=asked)


def _least_of_sums(schema: Schema, budget: Budget) -> dict[str, Budget]:
    """Least budget with which any table of a measure's sums is measured, by measure."""
    from sfumato.models.sums.measure import least_by_region  # not loaded to choose a mechanism

    return least_by_region(schema, budget)


def descend(
    curator: Curator,
    tree: BinaryTree,
    budget: Budget,
    workload: Workload,
    *,
    go_on: GoOn = next_measurements,
    possible: Flags | None = None,
) -> Measurement:
    """Measure nodes of the tree level by level; noisy counts so far decide depth and budget share of the next ones.

    go_on: the rule, from the frontier (nodes, their noisy counts and budgets left) to the next measurements. Whatever
    it asks for, the curator charges every cell for it, so that privacy does not depend on the rule.
    possible: flags of the cells that are no structural zeros, (cells,), which leave out regions of no other cells.

    Returns one measurement of all nodes, in the order in which they were asked for.
    """
    found = None if possible is None else tree.pruned(possible)
    within = tree if found is None else found.tree
    geometry = geometry_of(workload, within)
    whole = _noise(budget, curator.charge.contributions)
    along = curator.reduce(Partition(curator.domain, _places(tree.order)))  # the same cells, numbered along it

    ranges: list[Ranges] = []
    seen: list[Measurement] = []
    frontier = Frontier.root()
    while len(frontier):
        here, others = frontier.highest()
        planned = go_on(here, within, geometry, whole.continuous_variance, pure=budget.is_pure)
        shares, which = np.unique(planned.shares, return_inverse=True)
        scales = [whole.parameter * PARTS / int(share) for share in shares]
        ranges.append(planned.ranges(tree, None if found is None else found.nodes))
        seen.append(along.measure(ranges[-1], scales=scales, which=which))
        frontier = others.together(planned.answered(seen[-1].answers, seen[-1].design.sizes))
    lows, highs = (np.concatenate([getattr(measured, end) for measured in ranges]) for end in ("lows", "highs"))
    return as_one(seen, Ranges(len(tree.order), lows, highs))


def _noise(budget: Budget, contributions: int) -> Noise:
    """Noise of a count that spends the whole budget; with a share s of it the noise parameter is divided by s."""
    return noise_for(budget, contributions, l1=Fraction(1), l2_squared=Fraction(1))


def _places(order: Codes) -> Codes:
    """Inverse of a permutation, (cells,)."""
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
    holds=Holds(most_cells=MOST_LEAVES, zeros=True),
    forecast=Forecast(error_if_full=error_if_full, least_of_sums=_least_of_sums, work=per_cell(1024)),
)
