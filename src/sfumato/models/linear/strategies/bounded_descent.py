"""The least value of a smooth function of numbers between bounds, by projected quasi-Newton steps.

Nocedal, "Updating quasi-Newton matrices with limited storage", 1980 (the two loops); Bertsekas, "Projected Newton
methods for optimization problems with simple constraints", 1982 (numbers held at a bound stay out of the step).
A library has the same, but takes longer to load than most strategies take to find.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from sfumato.arrays import Floats

REMEMBERED = 10  # steps from which the curvature is known
DECREASE = 1e-4  # of what the slope promises, at least, for a step to be taken
SHORTEST = 2.0**-20  # of the first step tried

ValueAndSlope = Callable[[Floats], tuple[float, Floats]]
Step = tuple[Floats, Floats, float]


def least(
    function: ValueAndSlope, start: Floats, low: float, high: float, *, looks: int, close: float
) -> tuple[float, Floats]:
    """The least value found, and where.

    looks: at the function, at most. close: a relative gain over ten steps that ends the search.

    >>> value, where = least(lambda x: (float(((x - 3.0) ** 2).sum()), 2 * (x - 3.0)), np.zeros(2), 0.0, 2.0,
    ...                      looks=20, close=1e-9)
    >>> value, where.tolist()
    (2.0, [2.0, 2.0])
    """
    at = np.clip(start, low, high)
    value, slope = function(at)
    looks -= 1
    steps: deque[Step] = deque(maxlen=REMEMBERED)
    values = [value]
    while looks > 0:
        free = ((at > low) | (slope < 0.0)) & ((at < high) | (slope > 0.0))
        if not (slope * free).any():
            break
        way = -_curved(slope * free, steps) * free
        if not float(slope @ way) < 0.0:
            steps.clear()
            way = -slope * free
        length = 1.0 if steps else min(1.0, 1.0 / float(np.abs(way).max()))
        while looks > 0:
            tried = np.clip(at + length * way, low, high)
            found, turned = function(tried)
            looks -= 1
            if found <= value + DECREASE * float(slope @ (tried - at)) or length < SHORTEST:
                break
            length /= 2.0
        if not found < value:
            break
        moved, bent = tried - at, turned - slope
        if (product := float(moved @ bent)) > 1e-12 * float(bent @ bent):
            steps.append((moved, bent, product))
        at, value, slope = tried, found, turned
        values.append(value)
        if len(values) > REMEMBERED and values[-1 - REMEMBERED] - value <= close * abs(value):
            break
    return value, at


def _curved(slope: Floats, steps: deque[Step]) -> Floats:
    """The slope, divided by the curvature along the steps that were taken."""
    way, shares = slope.copy(), []
    for moved, bent, product in reversed(steps):
        shares.append(float(moved @ way) / product)
        way -= shares[-1] * bent
    if steps:
        moved, bent, product = steps[-1]
        way *= product / float(bent @ bent)
    for (moved, bent, product), share in zip(steps, reversed(shares), strict=True):
        way += (share - float(bent @ way) / product) * moved
    return way
