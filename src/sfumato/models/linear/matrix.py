"""Matrix: noisy answers to a strategy optimised for the workload (the matrix mechanism), fitted by least squares.

Li, Hay, Rastogi, Miklau, McGregor, "The matrix mechanism", VLDB Journal 2015; strategies of McKenna, Miklau, Hay,
Machanavajjhala, VLDB 2018 (HDMM): p-identity per attribute, Kronecker products, marginals. The papers' weights are real
numbers; here they are integers with equal column sums, and the expected error is that of the rounded strategy.
Identity, trees and wavelets are candidates too, so its expected error is never larger than theirs.
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
    """Strategy of least expected error on the workload, over all kinds."""
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
