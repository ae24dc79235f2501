"""Best-fitting parity of a label, read off noisy cells, and a bound on the probability that it is wrong.

For bits x, a label y and counts n(x, y), the fit of a vector v is C(v) = sum over x of (-1)^(v.x) (n(x, 0) - n(x, 1)):
the rows whose label is the parity v.x, less those whose label is its opposite. The fast Walsh-Hadamard transform gives
all of them at once; the best fit has the largest |C(v)|.

The bound holds for every table. Every cell carries independent symmetric noise. A fit C(v) carries a sum of as many
noises as there are cells; the difference of two fits, in which half of the cells cancel, twice a sum T of half as many.
Say that u fits the true table best, and that v was found, ahead of every other by a gap g. If v is not u, noise alone
has moved some fit past that of u by at least g, for u is ahead in truth. There are K others, so this happens, on any
table, with a probability of at most K P(2 T >= g). The opposite of u, in which no cell cancels, is bounded by itself,
by its own gap 2 |C(v)|; each of the two bounds holds, so twice the larger bounds both together.
"""

from __future__ import annotations

from math import exp, log, log1p, sqrt

import numpy as np

from sfumato.answers.noise_sum import MOMENTS, half_width
from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.measurement import Laplace


@dataclass(frozen=True)
class Learnt:
    """The parity that fits best. vector: a bit for each attribute but the label, the first one highest.

    opposite: whether the label is 1 where the parity is 0. lead: its |C(v)|. gap: by how much it is ahead of the next.
    """

    vector: int
    opposite: bool
    lead: float
    gap: float


def transformed(values: Whole) -> Whole:
    """The Walsh-Hadamard transform of a list whose length is a power of two, exact in whole numbers.

    >>> transformed(np.array([3, 1])).tolist()
    [4, 2]
    """
    found = np.array(values, dtype=np.int64)
    step = 1
    while step < len(found):
        pairs = found.reshape(-1, 2, step)
        found = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        step *= 2
    return found


def learn(zeros: Whole, ones: Whole) -> Learnt:
    """The best vector besides 0, from noisy counts by the bits x (the first attribute highest) of either label."""
    fits = transformed(zeros - ones)
    sizes = np.abs(fits)
    sizes[0] = -1  # a label that never changes is no parity
    best = int(sizes.argmax())
    lead = int(sizes[best])
    sizes[best] = -1
    return Learnt(best, bool(fits[best] < 0), float(lead), float(lead - max(0, int(sizes.max()))))


def odd(bits: Whole) -> Whole:
    """Whether the number of ones is odd.

    >>> odd(np.array([0, 1, 3, 7])).tolist()
    [0, 1, 0, 1]
    """
    for shift in (32, 16, 8, 4, 2, 1):
        bits = bits ^ (bits >> shift)
    return np.asarray(bits & 1, dtype=np.int64)


def as_cells(counts: Floats | Whole, place: int, attributes: int) -> tuple[Whole, Whole]:
    """Counts of all cells, the last attribute running fastest, as counts by the bits of the others for either label.

    place: of the label among the attributes.
    """
    grid = np.moveaxis(np.asarray(counts).reshape((2,) * attributes), place, -1)
    flat = np.asarray(grid.reshape(-1, 2), dtype=np.int64)
    return flat[:, 0].copy(), flat[:, 1].copy()


AT_MOST = 0.999  # of the moment at which a Laplace noise has none: the bound is sought below it
CLOSE = 1000  # parts of a number of rows that nobody tells apart
TINY, HALVINGS = 1e-9, 20  # below the first Chernoff's bound will do; above it, steps of a search


def parity_doubt(lead: float, gap: float, cells: int, noise: Laplace) -> float:
    """Bound on the probability that another vector fits the true table better although this one is so far ahead.

    lead: |C(v)| of the one that was found. gap: to the next.

    >>> from fractions import Fraction
    >>> parity_doubt(100.0, 0.0, 16, Laplace(Fraction(1))), parity_doubt(100.0, 90.0, 16, Laplace(Fraction(1))) < 1e-6
    (1.0, True)
    """
    others = cells - 4  # every vector of one bit less, but 0 and the one found, and each opposite
    beyond = others * tail(noise, cells // 2, gap / 2.0) if others else 0.0
    return min(1.0, 2.0 * max(beyond, tail(noise, cells, lead)))


def enough_ahead(cells: int, noise: Laplace, doubt: float) -> int:
    """Lead over the next vector, in rows, from which the doubt is no more than this.

    >>> from fractions import Fraction
    >>> enough_ahead(16, Laplace(Fraction(1)), 0.05)
    25
    """
    low, high = 0, 1
    while parity_doubt(high, high, cells, noise) > doubt:
        low, high = high, 2 * high
    while high - low > max(1, high // CLOSE):
        middle = (low + high) // 2
        low, high = (low, middle) if parity_doubt(middle, middle, cells, noise) <= doubt else (middle, high)
    return high


def tail(noise: Laplace, many: int, beyond: float) -> float:
    """A bound on the chance that a sum of so many noises is at least this.

    Where it is tiny, Chernoff's at the best of 25 moments; else what the distribution of the sum gives, rounded up.

    >>> from fractions import Fraction
    >>> tail(Laplace(Fraction(1)), 4, 0.0), round(tail(Laplace(Fraction(1)), 4, 5.0), 3)
    (1.0, 0.048)
    """
    if beyond <= 0.0:
        return 1.0
    if noise.variance == 0.0:  # of a budget so large that there is no noise
        return 0.0
    # Up to the moment that suits a normal sum and a half more, below the one at which a single noise has none.
    limit = min(AT_MOST / float(noise.scale), 1.5 * beyond / (noise.variance * many))
    moments = limit * np.append(MOMENTS, 1.0)
    growth = np.array([-many * log1p(-min(_drop(noise, moment), 1.0 - 1e-15)) for moment in moments])
    bound = min(1.0, exp(float((growth - moments * beyond).min())))
    if bound < TINY:
        return bound
    low, high = log(TINY / 10.0), log(0.5)  # a symmetric sum reaches a positive number half of the time at most
    for _ in range(HALVINGS):
        middle = (low + high) / 2.0
        reached = half_width([(1.0, noise, many)], 1.0 - 2.0 * exp(middle)) < beyond
        low, high = (low, middle) if reached else (middle, high)
    return min(bound, exp(high))


def _drop(noise: Laplace, moment: float) -> float:
    """1 minus 1 over the moment generating function: 2 variance sinh(moment / 2)^2."""
    root = sqrt(2.0 * noise.variance) * float(np.sinh(moment / 2.0))  # whose parts, squared, need not be numbers
    return root * root
