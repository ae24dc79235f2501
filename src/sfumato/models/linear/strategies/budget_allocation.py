"""Allocate a budget between groups of queries so that the expected squared error on a workload is least.

`best_weights`: groups k whose Gram matrices commute. With common eigenspaces m, demand a_m and eigenvalues S[m, k],
weights w minimise

    sum over m of a_m / sum_k S[m, k] w_k^2   subject to   sum_k w_k = 1 (pure epsilon) or sum_k w_k^2 = 1 (zCDP),

by a fixed-point iteration whose first step is the cube-root rule (Cormode et al., ICDE 2012) or the fourth-root rule.

`best_precisions`: groups of workload queries measured themselves, where no cell may spend more than the budget; a
convex programme, solved by Newton's method with a logarithmic barrier and constraint generation.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sfumato.arrays import Codes, Floats

ROUNDS = 200
CLOSE = 1e-5  # relative change of the error at which the steps end
TINY = 1e-250  # in the place of nothing, so that what is asked of nothing is as good as infinite, and 0 / 0 is 0
NOT_WORTH = 2e-3  # of the largest weight: such a part is left out, its budget does more elsewhere
TOLERANCE = 1e-6  # relative, of the error that is minimised

Linear = Callable[[Floats], Floats]


def best_weights(asked: Floats, answered: Linear, back: Linear, start: Floats, pure: bool) -> tuple[Floats, Floats]:
    """Weights that minimise the squared error, and that error; leading axes are separate problems.

    asked: demand of each eigenspace, (..., spaces). answered: the map w^2 -> S w^2, (..., groups) to (..., spaces).
    back: its transpose. start: starting weights, (..., groups); 0 where a weight must be 0. The weights sum to one.

    >>> same = lambda x: x
    >>> best_weights(np.array([8.0, 1.0]), same, same, np.ones(2), True)[0].round(4).tolist()
    [0.6667, 0.3333]
    """
    weights, before = start / start.sum(axis=-1, keepdims=True), np.inf
    for _ in range(ROUNDS):
        squares = weights * weights
        spans = np.maximum(answered(squares), TINY)
        errors = asked / spans
        error = errors.sum(axis=-1)
        gain = squares * back(errors / spans)
        due = gain / gain.sum(axis=-1, keepdims=True)
        borne = weights if pure else squares / squares.sum(axis=-1, keepdims=True)
        weights = weights * (due / np.maximum(borne, TINY)) ** (1 / 3 if pure else 1 / 4)
        weights /= weights.sum(axis=-1, keepdims=True)
        total = float((error * _load(weights, pure)).sum())
        if abs(before - total) <= CLOSE * total:
            break
        before = total
    return weights, squared_error(asked, answered, weights, pure)


def squared_error(asked: Floats, answered: Linear, weights: Floats, pure: bool) -> Floats:
    """Squared error of weights (..., groups), for unit noise variance at unit load."""
    return np.asarray((asked / np.maximum(answered(weights**2), TINY)).sum(axis=-1) * _load(weights, pure))


def _load(weights: Floats, pure: bool) -> Floats:
    """Squared sensitivity of the weights: (sum w)^2 for pure epsilon, sum w^2 for zCDP."""
    return np.asarray(weights.sum(axis=-1) ** 2 if pure else (weights**2).sum(axis=-1))


def whole_weights(weights: Floats, bits: int) -> list[int]:
    """Scale weights (groups,) so that the largest is 2^bits, and round them; 0 where below NOT_WORTH of the largest.

    >>> whole_weights(np.array([0.5, 0.25, 1e-9]), 3)
    [8, 4, 0]
    """
    scaled = weights / weights.max() * 2**bits
    return [0 if weight < NOT_WORTH * 2**bits else max(1, round(weight)) for weight in scaled.tolist()]


def best_precisions(importance: Floats, loads: Codes, power: int, *, tolerance: float = TOLERANCE) -> Floats:
    """Minimise sum_i importance_i / s_i^power subject to sum_i s_i loads[i, c] <= 1 for every cell c.

    importance: (groups,). loads: (groups, cells). Constraints are generated as they are violated, since few are active.
    Returns the precisions s, (groups,).

    >>> best_precisions(np.array([4.0, 1.0]), np.array([[1], [1]]), 1).round(4).tolist()  # the square-root rule
    [0.6667, 0.3333]
    """
    largest = np.maximum(loads.max(axis=1), 1).astype(np.float64)
    alone = np.eye(len(importance))  # each part's own hot cell; also keeps a part that touches no cell within bounds
    active = loads.sum(axis=0).argmax(keepdims=True)
    while True:
        full = np.vstack([alone, loads[:, active].T / largest])
        precisions = _inside(importance * largest**power, full, power, tolerance) / largest
        borne = precisions @ loads
        fullest = np.flatnonzero(borne > 1 + tolerance)  # such an excess is scaled back in the end
        if not len(fullest):
            return np.asarray(precisions / max(1.0, borne.max()))
        active = np.union1d(active, fullest[np.argsort(-borne[fullest])[: 2 * len(importance)]])


def _inside(importance: Floats, loads: Floats, power: int, tolerance: float) -> Floats:
    """Barrier method (Newton steps) for the same programme with few constraints; loads: (constraints, groups)."""
    cells = len(loads)
    s = np.full(loads.shape[1], 0.5 / loads.sum(axis=1).max())
    importance = importance / (importance * s**-power).sum()
    sharpness = float(cells)  # the barrier costs at most cells / sharpness of the value, which is about 1

    def value(at: Floats) -> float:
        room = 1.0 - loads @ at
        if at.min() <= 0 or room.min() <= 0:
            return np.inf
        return float(sharpness * (importance * at**-power).sum() - np.log(room).sum())

    while sharpness < cells / tolerance:
        sharpness *= 20
        for _ in range(50):
            room = 1.0 - loads @ s
            slope = -sharpness * power * importance * s ** (-power - 1) + (1 / room) @ loads
            bend = np.diag(sharpness * power * (power + 1) * importance * s ** (-power - 2))
            step = -np.linalg.solve(bend + (loads.T / room**2) @ loads, slope)
            decrease = -float(slope @ step)
            if decrease < 1e-4:  # then the value is within 1e-4 / sharpness
                break
            size, before = 1.0, value(s)
            while value(s + size * step) > before - 0.25 * size * decrease and size > 1e-12:
                size /= 2
            s = s + size * step
    return s
