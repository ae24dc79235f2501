"""Some rows of a family."""

from __future__ import annotations

import numpy as np

from sfumato.arrays import Codes
from sfumato.frozen import dataclass
from sfumato.queries.arrays import Array, codes, frozen, scatter_add
from sfumato.queries.base import Queries, check_parts
from sfumato.queries.form import Form
from sfumato.queries.weighted import gram_in_parts

MANY_TIMES = 64  # how much faster a product of written-out rows goes than as many operations of other kinds
MOST_HIDDEN = 2**20  # rows behind a selection that a file may keep, where they are many more than were selected


def _hidden(queries: Queries, index: Codes) -> str:
    """Answering a selection takes memory for all the rows behind it, which no stored answer bears witness to."""
    if queries.rows <= max(MOST_HIDDEN, 64 * len(index), 2 * queries.columns):
        return ""
    return "a selection from too many rows cannot be kept in a file; ask for plainer queries"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Selected(Queries):
    """Some rows of a family, in any order, repeats included: what indexing gives where no family says it shorter.

    >>> from sfumato.queries import Identity, Kron, Prefix
    >>> Kron(Identity(2), Prefix(2))[[3, 0]].dense().tolist()
    [[0, 0, 1, 1], [1, 0, 0, 0]]
    """

    queries: Queries
    index: Codes

    form = Form("selected", numbers=(), arrays=("index",), parts="queries", unkept=_hidden)

    def __init__(self, queries: Queries, index: object) -> None:
        check_parts((queries,), "Selected")
        chosen = frozen(codes(index, queries.rows, "Selected"))
        self._store(rows=len(chosen), columns=queries.columns, queries=queries, index=chosen)

    def __repr__(self) -> str:
        return f"Selected({self.queries!r}, {self.rows} rows)"

    @property
    def integral(self) -> bool:
        return self.queries.integral

    @property
    def entry_bound(self) -> int | float:
        return self.queries.entry_bound

    def _times(self, x: Array) -> Array:
        return np.asarray(self.queries._times(x)[self.index])

    def _back(self, y: Array) -> Array:
        return self.queries._back(scatter_add(self.queries.rows, self.index, y))

    def _totals(self, power: int) -> Array:
        repeats = np.bincount(self.index, minlength=self.queries.rows)
        self._must_fit(self.queries._peak(power) * int(repeats.max()))
        return self.queries._magnitudes(power)._back(repeats[:, None])[:, 0]

    def _magnitudes(self, power: int) -> Queries:
        return Selected(self.queries._magnitudes(power), self.index)

    def _gram(self, weights: Array | None) -> Array:
        if self.rows * self.columns < MANY_TIMES * self.queries.rows:
            return gram_in_parts(self, weights, lambda part: np.stack([self._row(place) for place in part.tolist()]))
        each = np.ones_like(self.index) if weights is None else weights
        return self.queries._gram(scatter_add(self.queries.rows, self.index, each[:, None])[:, 0])

    def _select(self, index: Array) -> Queries:
        return self.queries._select(self.index[index])

    def _row(self, place: int) -> Array:
        return self.queries._row(int(self.index[place]))

    def _dense(self) -> Array:
        return np.asarray(self.queries._dense()[self.index])


def in_order(queries: Queries, order: Array) -> Queries:
    """The rows of a family in this order; the family itself if that is its own."""
    if len(order) == queries.rows and (order == np.arange(queries.rows)).all():
        return queries
    return Selected(queries, order)
