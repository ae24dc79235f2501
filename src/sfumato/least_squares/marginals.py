"""Least squares for stacks of tables by nested even levels of the axes, each table with one precision.

McKenna, Miklau, Hay, Machanavajjhala, VLDB 2018, section 6.3, have two levels per axis, the total and the cells; here
any levels that divide the axis evenly, each nested in the one above. A^T P A is a sum over tables that all commute.
Their common eigenspaces are the effects of an analysis of variance, one per combination of levels: vectors that vary
between nodes of exactly these levels and sum to zero within each node above. Along an axis, level k has on the space of
level l the eigenvalue "cells per node of level k" if k is as fine as l, and 0 otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache, reduce
from itertools import pairwise
from itertools import product as combinations_of
from math import prod

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.frozen import dataclass
from sfumato.least_squares.base import KNOWN, UNSEEN, LeastSquares, pieces
from sfumato.least_squares.gram import Gram, along_axes, even_cuts
from sfumato.queries import Identity, Queries, Ranges, Stack, Total

MOST_AXES = 30  # an array has at most 32, and solving needs two more
FEW_TABLES = 2**8
MOST_CODED = 2**12  # cells of an axis up to which what is asked of its spaces is worked out to the last digit

Table = tuple[int, ...]  # per axis, into how many nodes it is cut


@dataclass(frozen=True)
class Grid:
    """All combinations of some levels per axis.

    sizes: number of cells per axis. widths: per axis, the number of nodes of each level, from coarsest to finest.
    """

    sizes: tuple[int, ...]
    widths: tuple[tuple[int, ...], ...]

    @property
    def tables(self) -> list[Table]:
        """All tables: number of nodes per axis, the last axis fastest."""
        return list(combinations_of(*self.widths))

    @property
    def even(self) -> bool:
        """Whether every level is nested in the one above."""
        return all(b % a == 0 for widths in self.widths for a, b in pairwise(widths))

    def answered(self, precisions: Floats) -> Floats:
        """Eigenvalue of A^T P A on each space, (spaces,), for these precisions of the tables, (tables,)."""
        return self._along_each(self._spans, precisions)

    def back(self, each: Floats) -> Floats:
        """Transpose of the map `answered`: for each table, the sum over spaces of eigenvalue times entry."""
        return self._along_each(self._turned, each)

    def asked(self, grams: Sequence[Gram]) -> Floats:
        """Trace of a Kronecker product of Gram matrices, restricted to each eigenspace, (spaces,)."""
        return np.asarray(reduce(np.multiply.outer, map(_asked_of_levels, grams, self.widths))).reshape(-1)

    @cached_property
    def _spans(self) -> list[Floats]:
        """Eigenvalue of each level on each eigenspace, a matrix (spaces, levels) per axis.

        Where there are few tables, one matrix in all: the Kronecker product over the axes.
        """
        spans = [np.triu(np.tile(s / np.array(w), (len(w), 1))) for s, w in zip(self.sizes, self.widths, strict=True)]
        few = prod(map(len, self.widths)) <= FEW_TABLES
        return [reduce(lambda one, other: np.asarray(np.kron(one, other)), spans)] if few else spans

    @cached_property
    def _turned(self) -> list[Floats]:
        """Transposes of the eigenvalue matrices `_spans`."""
        return [span.T.copy() for span in self._spans]

    @staticmethod
    def _along_each(matrices: list[Floats], flat: Floats) -> Floats:
        """Apply one matrix along each axis of a flattened array."""
        before, result = 1, flat
        for matrix in matrices:
            result = matrix @ result.reshape(before, len(matrix), -1)
            before *= len(matrix)
        return np.asarray(result).reshape(-1)


@lru_cache(maxsize=512)
def _asked_of_levels(gram: Gram, widths: tuple[int, ...]) -> Floats:
    """Trace of a Gram matrix on the eigenspace of each level of one axis, (levels,)."""
    left = [gram.roughness(width) if gram.n > MOST_CODED else _left(gram, width) for width in widths]
    return np.maximum(-np.diff(left, prepend=float(gram.diagonal.sum())), 0.0)


def _left(gram: Gram, width: int) -> float:
    """Exact trace of a Gram matrix on vectors that sum to zero within each of `width` nodes of nearly equal size."""
    cuts = even_cuts(gram.n, width)
    return float(gram.diagonal.sum() - (gram.squares(np.ones(gram.n), cuts) / np.diff(cuts)).sum())


class MarginalSquares(LeastSquares):
    """Inverse of A^T P A by its eigenspaces; those of eigenvalue 0 are not estimable."""

    def __init__(self, grid: Grid, precisions: Floats) -> None:
        self._grid, self.sizes = grid, grid.sizes
        self._values = grid.answered(precisions)

    @classmethod
    def of(cls, queries: Stack, precisions: Floats) -> MarginalSquares | None:
        """Solver for a stack whose blocks are all tables by even levels with one precision each; else None."""
        blocks = pieces(queries, precisions)
        along = along_axes([block for block, _ in blocks])
        if along is None or len(along[0]) > MOST_AXES:
            return None
        measured: list[tuple[Table, float]] = []
        for factors, (_, each) in zip(along, blocks, strict=True):
            table = tuple(width for width in map(_width, factors) if width)
            if len(table) < len(factors) or (each != each[0]).any():
                return None
            measured.append((table, float(each[0])))
        sizes = tuple(factor.columns for factor in along[0])
        widths = [tuple(sorted({table[axis] for table, _ in measured} | {1, n})) for axis, n in enumerate(sizes)]
        grid, total = Grid(sizes, tuple(widths)), np.zeros([len(each) for each in widths])
        for table, precision in measured:
            total[tuple(each.index(width) for each, width in zip(widths, table, strict=True))] += precision
        return cls(grid, total.reshape(-1)) if grid.even else None

    @property
    def certain(self) -> bool:
        return bool((self._values > 0).all())

    @property
    def laid_out(self) -> float:
        """Upper bound on the numbers that solving lays out per cell: the size of all eigenspaces."""
        return prod(sum(widths) / size for widths, size in zip(self._grid.widths, self.sizes, strict=True))

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Divide each effect by its eigenvalue, axis by axis."""
        values = self._values.reshape([len(widths) for widths in self._grid.widths])
        solved, unseen = self._spaces(values, columns.reshape(*self.sizes, -1), 0)
        return solved.reshape(columns.shape), unseen <= KNOWN**2 * np.square(columns).sum(axis=0)

    def _spaces(self, values: Floats, cells: Floats, axis: int) -> tuple[Floats, Floats]:
        """Solution on the axes from `axis` on, and the squared norm of its non-estimable part, (k,).

        values: eigenvalues of the spaces of these axes. cells: array whose earlier axes are the nodes of one level
        each.
        """
        value = float(values.flat[0])
        if (values == value).all():
            if value > 0:
                return cells / value, np.zeros(cells.shape[-1])
            return np.zeros_like(cells), np.square(cells).sum(axis=tuple(range(cells.ndim - 1)))
        front, size, back = cells.shape[:axis], self.sizes[axis], cells.shape[axis + 1 :]
        above, means_above, unseen = 1, np.zeros((*front, 1, *back)), np.zeros(cells.shape[-1])
        solved = means_above
        for level, width in zip(values, self._grid.widths[axis], strict=True):
            means = cells.reshape(*front, width, size // width, *back).mean(axis=axis + 1)
            part, missed = self._spaces(level, means - means_above.repeat(width // above, axis), axis + 1)
            solved = solved.repeat(width // above, axis) + part
            unseen += missed * (size // width)
            above, means_above = width, means
        return solved, unseen

    def price_by_axes(self, *grams: Gram) -> float:
        """Sum over spaces of the workload's trace over the eigenvalue."""
        demand, answered = self._grid.asked(grams), self._values > 0
        if demand[~answered].sum() > UNSEEN * demand.sum():
            return np.inf
        return float((demand[answered] / self._values[answered]).sum())


def _width(factor: Queries) -> int | None:
    """Number of equal-sized blocks that queries along one axis count (1: total, n: single values); None for others."""
    n, rows = factor.columns, factor.rows
    if type(factor) is Identity or type(factor) is Total:
        return rows
    if type(factor) is not Ranges or rows > n:
        return None
    cuts = even_cuts(n, rows)
    return rows if np.array_equal(factor.lows, cuts[:-1]) and np.array_equal(factor.highs, cuts[1:] - 1) else None
