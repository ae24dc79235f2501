"""Tables of counts by levels of the axes, and their error in closed form.

A level cuts an axis into even nodes; a table counts by one level of every axis. On nested even levels all tables share
their eigenspaces, one per combination of levels (McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 6.3, have
the two levels total and cells): along each axis, level k answers the space of level l with the size of its nodes if it
is as fine as l, and not at all otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from itertools import product as combinations_of

import numpy as np

from sfumato.arrays import Floats
from sfumato.least_squares.axis_error import MOST_DENSE
from sfumato.least_squares.grams import Gram, has_short_gram
from sfumato.least_squares.products import Product, grams_of, products
from sfumato.queries import Identity, Kron, Marginals, Queries, Ranges, Stack, Total
from sfumato.queries.strategy import Strategy

MOST_CODED = 2**12  # cells of an axis up to which its spaces are worked out to the last digit

Table = tuple[int, ...]  # per axis, into how many nodes it is cut


@dataclass(frozen=True)
class Grid:
    """Every combination of some levels per axis.

    widths: per axis, the numbers of nodes of its levels, from the coarsest to the finest.
    """

    sizes: tuple[int, ...]
    widths: tuple[tuple[int, ...], ...]

    @property
    def tables(self) -> list[Table]:
        return list(combinations_of(*self.widths))

    @property
    def even(self) -> bool:
        """Whether each axis is cut evenly, every level inside the one above, from the total to the cells."""
        pairs = zip(self.sizes, self.widths, strict=True)
        ends = all((1, size) == (widths[0], widths[-1]) for size, widths in pairs)
        return ends and all(b % a == 0 for widths in self.widths for a, b in pairwise(widths))

    def spread(self, squares: Floats) -> Floats:
        """How precisely each space is answered, if each table is measured with so much precision."""
        return self._along_each(self._spans(), squares)

    def back(self, each: Floats) -> Floats:
        """The transpose of `spread`."""
        return self._along_each([span.T for span in self._spans()], each)

    def asked(self, wanted: list[Product]) -> Floats:
        """What products of queries ask of each space."""
        columns = [
            [_asked_of_levels(gram, self.widths[axis]) for gram in grams_of(wanted, axis)]
            for axis in range(len(self.sizes))
        ]
        each = (one.weight * reduce(np.multiply.outer, spaces) for one, *spaces in zip(wanted, *columns, strict=True))
        return np.asarray(sum(each)).reshape(-1)

    def _spans(self) -> list[Floats]:
        return [np.triu(np.tile(s / np.array(w), (len(w), 1))) for s, w in zip(self.sizes, self.widths, strict=True)]

    def _along_each(self, matrices: list[Floats], flat: Floats) -> Floats:
        table = flat.reshape([len(widths) for widths in self.widths])
        for axis, matrix in enumerate(matrices):
            table = np.moveaxis(np.tensordot(matrix, table, axes=(1, axis)), 0, axis)
        return np.asarray(table).reshape(-1)


def table_error(strategy: Strategy, block: Queries) -> float | None:
    """The summed squared error of a block, for noise of variance 1 on the shares; None where it has no closed form.

    >>> from sfumato.queries import AllRanges
    >>> cells_and_total = Strategy(Marginals((3,), [(0,), ()]), (1, 2), np.array([0, 0, 0, 1]))
    >>> round(table_error(cells_and_total, Total(3)), 4)  # 3 and 1/4 together
    0.2308
    """
    found = _tables_of(strategy)
    if found is None:
        return None
    grid, squares = found
    wanted = products(block, grid.sizes)
    if wanted is None or not grid.even or not all(_known(factor) for one in wanted for factor in one.factors):
        return None
    spread, asked = grid.spread(squares), grid.asked(wanted)
    answered = spread > 1e-12 * spread.max()
    if asked[~answered].sum() > 1e-9 * asked.sum():
        return float("inf")
    return float((asked[answered] / spread[answered]).sum())


def table_queries(sizes: tuple[int, ...], tables: Sequence[Table]) -> Queries:
    """The counts of several tables, one after the other."""
    if all(width in (1, size) for table in tables for width, size in zip(table, sizes, strict=True)):
        return Marginals(sizes, [[a for a, width in enumerate(table) if width == sizes[a]] for table in tables])
    return Stack(*(Kron(*(_level(*pair) for pair in zip(sizes, table, strict=True))) for table in tables))


def _asked_of_levels(gram: Gram, widths: tuple[int, ...]) -> Floats:
    left = [gram.roughness(width) if gram.n > MOST_CODED else _left(gram, width) for width in widths]
    return np.maximum(-np.diff(left, prepend=float(gram.diagonal.sum())), 0.0)


def _left(gram: Gram, width: int) -> float:
    cuts = np.arange(width + 1, dtype=np.int64) * gram.n // width
    return float(gram.diagonal.sum() - (gram.squares(np.ones(gram.n), cuts) / np.diff(cuts)).sum())


def _tables_of(strategy: Strategy) -> tuple[Grid, Floats] | None:
    """The grid a strategy lies on, and the squared share of each of its tables; None if it is not made of tables."""
    if not isinstance(strategy.queries, Stack):
        return None
    shares, start = np.array(strategy.shares, dtype=np.float64), 0
    found: dict[Table, float] = {}
    for block in strategy.queries.blocks:
        if type(block) is not Kron or any(_width(factor) is None for factor in block.factors):
            return None
        which = [0] if strategy.which is None else np.unique(strategy.which[start : start + block.rows])
        table = tuple(_width(factor) or 0 for factor in block.factors)
        if len(which) > 1:
            return None
        found[table] = found.get(table, 0.0) + float(shares[which[0]]) ** 2
        start += block.rows
    sizes = tuple(factor.columns for factor in strategy.queries.blocks[0].factors)  # type: ignore[attr-defined]
    if any(len(table) != len(sizes) for table in found):
        return None
    widths = tuple(tuple(sorted({table[a] for table in found} | {1, size})) for a, size in enumerate(sizes))
    grid = Grid(sizes, widths)
    return grid, np.array([found.get(table, 0.0) for table in grid.tables])


def _width(factor: Queries) -> int | None:
    """Into how many even nodes a family cuts its axis, if that is what it does."""
    n, rows = factor.columns, factor.rows
    if type(factor) is Identity or type(factor) is Total:
        return rows
    if type(factor) is not Ranges or rows > n:
        return None
    cuts = np.arange(rows + 1, dtype=np.int64) * n // rows
    return rows if np.array_equal(factor.lows, cuts[:-1]) and np.array_equal(factor.highs, cuts[1:] - 1) else None


def _level(size: int, width: int) -> Queries:
    cuts = np.arange(width + 1, dtype=np.int64) * size // width
    if width in (1, size):
        return Identity(size) if width == size else Total(size)
    return Ranges(size, cuts[:-1], cuts[1:] - 1)


def _known(factor: Queries) -> bool:
    return factor.columns <= MOST_DENSE or has_short_gram(factor)
