"""Smoothing of noisy cells, only to see which of them look alike: the S of ISPE.

Xiao, Xiong, Yuan, TR-2011-005, section 3.2 and appendix B. The Gaussian filter is the paper's mask, which is a product
of one mask of three cells per axis; the median filter takes the median over the same neighbourhood. Values of a
category have no neighbours: along such axes nothing is smoothed.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.errors import QueryError

MASK = (0.1065, 0.7870, 0.1065)  # times itself it is the paper's 3 x 3 mask: 0.6193 in the middle, 0.0838, 0.0113
METHODS = ("gaussian", "median", "none")


def smooth(noisy: Floats, axes: Sequence[int], method: str = "gaussian", iterations: int = 5) -> Floats:
    """Cells smoothed along some axes, several times; beyond an edge the edge cell is repeated.

    >>> smooth(np.array([0.0, 0.0, 10.0, 0.0, 0.0]), [0], "median", 1).tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0]
    """
    if method not in METHODS:
        raise QueryError(f"no smoothing {method!r}; there are {', '.join(METHODS)}")
    smoothed = noisy.astype(np.float64)
    if method == "none":
        return smoothed
    for _ in range(iterations):
        for axis in axes:
            before, after = _shifted(smoothed, axis)
            if method == "gaussian":
                smoothed = MASK[0] * before + MASK[1] * smoothed + MASK[2] * after
            else:
                smoothed = np.median([before, smoothed, after], axis=0)
    return smoothed


def noise_left(axes: Sequence[int], method: str, iterations: int) -> float:
    """The standard deviation of a smoothed difference between neighbours, for noise of variance 1 on every cell.

    Exact for the Gaussian filter, by what it makes of a single cell. Each median of three leaves at most what averaging
    leaves on the whole, and is taken for the Gaussian filter's.
    """
    if method == "none" or not axes or not iterations:
        return float(np.sqrt(2.0))
    middle = 2 * iterations + 3
    kernel = np.zeros(2 * middle + 1)
    kernel[middle] = 1.0
    for _ in range(iterations):
        kernel = np.convolve(kernel, MASK, mode="same")
    difference = kernel - np.roll(kernel, 1)
    along = float((difference**2).sum())
    across = float((kernel**2).sum())
    return float(np.sqrt(along * across ** (len(axes) - 1)))


def _shifted(values: Floats, axis: int) -> tuple[Floats, Floats]:
    """The neighbours before and after each cell."""
    size = values.shape[axis]
    places = np.arange(size)
    return (
        np.take(values, np.maximum(places - 1, 0), axis=axis),
        np.take(values, np.minimum(places + 1, size - 1), axis=axis),
    )
