"""Least squares on combinations of one strategy per attribute.

(A1 x A2)^T (P1 x P2) (A1 x A2) inverts attribute by attribute, if the precisions of the rows are products. With whole
noise they are so only nearly (the variance of discrete Laplace noise is 2 b^2 - 1/6 and a little): then the closest
products give a guess that the iterative solver needs but a few rounds to correct.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from sfumato.arrays import Flags, Floats
from sfumato.least_squares.base import LeastSquares, NormalEquations, all_known
from sfumato.least_squares.gram import Gram

PRODUCTS = 1e-12  # how far from products precisions may be, relatively, and still count as such


class KronSquares(LeastSquares):
    """One inverse per attribute, applied along its own axis.

    normal: needed only where an attribute does not determine every cell.
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
        """Attribute by attribute; what an attribute does not determine shows in the result."""
        solved = columns
        for place, factor in enumerate(self._factors):
            before, here = prod(self.sizes[:place]), self.sizes[place]
            front = solved.reshape(before, here, -1).swapaxes(0, 1)
            solved = factor.solve(front.reshape(here, -1))[0].reshape(front.shape).swapaxes(0, 1)
        solved = solved.reshape(columns.shape)
        return solved, all_known(columns) if self._normal is None or self.certain else self._normal.met(solved, columns)

    def price_by_axes(self, *grams: Gram) -> float:
        """The product of the prices along the axes."""
        return prod(map(self._along, range(len(grams)), grams))

    def _along(self, axis: int, gram: Gram) -> float:
        place = axis, id(gram)
        if place in self._prices:
            return self._prices[place][1]
        price = self._factors[axis].price(gram)
        if gram.full is None:
            self._prices[place] = gram, price  # the matrix too, so that its id stays its own
        return price


def closest_products(precisions: Floats, rows: Sequence[int]) -> tuple[list[Floats], bool]:
    """A list per factor whose products are the precisions, all above 0, or come close; and whether they are."""
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
    """The sum of an entry of each list, for all choices of them."""
    fitted = np.full(1, start)
    for one in lists:
        fitted = (fitted[:, None] + one).reshape(-1)
    return fitted
