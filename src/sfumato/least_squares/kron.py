"""Least squares for Kronecker products of one strategy per axis, and a preconditioner for stacks of them.

(A1 x A2)^T (P1 x P2) (A1 x A2) inverts axis by axis if the precisions of the rows are products (`KronSquares`). With
discrete noise they are so only nearly (variance 2 b^2 - 1/6 and a little): then the closest products precondition the
iterative solver, which needs a few rounds.

A stack of several products has no joint inverse, but along each axis one orthonormal basis nearly diagonalises all of
them, and exactly for cells and totals. `SharedBasis` is the inverse of the diagonal in that basis, as a preconditioner.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import LeastSquares, NormalEquations, all_known
from sfumato.least_squares.gram import Gram, along_axes, kind
from sfumato.queries import Queries

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
