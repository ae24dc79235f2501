"""A score for a price: what a sale would bring in.

It stands apart from the others because its cells are prices, and one row can be worth as many points as the highest.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import LARGEST, frozen

MOST = 2**40  # of a price, in its smallest coin


@dataclass(frozen=True, eq=False)
class Revenue:
    """Which price brings in most, where the rows of cell j would pay up to prices[j].

    prices: public whole numbers, rising, one for each cell. At price j whoever would pay as much or more buys:

        score(j) = prices[j] * (rows in cells j, j + 1, ...)

    One more row in cell c adds prices[j] to the score of every j <= c and nothing to the others. So no score changes by
    more than the highest price, the sensitivity. And none falls: two changes lie between 0 and the highest price, and
    are no further apart than that, the spread.

    Products that 64 bits cannot hold are worked out in Python's own whole numbers. Revenue beyond 2^62 counts as 2^62:
    cutting off at a fixed number moves scores no further than before, and still none falls.

    >>> Revenue([1, 3]).scores(np.array([3, 1])).tolist()
    [4, 3]
    """

    prices: NDArray[np.int64]

    def __post_init__(self) -> None:
        prices = np.asarray(self.prices)
        if prices.ndim != 1 or not prices.size or prices.dtype.kind not in "iu":
            raise QueryError("prices are whole numbers, one for each cell; state them in the smallest coin")
        if int(prices.min()) < 0 or not 0 < int(prices.max()) <= MOST or (np.diff(prices.astype(np.int64)) < 0).any():
            raise QueryError(f"prices rise from cell to cell, from 0 at least to {MOST:,} at most")
        object.__setattr__(self, "prices", frozen(prices.astype(np.int64)))

    @property
    def columns(self) -> int:
        return len(self.prices)

    @property
    def arrays(self) -> tuple[NDArray[np.generic], ...]:
        return (self.prices,)

    @property
    def sensitivity(self) -> int:
        return int(self.prices[-1])

    @property
    def spread(self) -> int:
        return self.sensitivity

    def scores(self, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        buyers = np.cumsum(counts[::-1])[::-1]
        if int(buyers[0]) * self.sensitivity > LARGEST:  # of any size: an overflow would betray how many rows
            buyers = np.cumsum(counts.astype(object)[::-1])[::-1]
        return np.asarray(np.minimum(LARGEST, self.prices * buyers), dtype=np.int64)
