"""A strategy: queries to ask, and how precisely each deserves to be answered."""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Kron, Queries, Scaled


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

    @property
    def axes(self) -> tuple[Strategy, ...]:
        """The strategies that it combines, one for each axis; none where it is no combination."""
        return ()

    def load(self, power: int) -> int:
        """The most that a cell bears: the sum of its weights (power 1), or of their squares (power 2)."""
        return int(self.weighted.l1 if power == 1 else self.weighted.l2_squared)

    @cached_property
    def shares(self) -> Codes:
        """How many rows have each of the weights."""
        if self.which is None:
            return np.array([self.queries.rows])
        return np.bincount(self.which, minlength=len(self.weights))


class Combined(Strategy):
    """Every combination of one row per axis, as precise as the product of their weights.

    What follows from the axes is worked out from them, so that a plan never lays out which row has which weight.

    >>> from sfumato.queries import Identity, Stack, Total
    >>> nodes = Strategy(Stack(Total(2), Identity(2)), (3, 1), np.array([0, 1, 1]))
    >>> both = Combined((Strategy(Identity(2)), nodes))
    >>> both.weights, both.load(1), both.which.tolist()
    ((3, 1), 4, [0, 1, 1, 0, 1, 1])
    """

    def __init__(self, axes: tuple[Strategy, ...]) -> None:
        self.__dict__["_axes"] = axes
        self.__dict__["queries"] = axes[0].queries if len(axes) == 1 else Kron(*(axis.queries for axis in axes))

    @property
    def axes(self) -> tuple[Strategy, ...]:
        return tuple(self.__dict__["_axes"])

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """The products of all weights; some may be the same number."""
        found = np.ones(1, dtype=np.int64)
        for axis in self.axes:
            found = np.multiply.outer(found, np.array(axis.weights, dtype=np.int64)).reshape(-1)
        return tuple(found.tolist())

    @cached_property
    def which(self) -> Codes | None:
        if len(self.weights) == 1:
            return None
        found = np.zeros(1, dtype=np.int64)
        for axis in self.axes:
            codes = np.zeros(axis.queries.rows, dtype=np.int64) if axis.which is None else axis.which
            found = np.add.outer(found * len(axis.weights), codes).reshape(-1)
        return found

    def load(self, power: int) -> int:
        return prod(axis.load(power) for axis in self.axes)

    @cached_property
    def shares(self) -> Codes:
        found = np.ones(1, dtype=np.int64)
        for axis in self.axes:
            found = np.multiply.outer(found, axis.shares).reshape(-1)
        return found
