"""Hierarchical: noisy counts of the nodes of a tree of ranges, fitted by least squares.

Hay, Rastogi, Miklau, Suciu, "Boosting the accuracy of differentially private histograms through consistency", VLDB
2010; branching by expected error after Qardaji, Yang, Li, VLDB 2013; weights of levels after Cormode, Procopiuc, Shen,
Srivastava, Yu, ICDE 2012. The papers give all levels equal or geometric weights and take the number of cells to be a
power of the branching; here the weights minimise the expected error, any number of cells will do, and several
attributes combine one tree each (Kronecker product). Consistency is exact GLS, for uneven trees and weights too.
"""

from __future__ import annotations

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.models.linear.strategies.hierarchies import Levels, tree_strategy
from sfumato.queries import Workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema


def hierarchical_strategy(schema: Schema, workload: Workload, pure: bool, levels: Levels = "optimised") -> Strategy:
    """Tree strategy, with "uniform" or "geometric" weights of levels (the papers) or "optimised" by expected error."""
    return tree_strategy(schema.domain, workload, pure, levels)


hierarchical = linear(hierarchical_strategy)


MECHANISM = Mechanism(
    name="hierarchical",
    summary="counts ranges in a tree, made consistent",
    paper="Hay et al. 2010",
    run=hierarchical,
    gaussian=True,
    forecast=Forecast(strategy=hierarchical_strategy),
)
