"""How much of a budget each margin is worth, from noisy misfits: a convex problem, solved by one multiplier.

A pair that is not measured is off by its misfit. If it is measured with noise of some size its cells are off by the
noise, or by what they deviate from the product of the margins, whichever is less: v s / (v + s) with v the deviation
that the misfit makes expect. Of every pair the size is taken at which a little more budget is worth as much as for any
other; those for which nothing is worth it are not measured.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import pi, sqrt

import numpy as np

from sfumato.arrays import Floats
from sfumato.inference.margins.table import Places, independent

SIZES = np.logspace(0.0, 5.0, 101)  # standard deviations of noise that are weighed against each other
MEAN_SIZE = sqrt(2.0 / pi)  # of a normal deviate
HALVINGS = 100
AGAIN = 0.15  # of one-way errors, that is not mended by order and by the sums of pairs


def price_of(deviation: Floats, pure: bool) -> Floats:
    """What noise of a standard deviation costs, of epsilon or rho."""
    return np.asarray(sqrt(2.0) / deviation if pure else 1.0 / (2.0 * deviation**2), dtype=np.float64)


def shares(
    one_way: Sequence[Floats],
    precisions: Sequence[float],
    misfits: Mapping[Places, float],
    available: float,
    pure: bool,
) -> dict[Places, float]:
    """The share of each margin that is worth measuring, of all that is available: they add up to one.

    one_way: margins as known by now, each value with `precisions`. misfits: how far pairs are from their product.
    """
    total, axes = max(float(one_way[0].sum()), 1.0), len(one_way)
    names: list[Places] = []
    errors: list[Floats] = []
    for axis, (margin, precision) in enumerate(zip(one_way, precisions, strict=True)):
        variances = np.append(1.0 / (precision + SIZES**-2.0), 1.0 / precision)[:, None]
        names.append((axis,))
        errors.append(
            AGAIN
            * max(axes - 1, 1)
            * MEAN_SIZE
            * np.sqrt(variances * margin**2 / (variances + margin**2 + 1e-300)).sum(axis=1)
        )
    for (a, b), misfit in misfits.items():
        expected = (misfit / total / MEAN_SIZE * independent([one_way[a], one_way[b]], total).reshape(-1)) ** 2
        at = [float(np.sqrt(expected * s2 / (expected + s2)).sum()) for s2 in SIZES**2]
        names.append((a, b))
        errors.append(np.append(MEAN_SIZE * np.array(at), misfit))
    costs, table = np.append(price_of(SIZES, pure), 0.0), np.array(errors) / total
    low, high = 1e-12, 1e15
    for _ in range(HALVINGS):
        multiplier = sqrt(low * high)
        spent = costs[np.argmin(table + multiplier * costs, axis=1)].sum()
        low, high = (multiplier, high) if spent > available else (low, multiplier)
    taken = costs[np.argmin(table + high * costs, axis=1)]
    if not taken.any():
        return dict.fromkeys(names[:axes], 1.0 / axes)
    return {places: float(cost / taken.sum()) for places, cost in zip(names, taken, strict=True) if cost > 0}
