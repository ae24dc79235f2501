"""What kind of question a weighted sum of cells is: how many attributes it restricts, and how many cells it sums.

Cells count by their weights: (sum of |w|)^2 / (sum of w^2) of them, which is their number where all weigh alike.
"""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes, Flags, Floats
from sfumato.domain import Domain
from sfumato.frozen import dataclass
from sfumato.inference.fits.grouped import Grouped, summed


@dataclass(frozen=True, eq=False)
class Questions:
    """Of several sums of cells.

    restricted: how many attributes each asks about in part. cells: how many it sums. rows: what a cell of it is
    estimated to hold, on average.
    """

    restricted: Codes
    cells: Floats
    rows: Floats

    @classmethod
    def of_columns(cls, domain: Domain, columns: Floats, estimate: Floats) -> Questions:
        """columns: weights of all cells, (cells, sums)."""
        sums = columns.shape[1]
        laid_out = (columns != 0.0).reshape(*domain.shape, sums)
        restricted = np.zeros(sums, dtype=np.int64)
        for axis, length in enumerate(domain.shape):
            others = tuple(place for place in range(len(domain.shape)) if place != axis)
            restricted += laid_out.any(axis=others).sum(axis=0) < length
        size = np.abs(columns)
        return cls(restricted, *_sizes(size.sum(axis=0), (size**2).sum(axis=0), size.T @ estimate))

    @classmethod
    def of_groups(cls, domain: Domain, asked: Grouped, estimate: Floats) -> Questions:
        """asked: weights of cells. What all groups have in common decides alone, where a sum has such weights.

        The answers are those of each group's sums, one group after the other.
        """
        restricted = np.zeros((asked.groups, asked.sums), dtype=np.int64)
        for axis, length in zip(domain, domain.shape, strict=True):
            along = domain.codes_along(axis.name, asked.place)
            for one in range(asked.sums):
                touched = asked.weights[:, one] != 0.0
                pairs = np.unique(asked.group[touched] * length + along[touched])
                restricted[:, one] += np.bincount(pairs // length, minlength=asked.groups) < length
        size = np.abs(asked.weights)
        parts = [summed(asked.group, each, asked.groups) for each in (size, size**2)]
        parts.append(summed(asked.group, size * estimate[asked.place, None], asked.groups))
        if asked.whole is not None:
            common = cls.of_columns(domain, asked.whole, estimate)
            everywhere = asked.whole.any(axis=0)
            restricted[:, everywhere] = common.restricted[everywhere]
            size = np.abs(asked.whole)
            for part, whole in zip(parts, (size, size**2, size * estimate[:, None]), strict=True):
                part[:, everywhere] = whole.sum(axis=0)[everywhere]
        return cls(restricted.reshape(-1), *_sizes(*(part.reshape(-1) for part in parts)))

    def some(self, part: slice) -> Questions:
        """Those of a stretch."""
        return Questions(self.restricted[part], self.cells[part], self.rows[part])


def in_ways(questions: Questions, attributes: int) -> tuple[Flags, Flags]:
    """Which ask about one attribute of several, and which about two of more."""
    one = (questions.restricted <= 1) & (attributes > 1)
    return one, (questions.restricted == 2) & (attributes > 2)


def _sizes(size: Floats, squares: Floats, rows: Floats) -> tuple[Floats, Floats]:
    """How many cells, and the mean rows of one."""
    there = squares > 0.0
    cells = np.divide(size**2, squares, out=np.ones_like(size), where=there)
    return np.maximum(cells, 1.0), np.divide(rows, size, out=np.zeros_like(rows), where=there)
