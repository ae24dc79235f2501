"""Queries composed of others: selected rows, stacked blocks, and weighted rows."""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import accumulate

import numpy as np

from sfumato.arrays import Codes
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.queries.arrays import LARGEST, Array, codes, frozen, numbers, powers, scatter_add
from sfumato.queries.base import Form, Queries, check_parts, listed
from sfumato.queries.cells import gram_in_parts

MANY_TIMES = 64  # how much faster a product of written-out rows goes than as many operations of other kinds
MOST_HIDDEN = 2**20  # rows behind a selection that a file may keep, where they are many more than were selected


def _hidden(queries: Queries, index: Codes) -> str:
    """Reason why a selection cannot be kept in a file: answering it takes memory for all rows that it selects from."""
    if queries.rows <= max(MOST_HIDDEN, 64 * len(index), 2 * queries.columns):
        return ""
    return "a selection from too many rows cannot be kept in a file; ask for plainer queries"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Selected(Queries):
    """Selection of rows of a family, in any order, repeats included: the result of indexing without a shorter family.

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
    """Reorder the rows of a family; the family itself if the order is its own."""
    if len(order) == queries.rows and (order == np.arange(queries.rows)).all():
        return queries
    return Selected(queries, order)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Stack(Queries):
    """Vertical stack of families over the same columns.

    >>> from sfumato.queries import Identity, Total
    >>> (Stack(Total(3), Identity(3)) @ [4, 5, 6]).tolist()
    [15, 4, 5, 6]
    """

    blocks: tuple[Queries, ...]

    form = Form("stack", numbers=(), parts="blocks")

    def __init__(self, *blocks: Queries) -> None:
        check_parts(blocks, "Stack")
        widths = {block.columns for block in blocks}
        if len(widths) > 1:
            raise QueryError(
                f"Stack needs blocks over the same columns; these have {', '.join(map(str, sorted(widths)))}"
            )
        self._store(rows=sum(block.rows for block in blocks), columns=widths.pop(), blocks=blocks)

    def __repr__(self) -> str:
        return f"Stack({listed(self.blocks)})"

    @property
    def integral(self) -> bool:
        return all(block.integral for block in self.blocks)

    @property
    def entry_bound(self) -> int | float:
        return max(block.entry_bound for block in self.blocks)

    def _pieces(self, per_row: Array) -> Iterator[tuple[Queries, Array]]:
        """Blocks with their parts of a per-row array."""
        ends = list(accumulate((block.rows for block in self.blocks), initial=0))
        return ((block, per_row[ends[i] : ends[i + 1]]) for i, block in enumerate(self.blocks))

    def _times(self, x: Array) -> Array:
        return np.concatenate([block._times(x) for block in self.blocks])

    def _back(self, y: Array) -> Array:
        return reduce(np.add, (block._back(part) for block, part in self._pieces(y)))

    def _totals(self, power: int) -> Array:
        self._must_fit(sum(block._peak(power) for block in self.blocks))
        return reduce(np.add, (block._totals(power) for block in self.blocks))

    def _peak(self, power: int) -> int | float:
        levels = [block._level(power) for block in self.blocks]
        uneven = [block for block, level in zip(self.blocks, levels, strict=True) if level is None]
        if len(uneven) > 1:
            return Queries._peak(self, power)
        return sum(level for level in levels if level is not None) + sum(block._peak(power) for block in uneven)

    def _level(self, power: int) -> int | float | None:
        levels = [block._level(power) for block in self.blocks]
        even = [level for level in levels if level is not None]
        return sum(even) if len(even) == len(levels) else Queries._level(self, power)

    def _magnitudes(self, power: int) -> Queries:
        return Stack(*(block._magnitudes(power) for block in self.blocks))

    def _gram(self, weights: Array | None) -> Array:
        if weights is None:
            return reduce(np.add, (block._gram(None) for block in self.blocks))
        return reduce(np.add, (block._gram(part) for block, part in self._pieces(weights)))

    def _select(self, index: Array) -> Queries:
        used, order = np.unique(index, return_inverse=True)
        chosen, start = [], 0
        for block in self.blocks:
            first, last = np.searchsorted(used, [min(start, LARGEST), min(start + block.rows, LARGEST)])
            if first < last:
                chosen.append(block._select(used[first:last] - start))
            start += block.rows
        return in_order(chosen[0] if len(chosen) == 1 else Stack(*chosen), order)

    def _row(self, place: int) -> Array:
        for block in self.blocks:
            if place < block.rows:
                return block._row(place).astype(np.int64 if self.integral else np.float64)
            place -= block.rows
        raise AssertionError("rows of a Stack are those of its blocks")

    def _dense(self) -> Array:
        return np.vstack([block._dense() for block in self.blocks])


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Scaled(Queries):
    """Row i of a family times weights[i], or all rows times one weight: int, Fraction, Decimal or float.

    Integer weights keep integral queries integral.

    >>> from sfumato.queries import Identity
    >>> (Scaled(Identity(3), [1, 2, 3]) @ [4, 5, 6]).tolist()
    [4, 10, 18]
    """

    queries: Queries
    weights: Array  # one per row, or a single one without an axis

    form = Form("scaled", numbers=(), arrays=("weights",), parts="queries", alone="times")

    def __init__(self, queries: Queries, weights: object) -> None:
        check_parts((queries,), "Scaled")
        factors = numbers(weights, "Scaled")
        if factors.shape not in ((), (queries.rows,)):
            raise QueryError(f"Scaled needs one weight, or one for each of {queries.rows} rows; got {factors.shape}")
        self._store(rows=queries.rows, columns=queries.columns, queries=queries, weights=frozen(factors))

    def __repr__(self) -> str:
        return f"Scaled({self.queries!r}, {self.weights.item() if self.weights.ndim == 0 else f'{self.rows} weights'})"

    @property
    def integral(self) -> bool:
        return self.queries.integral and self.weights.dtype.kind == "i"

    @property
    def entry_bound(self) -> int | float:
        return self.queries.entry_bound * _largest(self.weights)

    def _per_row(self) -> Array:
        """Weights that broadcast over (rows, k)."""
        return self.weights[..., None]  # (rows, 1), or (1,) for a single weight: fits an array (rows, k) either way

    def _times(self, x: Array) -> Array:
        return self.queries._times(x) * self._per_row()

    def _back(self, y: Array) -> Array:
        return self.queries._back(y * self._per_row())

    def _totals(self, power: int) -> Array:
        weights = powers(self.weights, power)
        self._must_fit(self.queries._peak(power) * _largest(weights))
        if weights.ndim == 0:
            return np.asarray(self.queries._totals(power) * weights)
        return self.queries._magnitudes(power)._back(weights[:, None])[:, 0]

    def _by_block(self) -> Queries | None:
        """Equivalent stack of blocks with one weight each, without arrays by cell; None if a block has several."""
        if not isinstance(self.queries, Stack):
            return None
        pieces = list(self.queries._pieces(self.weights))
        if any((part != part[0]).any() for _, part in pieces):
            return None
        return Stack(*(Scaled(block, part[0]) for block, part in pieces))

    def _peak(self, power: int) -> int | float:
        if self.weights.ndim:
            self._must_fit(self.queries._peak(power) * _largest(powers(self.weights, power)))
            blocks = self._by_block()
            return Queries._peak(self, power) if blocks is None else blocks._peak(power)
        return self.queries._peak(power) * _largest(self.weights) ** power

    def _level(self, power: int) -> int | float | None:
        if self.weights.ndim:
            return Queries._level(self, power)
        level = self.queries._level(power) if self.weights else 0
        return level if level is None else level * _largest(self.weights) ** power

    def _magnitudes(self, power: int) -> Queries:
        return Scaled(self.queries._magnitudes(power), powers(self.weights, power))

    def _gram(self, weights: Array | None) -> Array:
        squares = powers(self.weights, 2)
        if squares.ndim == 0:
            return np.asarray(self.queries._gram(weights) * squares)
        return self.queries._gram(squares if weights is None else squares * weights)

    def _select(self, index: Array) -> Queries:
        return Scaled(self.queries._select(index), self.weights[index] if self.weights.ndim else self.weights)

    def _row(self, place: int) -> Array:
        return np.asarray(self.queries._row(place) * (self.weights[place] if self.weights.ndim else self.weights))

    def _dense(self) -> Array:
        return np.asarray(self.queries._dense() * self._per_row())


def _largest(weights: Array) -> int | float:
    """Largest absolute weight."""
    return np.abs(weights).max().item()  # type: ignore[no-any-return]
