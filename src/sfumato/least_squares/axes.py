"""Least squares axis by axis, for Kronecker-product strategies whose precisions are Kronecker products too.

x_hat = (M_1 x ... x M_d) y with M_a = (A_a^T P_a A_a)^-1 A_a^T P_a; a sum over axis a needs only the row vector 1^T
M_a, (rows,). So a query about few attributes never visits the cells: with ten thousand by a thousand of them, the
marginal of one axis is one pass over the answers.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from math import prod

import numpy as np

from sfumato.arrays import Floats, Whole
from sfumato.frozen import dataclass
from sfumato.least_squares.base import LeastSquares
from sfumato.least_squares.classes import noises_along
from sfumato.least_squares.families import least_squares
from sfumato.least_squares.kron import KronSquares, closest_products
from sfumato.least_squares.marginals import MarginalSquares
from sfumato.measurement import Design
from sfumato.queries import Haar, Identity, Kron, NominalHaar, Queries, Stack, Total, Tree

AT_ONCE = 2**18  # numbers that are worked on at a time, so that they stay near the processor
QUICK = (Identity, Tree, Haar, NominalHaar)  # whose inverse takes time and memory in proportion to their rows
MOST_SPACES = 8  # times the cells that tables by levels may lay out while they are solved


@dataclass(frozen=True, eq=False)
class Axis:
    """Queries and precisions (rows,) along one axis; the inverse is computed when it is needed."""

    queries: Queries
    precisions: Floats

    @cached_property
    def inverse(self) -> LeastSquares:
        """(A^T P A)^-1 of the axis."""
        return least_squares(self.queries, 1.0 / self.precisions)

    @property
    def quick(self) -> bool:
        """Whether every cell is estimable, in time and memory linear in the rows."""
        if isinstance(self.queries, Stack):
            tables = MarginalSquares.of(self.queries, self.precisions)
            return tables is not None and tables.certain and tables.laid_out <= MOST_SPACES
        return type(self.queries) in QUICK or (type(self.queries) is Total and self.queries.columns == 1)

    def cells(self, answers: Floats) -> Floats:
        """GLS estimates (cells, k) from answers (rows, k)."""
        return self.inverse.solve(self.queries.T @ (answers * self.precisions[:, None]))[0]

    @cached_property
    def weights(self) -> Floats:
        """Weight of each answer in the GLS estimate of the axis total, (rows,)."""
        solved = self.inverse.solve(np.ones((self.queries.columns, 1)))[0]
        return np.asarray(self.queries @ solved)[:, 0] * self.precisions


def axes_of(design: Design) -> list[Axis] | None:
    """Axes of a design that determines every cell and is quickly solved; None for any other."""
    queries = design.queries
    if type(queries) is not Kron:
        precisions = design.sizes
        axis = Axis(queries, np.reciprocal(precisions, out=precisions))
        return [axis] if axis.quick else None
    noises = noises_along(design.which, [factor.rows for factor in queries.factors])
    if noises is None:
        return None
    classes, kinds = noises
    sizes = np.array([noise.continuous_variance for noise in design.noises])
    lists, products = closest_products(1.0 / sizes[kinds.reshape(-1)], kinds.shape)
    if not products:
        return None
    axes = [Axis(*each) for each in zip(queries.factors, map(np.take, lists, classes), strict=True)]
    return axes if all(axis.quick for axis in axes) else None


def inverse_of(axes: Sequence[Axis]) -> LeastSquares:
    """(A^T P A)^-1 of the Kronecker product of all axes."""
    if len(axes) == 1:
        return axes[0].inverse
    return KronSquares(tuple(axis.queries.columns for axis in axes), [axis.inverse for axis in axes])


def estimates(axes: Sequence[Axis], answers: Whole, kept: Collection[int]) -> Floats:
    """GLS estimates of the marginal over the axes `kept`, flattened; answers: (rows of all axes,)."""
    values: Floats | Whole = answers
    sizes = [axis.queries.rows for axis in axes]
    order = sorted(range(len(axes)), key=lambda index: (index in kept, -index))  # what shrinks most first
    for index in order:
        axis, before, after = axes[index], prod(sizes[:index]), prod(sizes[index + 1 :])
        sizes[index] = axis.queries.columns if index in kept else 1
        values = _applied(axis, values.reshape(before, axis.queries.rows, after), whole=index in kept)
    return np.asarray(values, dtype=np.float64).reshape(-1)


def _applied(axis: Axis, array: Floats | Whole, *, whole: bool) -> Floats:
    """Apply an axis's estimator along the middle of an array (before, rows, after), in chunks.

    whole: estimate every cell of the axis; otherwise its total alone.
    """
    before, rows, after = array.shape
    result = np.empty((before, axis.queries.columns if whole else 1, after))
    front = max(1, AT_ONCE // (rows * after))
    back = max(1, AT_ONCE // rows)
    for start in range(0, before, front):
        for column in range(0, after, back):
            here = slice(start, start + front), slice(None), slice(column, column + back)
            part = array[here].astype(np.float64)
            if whole:
                many, _, width = part.shape
                flat = axis.cells(part.swapaxes(0, 1).reshape(rows, -1))
                result[here] = flat.reshape(-1, many, width).swapaxes(0, 1)
            else:
                result[here] = (axis.weights @ part)[:, None, :]
    return result
