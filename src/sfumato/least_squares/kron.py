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
from sfumato.least_squares.base import Normal, Solver, all_known
from sfumato.queries import Kron

PRODUCTS = 1e-12  # how far from products precisions may be, relatively, and still count as such


class KronSolver:
    """One solver per attribute, applied along its own axis."""

    def __init__(self, queries: Kron, precisions: Floats, solvers: Sequence[Solver]) -> None:
        self._solvers, self._normal = solvers, Normal(queries, precisions)
        self._sizes = [factor.columns for factor in queries.factors]

    @property
    def certain(self) -> bool:
        return all(one.certain for one in self._solvers)

    def solve(self, columns: Floats) -> tuple[Floats, Flags]:
        """Attribute by attribute; what an attribute does not determine shows in the result."""
        solved = columns
        for place, one in enumerate(self._solvers):
            before, here = prod(self._sizes[:place]), self._sizes[place]
            front = solved.reshape(before, here, -1).swapaxes(0, 1)
            solved = one.solve(front.reshape(here, -1))[0].reshape(front.shape).swapaxes(0, 1)
        solved = solved.reshape(columns.shape)
        return solved, all_known(columns) if self.certain else self._normal.met(solved, columns)


def closest_products(precisions: Floats, rows: Sequence[int]) -> tuple[list[Floats], bool]:
    """A list per factor whose products are the precisions, all above 0, or come close; and whether they are."""
    logs = np.log(precisions).reshape(rows)
    middle = logs.mean()
    axes = range(len(rows))
    lists = [logs.mean(axis=tuple(other for other in axes if other != axis)) - middle for axis in axes]
    lists[0] = lists[0] + middle
    fitted = np.zeros(1)
    for one in lists:
        fitted = (fitted[:, None] + one).reshape(-1)
    return [np.exp(one) for one in lists], bool(np.abs(fitted - logs.reshape(-1)).max() <= PRODUCTS)
