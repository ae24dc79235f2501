"""A score to choose a whole table by: how far off it is where it is furthest off."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Queries
from sfumato.queries.arrays import LARGEST, frozen


@dataclass(frozen=True, eq=False)
class LargestMisfit:
    """Which of many public tables answers best: minus the largest |A[j] x - targets[i, j]| over the queries j.

    targets: whole numbers, public, a row for each candidate table i: what it would answer.

    One row of data in cell c moves A[j] x by A[j, c], hence every distance by at most the largest |A[j, c]|, which
    `entry_bound` is at least; and a maximum moves by no more than what it is taken over. Different candidates may move
    in different directions, so nothing is saved here.

    As in `Misfit`, distances are taken on a circle of 2^64 numbers, and 2^63 is cut off at 2^63 - 1.

    >>> from sfumato.queries import Identity
    >>> LargestMisfit(Identity(2), [[5, 5], [4, 1]]).scores(np.array([5, 1])).tolist()
    [-4, -1]
    """

    queries: Queries
    targets: NDArray[np.int64]

    def __post_init__(self) -> None:
        targets = np.asarray(self.targets)
        fits = targets.ndim == 2 and targets.size and targets.shape[1] == self.queries.rows
        if not fits or targets.dtype.kind not in "iu":
            raise QueryError(f"tables to choose from need {self.queries.rows} whole-number answers each; round them")
        if not -LARGEST <= int(targets.min()) <= int(targets.max()) <= LARGEST:
            raise QueryError("a target lies beyond 2^62; no table holds so many rows, so bring it within")
        object.__setattr__(self, "targets", frozen(targets.astype(np.int64)))

    @property
    def columns(self) -> int:
        return int(self.queries.columns)

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (self.targets,)

    @property
    def sensitivity(self) -> int:
        return int(self.queries.entry_bound)

    @property
    def spread(self) -> int:
        return 2 * self.sensitivity

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        apart = self.queries.apply_wrapping(counts) - self.targets  # modulo 2^64, as arrays of int64 are
        return np.asarray(-np.abs(np.maximum(apart, -(2**63 - 1))).max(axis=1), dtype=np.int64)
