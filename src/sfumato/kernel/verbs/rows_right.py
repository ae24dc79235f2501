"""A score to choose a rule by: how many rows it gets right."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import LARGEST, frozen

AT_ONCE = 2**24  # entries that are multiplied at a time
FEW_ROWS = 2.0**61  # up to which sums of counts surely fit 64 bits


@dataclass(frozen=True, eq=False)
class RowsRight:
    """Which of many rules is right about the most rows. right: for every rule and cell, whether it is right there.

    The score of a rule is the number of rows in the cells where it is right: the number of all rows less those that it
    gets wrong. All rows are the same to every rule, so choosing by it is choosing by minus the rows that are wrong.

    One row more lies in one cell. It raises the score of the rules that are right there by 1 and leaves the others: the
    sensitivity is 1, and all scores that move move the same way (docs/privacy.md, section 5).

    Sums that 64 bits might not hold are worked out in Python's own whole numbers. A score beyond 2^62 counts as 2^62:
    cutting off at a fixed number brings scores only closer, and turns no move around.

    >>> RowsRight(np.array([[True, False], [True, True]])).scores(np.array([3, 4])).tolist()
    [3, 7]
    """

    right: NDArray[np.bool_]

    def __post_init__(self) -> None:
        right = np.asarray(self.right)
        if right.ndim != 2 or not right.size or right.dtype != np.bool_:
            raise QueryError("rules to choose from are a table of true and false, a row for each rule; there is none")
        object.__setattr__(self, "right", frozen(right))

    @property
    def columns(self) -> int:
        return int(self.right.shape[1])

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (self.right,)

    @property
    def sensitivity(self) -> int:
        return 1

    @property
    def spread(self) -> int:
        return 1

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        if float(counts.sum(dtype=np.float64)) > FEW_ROWS:  # an overflow would betray how many rows there are
            exact = [sum(counts[row].tolist()) for row in self.right]
            return np.array([min(LARGEST, each) for each in exact], dtype=np.int64)
        step = max(1, AT_ONCE // self.columns)
        parts = (self.right[start : start + step] for start in range(0, len(self.right), step))
        return np.concatenate([part.astype(np.int64) @ counts for part in parts])
