"""Matrix: the queries worth asking for a workload, optimised.

Li, Hay, Rastogi, Miklau, McGregor, "The matrix mechanism", VLDB Journal 2015; the strategies of McKenna, Miklau, Hay,
Machanavajjhala, VLDB 2018 (HDMM): p-identity per attribute, products, tables. The papers' weights are real numbers with
real noise; here they are whole, all columns of one size, and the expected error is that of the rounded strategy. Cells,
trees and wavelets are candidates too, so it is never expected to do worse than these.
"""

from __future__ import annotations

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.models.linear.strategies.hdmm import BITS, best_strategy
from sfumato.queries import Workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema

BITS_BESIDE_MEASURES = 8  # sums of a measure come in up to 2^30 steps a row: weights times sums must stay below 2^62


def matrix_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """The best of all kinds of strategy, by expected error on the workload."""
    bits = BITS_BESIDE_MEASURES if schema.measures else BITS
    return best_strategy(schema.domain, workload, pure, bits=bits)


matrix = linear(matrix_strategy)


MECHANISM = Mechanism(
    name="matrix",
    summary="finds the queries to ask from which yours follow best",
    paper="Li et al. 2015, McKenna et al. 2018",
    run=matrix,
    gaussian=True,
    forecast=Forecast(strategy=matrix_strategy, optimised=True),
)
