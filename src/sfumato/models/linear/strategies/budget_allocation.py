"""How to allocate a budget: between queries whose Gram matrices commute, and between queries that meet in some cells.

Levels of a tree and tables of a cube share their eigenspaces, so that the squared error is the sum over spaces m of
asked[m] / answered[m], where what is answered is the sum over parts k of spans[m, k] weights[k]^2. A cell bears the sum
of the weights (pure epsilon) or of their squares (zCDP). At the best weights each part bears in proportion to what it
contributes; `best_weights` steps there. With one part per space its first step is the answer: the cube-root rule of
Cormode, Procopiuc, Shen, Srivastava and Yu (ICDE 2012) for pure epsilon, the fourth-root rule for zCDP.

Where parts of a workload are asked themselves, no cell may bear more than the budget: `best_precisions`.
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
    """Weights that sum to one, and the squared error with them; leading axes are separate problems.

    answered: from squares of weights to what they answer (spans applied); back: its transpose. start: 0 where a weight
    must be.

    >>> same = lambda x: x
    >>> best_weights(np.array([8.0, 1.0]), same, same, np.ones(2), True)[0].round(4).tolist()
    [0.6667, 0.3333]
    """
    weights, before = start / start.sum(axis=-1, keepdims=True), np.inf
    for _ in range(ROUNDS):
        squares = weights * weights
        spans = np.maximum(answered(squares), TINY)
        each = asked / spans
        error = each.sum(axis=-1)
        gain = squares * back(each / spans)
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
    """The squared error at noise of variance 1 for a cell that bears 1."""
    return np.asarray((asked / np.maximum(answered(weights**2), TINY)).sum(axis=-1) * _load(weights, pure))


def _load(weights: Floats, pure: bool) -> Floats:
    return np.asarray(weights.sum(axis=-1) ** 2 if pure else (weights**2).sum(axis=-1))


def whole_weights(weights: Floats, bits: int) -> list[int]:
    """Weights as whole numbers of so many bits; 0 where a weight is lost in rounding or not worth its part.

    >>> whole_weights(np.array([0.5, 0.25, 1e-9]), 3)
    [8, 4, 0]
    """
    scaled = weights / weights.max() * 2**bits
    return [0 if weight < NOT_WORTH * 2**bits else max(1, round(weight)) for weight in scaled.tolist()]


def best_precisions(importance: Floats, loads: Codes, power: int, *, tolerance: float = TOLERANCE) -> Floats:
    """Precisions s that make sum_i importance[i] / s_i^power least while sum_i s_i loads[i, c] <= 1 for every cell c.

    loads: parts by cells. A convex programme; few cells are ever full, so only those are looked at.

    >>> best_precisions(np.array([4.0, 1.0]), np.array([[1], [1]]), 1).round(4).tolist()  # the square-root rule
    [0.6667, 0.3333]
    """
    largest = np.maximum(loads.max(axis=1), 1).astype(np.float64)
    alone = np.eye(len(importance))  # each part's own hot cell; also keeps a part that touches no cell within bounds
    seen = loads.sum(axis=0).argmax(keepdims=True)
    while True:
        full = np.vstack([alone, loads[:, seen].T / largest])
        precisions = _inside(importance * largest**power, full, power, tolerance) / largest
        borne = precisions @ loads
        fullest = np.flatnonzero(borne > 1 + tolerance)  # such an excess is scaled back in the end
        if not len(fullest):
            return np.asarray(precisions / max(1.0, borne.max()))
        seen = np.union1d(seen, fullest[np.argsort(-borne[fullest])[: 2 * len(importance)]])


def _inside(importance: Floats, loads: Floats, power: int, tolerance: float) -> Floats:
    """The same by Newton's method behind a logarithmic barrier, on a list of cells that is short."""
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
