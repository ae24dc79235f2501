"""A strategy: queries to ask, and how precisely each deserves to be answered."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.queries import Queries, Scaled


@dataclass(frozen=True, eq=False)
class Strategy:
    """Whole-number queries with relative precisions: the noise of row i is in proportion to 1 / weights[which[i]].

    weights: positive whole numbers, so that the budget is used up exactly. which: None where all rows have the first.
    """

    queries: Queries
    weights: tuple[int, ...] = (1,)
    which: Codes | None = None

    def __post_init__(self) -> None:
        if not self.weights or any(type(weight) is not int or weight < 1 for weight in self.weights):
            raise QueryError("the weights of a strategy are positive whole numbers")
        if (self.which is None) != (len(self.weights) == 1):
            raise QueryError("a strategy of several weights says which row has which")
        if self.which is not None and self.which.shape != (self.queries.rows,):
            raise QueryError("a strategy of several weights says, for every row, which it has")

    @property
    def weighted(self) -> Queries:
        """The queries times their weights: with noise of one size on all of them it is the same strategy."""
        if self.which is None:
            return self.queries if self.weights == (1,) else Scaled(self.queries, self.weights[0])
        return Scaled(self.queries, np.array(self.weights, dtype=np.int64)[self.which])
