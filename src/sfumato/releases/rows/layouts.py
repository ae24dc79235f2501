"""Two ways to hold a number for each cell: all cells laid out along their axes, or a list of some."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Protocol

import numpy as np

from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass


class Layout(Protocol):
    """Cells whose numbers can be summed along some axes, and sums handed back to the cells they are made of."""

    def along(self, values: Floats, axes: Sequence[int]) -> Floats:
        """The sums over all other axes."""

    def back(self, sums: Floats, axes: Sequence[int]) -> Floats:
        """For each cell, the number of the sum it is part of, in a shape that goes with the cells' own."""


@dataclass(frozen=True)
class LaidOut:
    """All cells, in an array with an axis for each attribute."""

    shape: tuple[int, ...]

    def along(self, values: Floats, axes: Sequence[int]) -> Floats:
        others = tuple(place for place in range(len(self.shape)) if place not in axes)
        return np.asarray(values.sum(axis=others), dtype=np.float64)

    def back(self, sums: Floats, axes: Sequence[int]) -> Floats:
        return sums.reshape([size if place in axes else 1 for place, size in enumerate(self.shape)])


@dataclass(frozen=True, eq=False)
class Listed:
    """Some cells of a domain, in a list."""

    domain: Domain
    cells: Codes

    def along(self, values: Floats, axes: Sequence[int]) -> Floats:
        shape = tuple(self.domain.shape[place] for place in axes)
        summed = np.bincount(self._labels(axes), weights=values, minlength=prod(shape))
        return np.asarray(summed, dtype=np.float64).reshape(shape)

    def back(self, sums: Floats, axes: Sequence[int]) -> Floats:
        return np.asarray(sums.reshape(-1)[self._labels(axes)], dtype=np.float64)

    def _labels(self, axes: Sequence[int]) -> Codes:
        label = np.zeros(len(self.cells), dtype=np.int64)
        for place in axes:
            axis = self.domain.axes[place]
            label = label * axis.size + self.domain.codes_along(axis.name, self.cells)
        return label


def ends_of(rows: Floats) -> Floats:
    """Where each cell ends on a line from 0 to 1, all of them in their order, each as wide as its share of the rows.

    >>> ends_of(np.array([1.0, 0.0, 3.0])).tolist()
    [0.25, 0.25, 1.0]
    """
    ends = np.cumsum(rows)
    ends /= ends[-1]
    last = int(np.flatnonzero(rows)[-1])
    ends[last:] = 1.0  # no place is lost to rounding, and none reaches a cell without rows
    return ends
