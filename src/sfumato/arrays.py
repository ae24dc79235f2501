"""The kinds of arrays that the package passes around, under the names that its signatures use."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]  # numbers that are counted or summed
Codes = NDArray[np.int64]  # places: of cells, of rows, of values on an axis
Flags = NDArray[np.bool_]


def distinct(values: Codes) -> Codes:
    """Which numbers occur, in order. NumPy's own function loads its masked arrays first, which takes longer.

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered = np.sort(values)
    return ordered[np.diff(ordered, prepend=ordered[:1] - 1) > 0]
