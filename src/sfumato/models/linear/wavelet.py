"""Wavelet: noisy Haar coefficients (Privelet), fitted by least squares.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010: Privelet, with the nominal transform for
categories, and Privelet+. The paper pads attributes to a power of two and leaves small attributes untransformed by a
bound on the worst query; here halves may be uneven and the expected error on the workload decides. Noise is discrete.
"""

from __future__ import annotations

from sfumato.models.base.measure_and_fit import linear
from sfumato.models.base.mechanism import Forecast, Mechanism
from sfumato.models.linear.strategies.hierarchies import wavelet_strategy as wavelets_over
from sfumato.queries import Workload
from sfumato.queries.strategy import Strategy
from sfumato.schema import Schema


def wavelet_strategy(schema: Schema, workload: Workload, pure: bool) -> Strategy:
    """Haar wavelet along ordered attributes, nominal wavelet along categories, identity where its error is smaller."""
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
