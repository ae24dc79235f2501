"""Which parity of bits a label follows, read off noisy cells.

For bits x, a label y and counts n(x, y), the fit of a vector v is C(v) = sum over x of (-1)^(v.x) (n(x, 0) - n(x, 1)):
the rows whose label is the parity v.x, less those whose label is its opposite. The fast Walsh-Hadamard transform gives
all of them at once; the best fit has the largest |C(v)|. How sure that is: lab/papers/parity/doubt.py.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass


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
