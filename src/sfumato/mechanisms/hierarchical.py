"""Hierarchical: noisy counts of a tree of ranges, made consistent.

Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through consistency", VLDB
2010; the branching by expected error after Qardaji, Yang, Li, VLDB 2013; shares of the levels after Cormode, Procopiuc,
Shen, Srivastava, Yu, ICDE 2012. The papers give all levels the same budget or geometric shares and take the number of
cells to be a power of the branching; here the shares are those of least expected error, any number of cells will do,
and several attributes combine one tree each. Consistency is exact least squares, for uneven trees and shares too.
"""

from __future__ import annotations

from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.mechanisms._measure_and_fit import measure_and_fit
from sfumato.mechanisms.mechanism import Mechanism
from sfumato.queries import Workload, default_workload
from sfumato.queries.strategy import Strategy
from sfumato.releases.cube import Cube
from sfumato.schema import Schema
from sfumato.strategies.trees import Levels, tree_strategy


def hierarchical(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Measure one tree per attribute, combined, and fit all cells by least squares.

    budget: split evenly over the count and the measures; in each, over the levels as the workload deserves.
    """
    asked = workload or default_workload(schema.domain)
    return measure_and_fit(curator, schema, hierarchical_strategy(schema, asked, budget.is_pure), budget)


def hierarchical_strategy(schema: Schema, workload: Workload, pure: bool, levels: Levels = "optimised") -> Strategy:
    """The tree and the shares of its levels: "uniform" and "geometric" are the papers', "optimised" is ours."""
    return tree_strategy(schema.domain, workload, pure, levels)


MECHANISM = Mechanism(
    name="hierarchical",
    summary="counts ranges in a tree, made consistent",
    paper="Hay et al. 2010",
    run=hierarchical,
    strategy=hierarchical_strategy,
    gaussian=True,
)
