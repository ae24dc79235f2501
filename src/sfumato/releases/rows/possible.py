"""The nearest answers that rows can have: nowhere negative, with the same total.

Noise makes answers negative where there are few rows. Setting each of many cells to zero that is negative would bias
every sum they are part of, so sums are settled first and their parts after them.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Floats


def without_negatives(answers: Floats) -> Floats:
    """The nearest numbers (least squares) that are not negative and have the same sum: each is lowered by as much.

    >>> without_negatives(np.array([5.0, -2.0, 1.0])).tolist()
    [4.0, 0.0, 0.0]
    """
    total = float(answers.sum())
    if total <= 0:
        return np.zeros(len(answers))
    if answers.min() >= 0:
        return answers
    falling = np.sort(answers)[::-1]
    lowered = (np.cumsum(falling) - total) / np.arange(1, len(falling) + 1)
    by = lowered[np.flatnonzero(falling > lowered)[-1]]
    return np.asarray(np.maximum(answers - by, 0.0), dtype=np.float64)


def halved_without_negatives(answers: Floats) -> Floats:
    """Numbers that are not negative and have the same sum, at every scale as near to the answers as that allows.

    The whole is cut in two, across its longest axis, and so on down to single numbers; each half gets its share of what
    its parent has, none where its answer is negative. So a range far from a negative one keeps its sum, while the
    nearest numbers would fill a long empty range with what noise left above zero.

    >>> halved_without_negatives(np.array([30.0, 10.0, 8.0, -3.0])).tolist()
    [30.0, 10.0, 5.0, 0.0]
    """
    if answers.min() >= 0:
        return answers
    levels, level = [], answers
    while level.size > 1:
        axis = int(np.argmax(level.shape))
        levels.append((level, axis))
        first, second = _halves(level, axis)
        level = first.copy()
        level[_first(axis, second.shape[axis])] += second
    fixed = np.maximum(level, 0.0)
    while levels:
        level, axis = levels.pop()
        fixed = _divide(fixed, level, axis)
    return fixed


def _divide(parents: Floats, children: Floats, axis: int) -> Floats:
    """What each of two children gets of its parent's; one without a sibling gets all."""
    found = np.maximum(children, 0.0)
    first, second = _halves(found, axis)
    pairs = _first(axis, second.shape[axis])
    sums = first.copy()
    sums[pairs] += second
    nothing = sums <= 0
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(nothing, 0.0, parents / sums)
    first *= scale
    second *= scale[pairs]
    if nothing.any():  # neither child is known to hold anything: evenly
        alone = np.ones(first.shape[axis])
        alone[: second.shape[axis]] = 0.5
        evenly = np.where(nothing, parents * alone.reshape([-1 if a == axis else 1 for a in range(first.ndim)]), 0.0)
        first += evenly
        second += evenly[pairs]
    return found


def _halves(level: Floats, axis: int) -> tuple[Floats, Floats]:
    """Views of the first and of the second of every two neighbours."""
    before = (slice(None),) * axis
    return level[(*before, slice(0, None, 2))], level[(*before, slice(1, None, 2))]


def _first(axis: int, count: int) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, slice(0, count))
