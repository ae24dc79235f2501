"""The errors of sums over a table that was joined from margins.

The error of a joined table has a part for each set T of its axes. The part of T is the error of table T beyond that of
its margins, spread over the other axes in proportion to a public base (the one-way margins, or evenly):

    e(cell) = sum over T of  base(axes not in T) * (C_T z_T)(cell along T),

where the z_T are independent, with a variance for each cell of table T, and C_T takes away what would change a margin.
So a sum of cells with weights w has variance  sum over T of  sum over cells of T of  variance * w_T^2, where w_T is the
part of w that varies along all axes of T and along no others: its analysis of variance under the base. A total carries
the error of the total alone, a one-way count that of its margin, and only what a question really asks of three
attributes carries the error of three.

All groups of a GROUP BY are worked out at once. For a group g the weights are those of the question inside g and 0
outside; along a grouping axis the part that varies is then (1 at g, else 0) - base(g), whose square is 1 - 2 base(g) at
g plus base(g)^2 everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from sfumato.arrays import Floats
from sfumato.frozen import dataclass
from sfumato.inference.margins.table import Places, spread_out, subsets

Weights = Sequence[Floats | None]


@dataclass(frozen=True, eq=False)
class JoinedErrors:
    """bases: for each axis, how errors spread along it, with sum 1. variances: of every set of axes, cell by cell."""

    bases: tuple[Floats, ...]
    variances: Mapping[Places, Floats]

    def of_cells(self) -> Floats:
        """The variance of every single cell."""
        every = tuple(range(len(self.bases)))
        return self.covariances([np.ones([1] * len(every))], [None], every)[..., 0, 0]

    def covariances(self, split: Weights, whole: Weights, groups: Places) -> Floats:
        """The covariance matrix of several sums, for every group: an array along the grouping axes, then (sum, sum).

        split, whole: for each sum, weights on the cells of the group, and on all cells whatever the group; arrays that
        can be stretched to the table, or None where there are none.
        """
        axes = tuple(range(len(self.bases)))
        found = np.zeros([*(len(self.bases[axis]) for axis in groups), len(split), len(split)])
        for part in subsets(axes):
            if part in self.variances and self.variances[part].any():
                self._add(found, part, split, whole, groups)
        return found

    def _add(
        self,
        found: Floats,
        part: Places,
        split: Sequence[Floats | None],
        whole: Sequence[Floats | None],
        groups: Places,
    ) -> None:
        """What one part adds to the covariances."""
        axes = tuple(range(len(self.bases)))
        others = tuple(axis for axis in axes if axis not in groups)
        shape = [len(self.bases[axis]) for axis in groups]
        variance = spread_out(self.variances[part], part, axes)
        inside = [None if w is None else self._varying(w, part, others) for w in split]
        outside = [None if w is None else self._varying(w, part, axes) for w in whole]
        scale = np.ones([1] * len(axes))
        squares = variance
        for axis in groups:
            base = spread_out(self.bases[axis], (axis,), axes)
            if axis in part:
                squares = (1.0 - 2.0 * base) * squares + base**2 * squares.sum(axis=axis, keepdims=True)
            else:
                scale = scale * base
        for i in range(len(split)):
            for j in range(i, len(split)):
                value = self._both(inside[i], inside[j], scale**2 * squares, others, shape)
                value = value + self._across(inside[i], outside[j], scale, variance, part, groups, shape)
                value = value + self._across(inside[j], outside[i], scale, variance, part, groups, shape)
                first, second = outside[i], outside[j]
                if first is not None and second is not None:
                    value = value + float((variance * first * second).sum())
                found[..., i, j] += value
                if i != j:
                    found[..., j, i] += value

    def _varying(self, weights: Floats, part: Places, along: Places) -> Floats:
        """What of the weights varies along the axes of a part: of `along`, the others are averaged out."""
        for axis in along:
            base = spread_out(self.bases[axis], (axis,), range(len(self.bases)))
            same = weights.shape[axis] == 1  # all along the axis
            mean = weights if same else (weights * base).sum(axis=axis, keepdims=True)
            weights = weights - mean if axis in part else mean
        return weights

    def _both(
        self, first: Floats | None, second: Floats | None, squares: Floats, others: Places, shape: list[int]
    ) -> Floats | float:
        if first is None or second is None:
            return 0.0
        return self._over_groups((first * second * squares).sum(axis=others, keepdims=True), others, shape)

    def _across(
        self,
        inside: Floats | None,
        outside: Floats | None,
        scale: Floats,
        variance: Floats,
        part: Places,
        groups: Places,
        shape: list[int],
    ) -> Floats | float:
        """Between weights in a group and weights on all cells."""
        if inside is None or outside is None:
            return 0.0
        moved = variance * outside
        for axis in groups:
            if axis in part:
                base = spread_out(self.bases[axis], (axis,), range(len(self.bases)))
                moved = moved - base * moved.sum(axis=axis, keepdims=True)
        others = tuple(axis for axis in range(len(self.bases)) if axis not in groups)
        return self._over_groups((inside * moved * scale).sum(axis=others, keepdims=True), others, shape)

    def _over_groups(self, values: Floats, others: Places, shape: list[int]) -> Floats:
        full = [len(base) if axis not in others else 1 for axis, base in enumerate(self.bases)]
        return np.broadcast_to(values, full).reshape(shape)
