"""Least squares for Kronecker products of one strategy per axis, and a preconditioner for stacks of them.

(A1 x A2)^T (P1 x P2) (A1 x A2) inverts axis by axis if the precisions of the rows are products (`KronSquares`). With
discrete noise they are so only nearly (variance 2 b^2 - 1/6 and a little): then the closest products precondition the
iterative solver, which needs a few rounds.

A stack of several products has no joint inverse, but along each axis one orthonormal basis nearly diagonalises all of
them, and exactly for cells and totals. `SharedBasis` is the inverse of the diagonal in that basis, as a preconditioner.

Least squares for stacks of tables by nested even levels of the axes, each table with one precision.

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
from sfumato.least_squares.base import KNOWN, UNSEEN, LeastSquares, NormalEquations, all_known, pieces
from sfumato.least_squares.gram import Gram, along_axes, even_cuts, kind
from sfumato.queries import Identity, Queries, Ranges, Stack, Total

PRODUCTS = 1e-12  # how far from products precisions may be, relatively, and still count as such
MOST_ALONG, MOST_WRITTEN = 2**8, 2**22  # cells of an axis whose basis is worked out, and numbers in a family along it
ROUNDING = 1e-24  # of the largest number on the diagonal: less is rounding, squared, and seen by no query


class KronSquares(LeastSquares):
    """Kronecker product of one inverse per axis.

    normal: needed only where an axis does not determine every cell.
    """

    def __init__(
        self, sizes: tuple[int, ...], factors: Sequence[LeastSquares], normal: NormalEquations | None = None
    ) -> None:
        self.sizes, self._factors, self._normal = sizes, factors, normal
        self._prices: dict[tuple[int, int], tuple[Gram, float]] = {}  # workloads ask the same of an axis many times

    @property
    def factors(self) -> Sequence[LeastSquares]:
        """Inverses along the axes."""
        return self._factors

    @property
    def certain(self) -> bool:
        return all(factor.certain for factor in self._factors)

    @property
    def closed(self) -> bool:
        return all(factor.closed for factor in self._factors)

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Apply each inverse along its own axis; non-estimable columns are found by their residual."""
        solved = columns
        for axis, factor in enumerate(self._factors):
            before, here = prod(self.sizes[:axis]), self.sizes[axis]
            front = solved.reshape(before, here, -1).swapaxes(0, 1)
            solved = factor.solve(front.reshape(here, -1))[0].reshape(front.shape).swapaxes(0, 1)
        solved = solved.reshape(columns.shape)
        return solved, all_known(columns) if self._normal is None or self.certain else self._normal.met(solved, columns)

    def price_by_axes(self, *grams: Gram) -> float:
        """Product of the squared errors along the axes."""
        return prod(map(self._along, range(len(grams)), grams))

    def _along(self, axis: int, gram: Gram) -> float:
        """Squared error along one axis, cached by Gram matrix."""
        key = axis, id(gram)
        if key in self._prices:
            return self._prices[key][1]
        price = self._factors[axis].price(gram)
        if gram.full is None:
            self._prices[key] = gram, price  # the matrix too, so that its id stays its own
        return price


def closest_products(precisions: Floats, rows: Sequence[int]) -> tuple[list[Floats], bool]:
    """Factors of the precisions along each axis, (rows,) each: exact or closest in logs; and whether they are exact."""
    logs, axes = np.log(precisions).reshape(rows), range(len(rows))
    corner = logs.flat[0]
    along = [logs[tuple(slice(None) if axis == other else 0 for other in axes)] - corner for axis in axes]
    if exact := bool(np.abs(_sums(along, corner) - logs.reshape(-1)).max() <= PRODUCTS):
        lists, middle = along, corner
    else:
        middle = logs.mean()
        lists = [logs.mean(axis=tuple(other for other in axes if other != axis)) - middle for axis in axes]
    return [np.exp(lists[0] + middle), *map(np.exp, lists[1:])], exact


def _sums(lists: Sequence[Floats], start: float) -> Floats:
    """Sums over all combinations of entries, one of each list."""
    fitted = np.full(1, start)
    for entries in lists:
        fitted = (fitted[:, None] + entries).reshape(-1)
    return fitted


class SharedBasis:
    """Preconditioner of a stack of Kronecker products: the inverse diagonal of A^T P A in one basis per axis.

    The first vector of a basis is constant, the others are eigenvectors of the families' mean Gram matrix. A block
    enters with its mean precision.
    """

    def __init__(self, blocks: Sequence[tuple[Queries, ...]], precisions: Sequence[Floats]) -> None:
        families = {_family(factor): factor.dense().astype(np.float64) for factors in blocks for factor in factors}
        along = [[families[_family(factor)] for factor in factors] for factors in blocks]
        self._bases = [_basis(list(own)) for own in zip(*along, strict=True)]
        diagonal = sum(
            float(each.mean())
            * _products([np.square(m @ u).sum(axis=0) for m, u in zip(own, self._bases, strict=True)])
            for own, each in zip(along, precisions, strict=True)
        )
        seen = diagonal > ROUNDING * np.max(diagonal)
        self._inverse = np.divide(1.0, diagonal, out=np.zeros_like(diagonal), where=seen)

    @classmethod
    def of(cls, blocks: Sequence[Queries], precisions: Sequence[Floats]) -> SharedBasis | None:
        """Preconditioner where all blocks are products along the same axes, none of them long; else None."""
        along = along_axes(blocks)
        if along is None or len(along[0]) == 1:
            return None
        factors = [factor for own in along for factor in own]
        if any(factor.columns > MOST_ALONG or factor.rows * factor.columns > MOST_WRITTEN for factor in factors):
            return None
        return cls(along, precisions)

    def __call__(self, columns: Floats) -> Floats:
        """Apply the preconditioner to columns (cells, k).

        Each step rotates the first axis into its basis and makes it the last; the way back takes the last first.
        """
        turned = columns
        for basis in self._bases:
            turned = turned.reshape(len(basis), -1).T @ basis
        turned = turned.reshape(columns.shape[1], -1) * self._inverse
        for basis in reversed(self._bases):
            turned = basis @ turned.reshape(-1, len(basis)).T
        return np.asarray(turned).reshape(columns.shape)


def _family(factor: Queries) -> object:
    """Cache key of a factor."""
    return kind(factor), factor.columns


def _basis(families: list[Floats]) -> Floats:
    """Constant vector, and eigenvectors of the sum of the families' centred Gram matrices, each of unit trace."""
    n = families[0].shape[1]
    apart = [matrix - matrix.mean(axis=1, keepdims=True) for matrix in {id(m): m for m in families}.values()]
    grams = [gram / np.trace(gram) for gram in (m.T @ m for m in apart) if np.trace(gram) > 0]
    return np.asarray(np.linalg.eigh(sum(grams, np.full((n, n), -1.0)))[1])


def _products(lists: Sequence[Floats]) -> Floats:
    """Products over all combinations of entries, one of each list."""
    made = np.ones(1)
    for entries in lists:
        made = (made[:, None] * entries).reshape(-1)
    return made


# -- marginals


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
