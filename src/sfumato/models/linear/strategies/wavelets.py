"""Wavelets: Haar's along ordered axes, the nominal one along categories, combined over the axes.

Xiao, Wang, Gehrke, "Differential privacy via wavelet transforms", ICDE 2010: Privelet, and Privelet+, which leaves
small axes as they are. The paper chooses these by a bound on the worst query, here the expected error decides. The
paper's weights are in the queries' own whole numbers, and in the weight of the nominal total.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from sfumato.domain import Domain
from sfumato.least_squares.gram import Gram
from sfumato.models.linear.strategies.per_axis import AxisPart, axis_by_axis, combined
from sfumato.queries import Haar, NominalHaar, Workload
from sfumato.queries.strategy import Strategy

SURELY_WORTH = 2**12  # cells of an ordered axis from which the wavelet always pays


def wavelet_strategy(domain: Domain, workload: Workload, pure: bool) -> Strategy:
    """A wavelet along every axis where it pays.

    >>> from sfumato.domain import Axis
    >>> from sfumato.queries import default_workload
    >>> ages, sexes = Axis("age", "integer", np.arange(1025.0)), Axis("sex", "category", np.arange(3.0), ("F", "M"))
    >>> domain = Domain((ages, sexes))
    >>> wavelet_strategy(domain, default_workload(domain), True).queries
    Kron(Haar(1024), Identity(2))
    """
    ordered = [axis.ordered for axis in domain]
    return combined(axis_by_axis(domain, workload, lambda axis, gram: wavelet_for(gram, ordered[axis], pure)))


@lru_cache(maxsize=256)
def wavelet_for(gram: Gram, ordered: bool, pure: bool) -> AxisPart:
    """The wavelet over one axis, or single cells where their error is less."""
    n = gram.n
    cells = AxisPart.cells(n)
    if n == 1:
        return cells
    if ordered and n >= SURELY_WORTH:
        return AxisPart(Haar(n), np.ones(n))
    # a row in one category moves the total by 1 and the differences by 2 (n - 1) together: the same for both
    nominal = AxisPart(NominalHaar(n), np.append(2.0 * (n - 1), np.ones(n)))
    wavelet = AxisPart(Haar(n), np.ones(n)) if ordered else nominal
    return min(cells, wavelet, key=lambda part: part.error(gram, pure))
