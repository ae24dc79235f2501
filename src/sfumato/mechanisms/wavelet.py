"""Wavelet: noisy Haar coefficients.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010: Privelet, with the nominal transform for
categories, and Privelet+. The paper fills attributes up to a power of two and leaves small attributes as they are by a
bound on the worst query; here halves may be uneven and the expected error on the workload decides. Noise is whole.
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
from sfumato.strategies.wavelets import wavelet_strategy as wavelets_over


def wavelet(curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None) -> Cube:
    """Measure the coefficients of every attribute's wavelet, combined, and turn them back into cells.

    budget: split evenly over the count and the measures; in each, over the coefficients by the paper's weights.
    """
    asked = workload or default_workload(schema.domain)
    return measure_and_fit(curator, schema, wavelet_strategy(schema, asked, budget.is_pure), budget)


def wavelet_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Haar along ordered attributes, the nominal wavelet along categories, cells where these have the smaller error."""
    return wavelets_over(schema.domain, workload, pure)


MECHANISM = Mechanism(
    name="wavelet",
    summary="Haar wavelets of the cells",
    paper="Xiao, Wang, Gehrke 2010",
    run=wavelet,
    strategy=wavelet_strategy,
    gaussian=True,
)
