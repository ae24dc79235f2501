"""Order of cells along Hilbert's curve, in which neighbours in the list are neighbours in the grid.

Skilling, "Programming the Hilbert curve", AIP Conference Proceedings 707 (2004): the bits of the coordinates are
exchanged and flipped, highest first, until their interleaving counts along the curve. The curve runs through a cube
whose side is a power of two; cells outside the domain are left out, and the rest keep their order.

Values of a category have no neighbours, so the curve runs along the ordered attributes only, once for each combination
of categories.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes
from sfumato.domain import Domain


def curve_order(domain: Domain) -> Codes:
    """The cells of a domain along Hilbert's curve, one combination of categories after the other.

    >>> from sfumato.domain import Axis
    >>> square = Domain((Axis("x", "integer", np.arange(3.0)), Axis("y", "integer", np.arange(3.0))))
    >>> curve_order(square).tolist()
    [0, 1, 3, 2]
    """
    cells = np.arange(domain.size, dtype=np.int64)
    block = np.zeros(domain.size, dtype=np.int64)
    ordered = []
    for axis in domain:
        code = domain.codes_along(axis.name, cells)
        if axis.ordered:
            ordered.append(code)
        else:
            block = block * axis.size + code
    if len(ordered) < 2:
        return np.lexsort((cells, block))
    return np.lexsort((cells, along_curve(np.stack(ordered)), block))


def along_curve(places: Codes) -> Codes:
    """The position on Hilbert's curve of points given by their coordinates, (axes, points).

    >>> along_curve(np.array([[0, 0, 1, 1], [0, 1, 1, 0]])).tolist()
    [0, 1, 2, 3]
    """
    axes = len(places)
    bits = max(1, int(places.max(initial=0)).bit_length())
    x = places.copy()
    top = np.int64(1) << (bits - 1)
    bit = top
    while bit > 1:
        below = bit - 1
        for axis in range(axes):
            set_here = (x[axis] & bit) != 0
            exchanged = np.where(set_here, 0, (x[0] ^ x[axis]) & below)
            x[0] ^= np.where(set_here, below, exchanged)
            x[axis] ^= exchanged
        bit >>= 1
    for axis in range(1, axes):  # Gray code
        x[axis] ^= x[axis - 1]
    flips = np.zeros_like(x[0])
    bit = top
    while bit > 1:
        flips ^= np.where((x[-1] & bit) != 0, bit - 1, 0)
        bit >>= 1
    x ^= flips
    position = np.zeros_like(x[0])
    for level in range(bits - 1, -1, -1):
        for axis in range(axes):
            position = (position << 1) | ((x[axis] >> level) & 1)
    return np.asarray(position, dtype=np.int64)
