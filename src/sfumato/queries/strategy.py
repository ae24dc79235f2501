"""Strategy: the queries that a linear mechanism measures, with integer weights in proportion to their precision.

Row i has noise in proportion to 1 / weights[which[i]]; equivalently, equal noise on weight times row. A combined
strategy is the Kronecker product of one strategy per axis, with products of weights.
"""

from __future__ import annotations

from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import MOST_DENSE, ByAxis, Codes, Which
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries import Kron, Queries, Scaled


@dataclass(frozen=True, eq=False)
class Strategy:
    """Integer queries with relative precisions: the noise of row i is in proportion to 1 / weights[which[i]].

    weights: positive integers, so that the budget is used exactly.
    which: index of each row's weight, (rows,); None where all rows have the first.
    """

    queries: Queries
    weights: tuple[int, ...] = (1,)
    which: Which = None

    def __post_init__(self) -> None:
        if not self.weights or any(type(weight) is not int or weight < 1 for weight in self.weights):
            raise QueryError("the weights of a strategy are positive whole numbers")
        if (self.which is None) != (len(self.weights) == 1):
            raise QueryError("a strategy of several weights says which row has which")
        if self.which is not None and len(self.which) != self.queries.rows:
            raise QueryError("a strategy of several weights says, for every row, which it has")

    @property
    def weighted(self) -> Queries:
        """Queries times their weights: with equal noise on all rows it is the same strategy."""
        if self.which is None:
            return self.queries if self.weights == (1,) else Scaled(self.queries, self.weights[0])
        return Scaled(self.queries, np.array(self.weights, dtype=np.int64)[np.asarray(self.which)])

    @property
    def axes(self) -> tuple[Strategy, ...]:
        """Strategies of the axes, of a Kronecker product; else empty."""
        return ()

    def load(self, power: int) -> int:
        """L1 sensitivity (power 1) or squared L2 sensitivity (power 2) of the weighted queries."""
        if power not in self._loads:
            self._loads[power] = int(self.weighted.l1 if power == 1 else self.weighted.l2_squared)
        return self._loads[power]

    @cached_property
    def _loads(self) -> dict[int, int]:
        """Sensitivities computed so far, by power; a search over epsilons asks for them again and again."""
        return {}

    @cached_property
    def shares(self) -> Codes:
        """Number of rows with each weight, (weights,)."""
        if self.which is None:
            return np.array([self.queries.rows])
        return np.bincount(np.asarray(self.which), minlength=len(self.weights))


class Combined(Strategy):
    """Kronecker product of one strategy per axis, with products of weights.

    Properties are computed from the axes, so that a plan never lays out the weight of every row.

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
        """Products of all weights; some may be equal."""
        products = np.ones(1, dtype=np.int64)
        for axis in self.axes:
            products = np.multiply.outer(products, np.array(axis.weights, dtype=np.int64)).reshape(-1)
        return tuple(products.tolist())

    @cached_property
    def which(self) -> Which:
        """Index of each row's weight, (rows,), by axis where rows are more than are laid out; None for one weight."""
        if len(self.weights) == 1:
            return None
        each = [np.zeros(axis.queries.rows, dtype=np.int64) if axis.which is None else axis.which for axis in self.axes]
        along = ByAxis(tuple(map(np.asarray, each)))
        return along if self.queries.rows > MOST_DENSE else np.asarray(along, dtype=np.int64)

    def load(self, power: int) -> int:
        return prod(axis.load(power) for axis in self.axes)

    @cached_property
    def shares(self) -> Codes:
        """Number of rows with each product of weights, (weights,)."""
        counts = np.ones(1, dtype=np.int64)
        for axis in self.axes:
            counts = np.multiply.outer(counts, axis.shares).reshape(-1)
        return counts
