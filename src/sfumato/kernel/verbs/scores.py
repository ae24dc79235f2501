"""Scores of the exponential mechanism (`select`), each with a proved sensitivity.

A score is a whole number per candidate. Its sensitivity is the most that one row of data can change any candidate's
score. Its spread is the most by which the changes of two candidates can differ: twice the sensitivity at most, and what
the exponential mechanism pays for (docs/privacy.md, section 5). Only those named at the end are accepted, so that a
wrong sensitivity cannot come from outside.

    LargestMisfit   of a public table: minus its largest error over the queries
    RowsRight       of a rule: the rows that it gets right
    Rank            of a cell: how close it lies to a quantile
    Misfit          of a query: its error; `measure_misfit` adds these up and `first_above` compares them
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Queries
from sfumato.queries.arrays import LARGEST, frozen


@dataclass(frozen=True, eq=False)
class LargestMisfit:
    """Score of a public table i: minus its largest error, |A[j] x - targets[i, j]| over the queries j.

    targets: whole numbers, public, a row for each candidate table i: what it would answer.

    Each error moves by at most `entry_bound`, as in `Misfit`, and so does the largest, either way (docs/privacy.md,
    section 5).

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


AT_ONCE = 2**24  # entries that are multiplied at a time
FEW_ROWS = 2.0**61  # up to which sums of counts surely fit 64 bits


@dataclass(frozen=True, eq=False)
class RowsRight:
    """Score of a rule: the rows that it is right about. right: for every rule and cell, whether it is right there.

    One row more raises the score of the rules that are right in its cell by 1 and leaves the others: the sensitivity is
    1, and all scores that move move the same way (docs/privacy.md, section 5).

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


FINEST_QUANTILE = 2**20


@dataclass(frozen=True)
class Rank:
    """Score of a cell: closeness, by rank in the order of cells, to a quantile of the rows (1/2 is the median).

    With n rows, L(j) of them before cell j and U(j) up to and including it, the score of j is minus the distance from
    the target a n / b to the span from L(j) to U(j), times b so that it is whole:

        score(j) = -max(0, a n - b U(j), b L(j) - a n)

    One more row changes n by 1 and U(j), L(j) by 0 or 1 each, so a n - b U(j) changes by a or by a - b, and
    b L(j) - a n by -a or by b - a. The larger of these in size is max(a, b - a), the sensitivity; taking a maximum of
    terms does not increase it.

    The least and the greatest value, a = 0 and a = b, pay half: of the greatest, score(j) = U(j) - n, which one more
    row lowers by 1 for the cells before its own and leaves alone for the others. No score rises, so no two changes are
    further apart than 1; the least value is its mirror image.

    Products that 64 bits cannot hold are worked out in Python's own whole numbers. A distance beyond 2^62 counts as
    2^62: cutting off at a fixed number brings scores only closer.

    >>> Rank(Fraction(1, 2)).scores(np.array([1, 1, 8])).tolist()
    [-8, -6, 0]
    """

    quantile: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.quantile <= 1:
            raise QueryError(f"a quantile lies between 0 and 1, not {self.quantile}")
        if self.quantile.denominator > FINEST_QUANTILE:
            raise QueryError(
                f"a quantile is a fraction with a denominator of at most {FINEST_QUANTILE:,}; write 1/10, not 0.1"
            )

    @property
    def sensitivity(self) -> int:
        a, b = self.quantile.as_integer_ratio()
        return max(a, b - a)

    @property
    def spread(self) -> int:
        return 1 if self.quantile in (0, 1) else 2 * self.sensitivity

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        a, b = self.quantile.as_integer_ratio()
        up_to = np.cumsum(counts)
        if b * int(up_to[-1]) > LARGEST:  # exact whole numbers of any size: an overflow would betray how many rows
            up_to = np.cumsum(counts.astype(object))
        target = a * up_to[-1]
        short, beyond = target - b * up_to, b * (up_to - counts) - target
        return np.asarray(-np.minimum(LARGEST, np.maximum(0, np.maximum(short, beyond))), dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Misfit:
    """Score of a query j: the error of a public guess, |A[j] x - targets[j]|.

    targets: whole numbers, public, one for each row; what an estimate made from published numbers would answer.

    One row in cell c moves row j by at most |A[j, c]|, `entry_bound` at most, also on the circle of 2^64 numbers on
    which distances are taken; 2^63 counts as 2^63 - 1 (docs/privacy.md, section 6).

    >>> from sfumato.queries import Identity
    >>> Misfit(Identity(3), [4, 0, 1]).scores(np.array([5, 5, 1])).tolist()
    [1, 5, 0]
    """

    queries: Queries
    targets: NDArray[np.int64]

    def __post_init__(self) -> None:
        targets = np.asarray(self.targets)
        if targets.shape != (self.queries.rows,) or targets.dtype.kind not in "iu":
            raise QueryError(f"{self.queries.rows} queries need as many targets, in whole numbers; round them")
        if targets.size and not -LARGEST <= int(targets.min()) <= int(targets.max()) <= LARGEST:
            raise QueryError("a target lies beyond 2^62; no table holds so many rows, so bring it within")
        object.__setattr__(self, "targets", frozen(targets.astype(np.int64)))

    @property
    def sensitivity(self) -> int:
        return int(self.queries.entry_bound)

    @property
    def spread(self) -> int:
        return 2 * self.sensitivity

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        apart = self.queries.apply_wrapping(counts) - self.targets  # modulo 2^64, as arrays of int64 are
        return np.asarray(np.abs(np.maximum(apart, -(2**63 - 1))), dtype=np.int64)


Score = Rank | Misfit | RowsRight | LargestMisfit
SCORES = (Rank, Misfit, RowsRight, LargestMisfit)
