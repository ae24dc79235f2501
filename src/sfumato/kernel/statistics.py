"""Scores that `select` may maximise, each with a proved sensitivity.

A score is a whole number per candidate. Its sensitivity is the most that one row of data can change any candidate's
score. Only the scores of this file are accepted, so that a wrong sensitivity cannot come from outside.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError


@dataclass(frozen=True)
class MostRows:
    """Which cell holds the most rows.

    A row lies in one cell and changes its count by 1: sensitivity 1.
    """

    @property
    def sensitivity(self) -> int:
        return 1

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        return counts


@dataclass(frozen=True)
class Rank:
    """Which cell, in the order of cells, holds the given quantile of the rows (1/2 is the median).

    With n rows, L(j) of them before cell j and U(j) up to and including it, the score of j is minus the distance from
    the target a n / b to the span from L(j) to U(j), times b so that it is whole:

        score(j) = -max(0, a n - b U(j), b L(j) - a n)

    One more row changes n by 1 and U(j), L(j) by 0 or 1 each, so a n - b U(j) changes by a or by a - b, and
    b L(j) - a n by -a or by b - a. The larger of these in size is max(a, b - a), the sensitivity; taking a maximum of
    terms does not increase it.
    """

    quantile: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.quantile <= 1:
            raise QueryError(f"a quantile lies between 0 and 1, not {self.quantile}")

    @property
    def sensitivity(self) -> int:
        a, b = self.quantile.as_integer_ratio()
        return max(a, b - a)

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        a, b = self.quantile.as_integer_ratio()
        up_to = np.cumsum(counts)
        target = a * int(up_to[-1])
        short, beyond = target - b * up_to, b * (up_to - counts) - target
        return np.asarray(-np.maximum(0, np.maximum(short, beyond)), dtype=np.int64)


Score = MostRows | Rank
