"""Which rows along an axis carry the same noises, whatever the rows along the other axes: mostly those of one level."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.typing import NDArray

from sfumato.arrays import Codes
from sfumato.least_squares.classes import ranked, words

FEW_CLASSES = 2**6  # that are told apart by comparing; strategies have a few levels


def noises_along(which: Codes | None, rows: Sequence[int]) -> tuple[list[Codes], Codes] | None:
    """Classes of the rows along each axis, and the noise of each combination of classes; None where there are many.

    which: the noise of every combination of rows, by number; None where all carry the first.
    """
    if which is None:
        return [np.zeros(count, dtype=np.int64) for count in rows], np.zeros([1] * len(rows), dtype=np.int64)
    grid = narrow(which).reshape(rows)
    classes = [_compared(_in_front(grid, place)) for place in range(len(rows))]
    found = [each for each in classes if each is not None]
    if len(found) < len(rows):
        return None
    examples = [np.array([np.argmax(each == number) for number in range(each.max() + 1)]) for each in found]
    return found, grid[np.ix_(*examples)].astype(np.int64)


def noise_classes(grid: NDArray[np.integer], place: int) -> Codes:
    """Classes of the rows along one axis."""
    front = _in_front(grid, place)
    found = _compared(front)
    return ranked(np.asarray(front.astype(np.uint64) @ words(front.shape[1]))) if found is None else found


def narrow(which: Codes) -> NDArray[np.integer]:
    """The same numbers in as few bytes as they take."""
    return which.astype(np.uint8 if len(which) and which.max() < 2**8 else np.int64, copy=False)


def _in_front(grid: NDArray[np.integer], place: int) -> NDArray[np.integer]:
    return np.moveaxis(grid, place, 0).reshape(grid.shape[place], prod(grid.shape) // grid.shape[place])


def _compared(front: NDArray[np.integer]) -> Codes | None:
    """Classes of equal rows; the last row is compared first, for it is mostly a cell, and of these there are most."""
    found, left = np.zeros(len(front), dtype=np.int64), np.arange(len(front))
    for number in range(FEW_CLASSES):
        same = (front[left] == front[left[-1]]).all(axis=1) if number else (front == front[-1]).all(axis=1)
        found[left[same]] = number
        left = left[~same]
        if not len(left):
            return found
    return None
