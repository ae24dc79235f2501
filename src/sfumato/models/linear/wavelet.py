"""Wavelet: noisy Haar coefficients.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010: Privelet, with the nominal transform for
categories, and Privelet+. The paper fills attributes up to a power of two and leaves small attributes as they are by a
bound on the worst query; here halves may be uneven and the expected error on the workload decides. Noise is whole.
"""

from __future__ import annotations

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.models.linear.strategies.hierarchies import wavelet_strategy as wavelets_over
from sfumato.queries import Workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema


def wavelet_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Haar along ordered attributes, the nominal wavelet along categories, cells where these have the smaller error."""
    return wavelets_over(schema.domain, workload, pure)


wavelet = linear(wavelet_strategy)


MECHANISM = Mechanism(
    name="wavelet",
    summary="Haar wavelets of the cells",
    paper="Xiao, Wang, Gehrke 2010",
    run=wavelet,
    gaussian=True,
    forecast=Forecast(strategy=wavelet_strategy, for_auto=False),
)
