"""Least squares along one axis after the other, for products of strategies whose noises are products too.

The estimate of all cells is then each axis' own map from answers to cells, applied along that axis, and the estimate of
a sum over an axis takes one weight for each of its rows. So a question that mentions few attributes never meets the
cells: with ten thousand by a thousand of them, the sums along one axis are one pass over the answers.
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
    """What is asked along one axis, with which precisions. Nothing is worked out before it is needed."""

    queries: Queries
    precisions: Floats

    @cached_property
    def inverse(self) -> LeastSquares:
        return least_squares(self.queries, 1.0 / self.precisions)

    @property
    def quick(self) -> bool:
        """Whether every cell is determined, in time and memory in proportion to the rows; seen at a glance."""
        if isinstance(self.queries, Stack):
            tables = MarginalSquares.of(self.queries, self.precisions)
            return tables is not None and tables.certain and tables.laid_out <= MOST_SPACES
        return type(self.queries) in QUICK or (type(self.queries) is Total and self.queries.columns == 1)

    def cells(self, answers: Floats) -> Floats:
        """Answers, (rows, any number), as estimates of the cells."""
        return self.inverse.solve(self.queries.T @ (answers * self.precisions[:, None]))[0]

    @cached_property
    def weights(self) -> Floats:
        """With which weight each answer enters the sum over all cells."""
        solved = self.inverse.solve(np.ones((self.queries.columns, 1)))[0]
        return np.asarray(self.queries @ solved)[:, 0] * self.precisions


def axes_of(design: Design) -> list[Axis] | None:
    """The axes of a design that determines every cell and is quickly solved; None for any other."""
    queries = design.queries
    if type(queries) is not Kron:
        precisions = design.sizes
        axis = Axis(queries, np.reciprocal(precisions, out=precisions))
        return [axis] if axis.quick else None
    found = noises_along(design.which, [factor.rows for factor in queries.factors])
    if found is None:
        return None
    classes, kinds = found
    sizes = np.array([noise.continuous_variance for noise in design.noises])
    lists, products = closest_products(1.0 / sizes[kinds.reshape(-1)], kinds.shape)
    if not products:
        return None
    axes = [Axis(*each) for each in zip(queries.factors, map(np.take, lists, classes), strict=True)]
    return axes if all(axis.quick for axis in axes) else None


def inverse_of(axes: Sequence[Axis]) -> LeastSquares:
    """The inverse of all axes together."""
    if len(axes) == 1:
        return axes[0].inverse
    return KronSquares(tuple(axis.queries.columns for axis in axes), [axis.inverse for axis in axes])


def estimates(axes: Sequence[Axis], answers: Whole, kept: Collection[int]) -> Floats:
    """The estimate of every cell along the axes that are kept, summed over the others."""
    found: Floats | Whole = answers
    sizes = [axis.queries.rows for axis in axes]
    order = sorted(range(len(axes)), key=lambda place: (place in kept, -place))  # what shrinks most first
    for place in order:
        axis, before, after = axes[place], prod(sizes[:place]), prod(sizes[place + 1 :])
        sizes[place] = axis.queries.columns if place in kept else 1
        found = _applied(axis, found.reshape(before, axis.queries.rows, after), whole=place in kept)
    return np.asarray(found, dtype=np.float64).reshape(-1)


def _applied(axis: Axis, array: Floats | Whole, *, whole: bool) -> Floats:
    """An axis' map along the middle of three, some of the others at a time."""
    before, rows, after = array.shape
    result = np.empty((before, axis.queries.columns if whole else 1, after))
    front = max(1, AT_ONCE // (rows * after))
    back = max(1, AT_ONCE // rows)
    for start in range(0, before, front):
        for place in range(0, after, back):
            here = slice(start, start + front), slice(None), slice(place, place + back)
            part = array[here].astype(np.float64)
            if whole:
                many, _, width = part.shape
                flat = axis.cells(part.swapaxes(0, 1).reshape(rows, -1))
                result[here] = flat.reshape(-1, many, width).swapaxes(0, 1)
            else:
                result[here] = (axis.weights @ part)[:, None, :]
    return result
