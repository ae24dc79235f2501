"""How precise each part of a workload deserves to be, when no cell may bear more than the budget."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Floats

TOLERANCE = 1e-6  # relative, of the error that is minimised


def best_precisions(weights: Floats, loads: NDArray[np.int64], power: int, *, tolerance: float = TOLERANCE) -> Floats:
    """Precisions s that make sum_i weights[i] / s_i^power least while sum_i s_i loads[i, c] <= 1 for every cell c.

    loads: parts by cells. A convex programme; few cells are ever full, so only those are looked at.

    >>> best_precisions(np.array([4.0, 1.0]), np.array([[1], [1]]), 1).round(4).tolist()  # the square-root rule
    [0.6667, 0.3333]
    """
    largest = np.maximum(loads.max(axis=1), 1).astype(np.float64)
    alone = np.eye(len(weights))  # each part's own hot cell; also keeps a part that touches no cell within bounds
    seen = loads.sum(axis=0).argmax(keepdims=True)
    while True:
        full = np.vstack([alone, loads[:, seen].T / largest])
        precisions = _inside(weights * largest**power, full, power, tolerance) / largest
        borne = precisions @ loads
        fullest = np.flatnonzero(borne > 1 + tolerance)  # such an excess is scaled back in the end
        if not len(fullest):
            return np.asarray(precisions / max(1.0, borne.max()))
        seen = np.union1d(seen, fullest[np.argsort(-borne[fullest])[: 2 * len(weights)]])


def _inside(weights: Floats, loads: Floats, power: int, tolerance: float) -> Floats:
    """The same by Newton's method behind a logarithmic barrier, on a list of cells that is short."""
    cells = len(loads)
    s = np.full(loads.shape[1], 0.5 / loads.sum(axis=1).max())
    weights = weights / (weights * s**-power).sum()
    sharpness = float(cells)  # the barrier costs at most cells / sharpness of the value, which is about 1

    def value(at: Floats) -> float:
        room = 1.0 - loads @ at
        if at.min() <= 0 or room.min() <= 0:
            return np.inf
        return float(sharpness * (weights * at**-power).sum() - np.log(room).sum())

    while sharpness < cells / tolerance:
        sharpness *= 20
        for _ in range(50):
            room = 1.0 - loads @ s
            slope = -sharpness * power * weights * s ** (-power - 1) + (1 / room) @ loads
            bend = np.diag(sharpness * power * (power + 1) * weights * s ** (-power - 2))
            step = -np.linalg.solve(bend + (loads.T / room**2) @ loads, slope)
            decrease = -float(slope @ step)
            if decrease < 1e-4:  # then the value is within 1e-4 / sharpness
                break
            size, before = 1.0, value(s)
            while value(s + size * step) > before - 0.25 * size * decrease and size > 1e-12:
                size /= 2
            s = s + size * step
    return s
