"""Names for the array types in signatures, and size limits that several modules share.

Beyond a limit, the work is done in another way or refused.
"""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sfumato.frozen import dataclass

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]  # numbers that are counted or summed
Codes = NDArray[np.int64]  # places: of cells, of rows, of values on an axis
Flags = NDArray[np.bool_]


MOST_DENSE = 2**25  # cells that are laid out in full; larger domains are published in the sparse form
MOST_MEASURED = 2**27  # cells that are measured in full by strategies that are products over the attributes, of which a
# file keeps the noisy answers alone: a gigabyte in memory
MOST_RUNNING = 2**20  # cells of a series with running totals, of which the noise of every part is kept
MOST_TRACKED = 2**25  # cells for which the charge keeps a number each; larger domains use one bound for all cells
MOST_MISFIT_GROUPS = 2**25  # groups of queries whose misfits are summed, a number each
MOST_SPANNED = 2**25  # columns of a measurement in a file that no estimate leans on
MOST_LAID_OUT = 2**25  # cells that are looked at one by one, where a region in SQL is no box


@dataclass(frozen=True, eq=False)
class ByAxis:
    """Index of the noise of every row of a Kronecker product, computed from codes of the rows of each factor.

    Noises are numbered by their codes, those of the last factor fastest. For products of so many rows that an array of
    their indices would be as large as their answers. along: code of each row of each factor.

    >>> which = ByAxis((np.array([0, 1, 1]), np.array([1, 0])))
    >>> np.asarray(which).tolist(), which[np.array([0, 3])].tolist()
    ([1, 0, 3, 2, 3, 2], [1, 2])
    """

    along: tuple[Codes, ...]

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """Number of codes of each factor."""
        return tuple(int(codes.max()) + 1 for codes in self.along)

    def __len__(self) -> int:
        return prod(map(len, self.along))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        numbers = np.zeros(1, dtype=np.min_scalar_type(prod(self.kinds) - 1) if dtype is None else dtype)
        for codes, kinds in zip(self.along, self.kinds, strict=True):
            numbers = np.add.outer(numbers * numbers.dtype.type(kinds), codes.astype(numbers.dtype)).reshape(-1)
        return numbers

    def __getitem__(self, rows: Codes) -> Codes:
        found, places = np.zeros(len(rows), dtype=np.int64), np.unravel_index(rows, [*map(len, self.along)])
        for codes, kinds, place in zip(self.along, self.kinds, places, strict=True):
            found = found * kinds + codes[place]
        return found


Which = Codes | ByAxis | None  # number of the noise of every row; None where all carry the first
