"""ISPE: noisy cells (I), smoothing (S), partition into regions of similar counts (P), estimation from both (E).

Xiao, Xiong, Yuan, "ISPE: Adaptive differentially private data release and query estimation", TR-2011-005; section 3.2
and appendix B for the filters. The Gaussian filter is the paper's mask, a product of one mask of three cells per axis;
the median filter has the same neighbourhood. Smoothing serves the partition alone. Categories have no neighbours, so
nothing is smoothed along them.

Corrected: regions grow by the absolute difference of neighbours (Algorithm 2 lacks it); estimates that share noise are
treated as dependent; the deviation of neighbours from each other is estimated; so intervals have their coverage.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes, Flags, Floats
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.kernel.budget import Budget
from sfumato.kernel.curator import Curator
from sfumato.models.base.mechanism import Holds, Mechanism
from sfumato.models.partition.search import MOST_CELLS, grow_buckets, ordered_axes, release_regions
from sfumato.queries import Workload
from sfumato.releases.contents.cube import Cube
from sfumato.schema import Schema

MASK = (0.1065, 0.7870, 0.1065)  # times itself it is the paper's 3 x 3 mask: 0.6193 in the middle, 0.0838, 0.0113
METHODS = ("gaussian", "median", "none")


def smooth(
    noisy: Floats, axes: Sequence[int], method: str = "gaussian", iterations: int = 5, possible: Flags | None = None
) -> Floats:
    """Filter noisy cells along some axes, `iterations` times; beyond an edge the edge cell is repeated.

    noisy: counts in the shape of the domain. possible: flags of the cells that are no structural zeros, in this shape;
    the others are beyond an edge.

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
            if possible is not None:
                there = _shifted(possible, axis)
                before, after = (np.where(*each, smoothed) for each in zip(there, (before, after), strict=True))
            if method == "gaussian":
                smoothed = MASK[0] * before + MASK[1] * smoothed + MASK[2] * after
            else:
                smoothed = np.median([before, smoothed, after], axis=0)
    return smoothed


def noise_left(axes: Sequence[int], method: str, iterations: int) -> float:
    """Standard deviation of the difference of two smoothed neighbours, for unit noise variance in every cell.

    Exact for the Gaussian filter, from its impulse response. The median filter is taken to leave the same.
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


def _shifted(values: NDArray[Any], axis: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Arrays of the neighbours before and after each cell along an axis."""
    size = values.shape[axis]
    places = np.arange(size)
    return (
        np.take(values, np.maximum(places - 1, 0), axis=axis),
        np.take(values, np.minimum(places + 1, size - 1), axis=axis),
    )


@dataclass(frozen=True)
class Settings:
    """Settings chosen by judgement; the paper leaves all of them to the user.

    first: share of the budget for the cells, alpha_1 / alpha in the paper. More finds regions better and measures them
    worse.
    smoothing: "gaussian", "median" or "none"; iterations: more see larger regions and blur edges.
    xi: smoothed neighbours that differ by less are one region. None: `apart` standard deviations of the noise in such a
    difference; more make fewer regions.
    """

    first: Fraction = Fraction(3, 4)
    smoothing: str = "gaussian"
    iterations: int = 5
    xi: float | None = None
    apart: float = 3.0


SETTINGS = Settings()


def ispe(
    curator: Curator, schema: Schema, budget: Budget, workload: Workload | None = None, *, settings: Settings = SETTINGS
) -> Cube:
    """Measure cells, grow regions of similar smoothed counts, measure the regions, and estimate from both."""
    axes = ordered_axes(schema.domain)
    how = settings.smoothing, settings.iterations

    def regions(noisy: Floats, variance: float, possible: Flags | None) -> Codes:
        left = settings.apart * variance**0.5 * noise_left(axes, *how)
        xi = max(left, 0.5) if settings.xi is None else settings.xi  # whole counts that differ by less are equal
        return grow_buckets(smooth(noisy, axes, *how, possible), axes, xi, possible)

    return release_regions(curator, schema, budget, settings.first, regions, workload)


MECHANISM = Mechanism(
    name="ispe",
    summary="smooths noisy cells into regions, uses both",
    paper="Xiao, Xiong, Yuan 2011",
    run=ispe,
    holds=Holds(most_cells=MOST_CELLS, zeros=True),
)
