"""What a table tells beyond its margins, in whole numbers: contrasts of its values along every axis.

The values of an axis are halved again and again. A half of p values against one of q is the row with q / g on the
first and -p / g on the others, g = gcd(p, q). The rows add up to zero and are orthogonal, so that with noise in
proportion to its length on each of them they say of the axis what its values with even noise do, but for their sum:
their Gram matrix, each row divided by its length, is I - J / n. Rows of several axes are multiplied.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd

import numpy as np

from sfumato.arrays import Floats
from sfumato.queries import Identity, Kron, Queries, Scaled, Weighted


@lru_cache(maxsize=64)
def contrasts(values: int) -> Weighted:
    """The contrasts of two values or more.

    >>> contrasts(3).dense().tolist()
    [[2, -1, -1], [0, 1, -1]]
    """
    rows, waiting = [], [(0, values)]
    while waiting:
        first, end = waiting.pop(0)
        middle = (first + end) // 2
        left, right = middle - first, end - middle
        if left:
            row = np.zeros(values, dtype=np.int64)
            row[first:middle], row[middle:end] = right // gcd(left, right), -left // gcd(left, right)
            rows.append(row)
            waiting += [(first, middle), (middle, end)]
    return Weighted(np.array(rows))


@lru_cache(maxsize=256)
def tables(sizes: tuple[int, ...], most: int) -> Queries:
    """Rows over the cells of a table: contrasts along axes of at most so many values, all values along the others.

    >>> tables((2, 3), 2).dense().tolist()
    [[1, 0, 0, -1, 0, 0], [0, 1, 0, 0, -1, 0], [0, 0, 1, 0, 0, -1]]
    """
    factors: list[Queries] = [contrasts(size) if size <= most else Identity(size) for size in sizes]
    return Kron(*factors) if len(factors) > 1 else factors[0] if factors else Identity(1)


@lru_cache(maxsize=32)
def squares(queries: Queries) -> Floats:
    """The squared length of every row of such tables."""
    if isinstance(queries, Kron):
        found: Floats = np.ones(1)
        for factor in queries.factors:
            found = np.asarray(np.kron(found, squares(factor)), dtype=np.float64)
        return found
    if isinstance(queries, Weighted):
        return np.asarray((queries.matrix**2).sum(axis=1), dtype=np.float64)
    return np.ones(queries.rows)


@lru_cache(maxsize=32)
def levelled(queries: Queries, magnitude: int) -> Queries:
    """The rows of such tables, each times a whole number that brings it about to one length: the magnitude.

    Noise of one size on all rows is then noise in proportion to its length on each row as it was, up to rounding.
    """
    lengths = np.sqrt(squares(queries))
    weights = np.maximum(1, np.rint(magnitude / lengths)).astype(np.int64)
    return Scaled(queries, int(weights[0]) if (weights == weights[0]).all() else weights)
