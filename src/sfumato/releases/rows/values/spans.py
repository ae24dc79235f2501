"""Where the value of a row can lie whose cells along several ordered attributes of one column are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Axis
from sfumato.frozen import dataclass


@dataclass(frozen=True, eq=False)
class Spans:
    """From `low` up to, not including, `high`, for each row; `missing` where it has no value."""

    low: Floats
    high: Floats
    missing: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]


def common_spans(axes: Sequence[Axis], codes: Mapping[str, Codes], bounds: tuple[float, float]) -> Spans:
    """What is in all cells of a row. Where noise put it into cells that share nothing, the earlier attribute decides.

    bounds: from where to where values lie that are wanted. A first or last cell holds what lies beyond it too, for such
    values are moved to it when they are read.
    """
    rows = len(codes[axes[0].name])
    low, high = np.full(rows, -np.inf), np.full(rows, np.inf)
    missing = np.ones(rows, dtype=bool)
    for axis in axes:
        edges, there = axis.edges.copy(), codes[axis.name] != axis.places
        edges[0], edges[-1] = min(edges[0], bounds[0]), max(edges[-1], bounds[1])
        at = np.minimum(codes[axis.name], axis.places - 1)
        both = np.maximum(low, edges[at]), np.minimum(high, edges[at + 1])
        fits = there & (both[0] < both[1])
        low, high = np.where(fits, both[0], low), np.where(fits, both[1], high)
        missing &= ~there
    low, high = np.where(missing, bounds[0], low), np.where(missing, bounds[1], high)
    return Spans(low, high, missing)


def widest(axes: Sequence[Axis], others: Sequence[tuple[float, float]] = ()) -> tuple[float, float]:
    """From the least to the greatest bound of attributes, and of what else is read from their column."""
    ends = [*((float(axis.edges[0]), float(axis.edges[-1])) for axis in axes), *others]
    return min(low for low, _ in ends), max(high for _, high in ends)
