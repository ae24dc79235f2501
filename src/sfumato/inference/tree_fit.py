"""A fit over the regions of a binary tree: the estimate of every leaf, and the posterior variance of any sum of them.

A posterior over a tree is told by two numbers for every region: how much of one row more its first half gets (slope),
and by how much its division into halves may be off (deviation). The error of a weighted sum follows from the leaves to
the root: a region's weight is that of its halves, each by its slope, and the division adds its variance times
the squared difference of the halves' weights. Part of that error is noise and part is what the prior takes for granted;
the posterior does not tell them apart, so all of it counts as the model's. Regions are taken to err independently:
where many are off the same way, as on a slope that noise hides, the deviations are too small, and whoever uses the fit
has to add what such unevenness comes to (`inference/regions.py` does).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sfumato.errors import QueryError
from sfumato.inference.fits import Errors, Floats, in_parts
from sfumato.inference.multiscale import Multiscale
from sfumato.measurement import Design, Laplace, Measurement
from sfumato.queries import Ranges

Codes = NDArray[np.int64]

FINE = 2**30  # slopes are kept in whole multiples of 1 / FINE
MOST_LEAVES = 2**22  # of a tree of cells; with more the posterior takes longer than anyone waits
STEEPEST = 4 * FINE
CAUTION = 1.3  # times the posterior's own deviations: regions do err together, and the prior is learned from few


@dataclass(frozen=True, eq=False)
class TreeFit:
    """A posterior over a tree whose leaves are cells, or buckets of cells.

    measurement: noisy counts of ranges of leaves. A tree of height h cuts them into 2^h regions as even as can be.
    estimate: of every cell. slopes: of every region that has halves, from the root, level by level, in whole multiples
    of 1 / FINE. deviations: of the whole, then of each region's division. order: the cell that each leaf is; None if
    leaves and cells are numbered alike.
    """

    measurement: Measurement
    estimate: Floats
    slopes: Codes
    deviations: Floats
    order: Codes | None = None

    def __post_init__(self) -> None:
        cells, inner = len(self.estimate), 2**self.height - 1
        if self.order is not None and not is_order(self.order, cells):
            raise QueryError(f"the leaves of a tree over {cells} cells are these cells, each once")
        if self.slopes.shape != (inner,) or self.deviations.shape != (inner + 1,) or self.deviations.min() < 0:
            raise QueryError(f"a tree over {cells} leaves has {inner} slopes and {inner + 1} deviations, none negative")
        if inner and not -STEEPEST <= int(self.slopes.min()) <= int(self.slopes.max()) <= STEEPEST:
            raise QueryError("a half gets about as many of its region's rows as there are; a slope is far from that")
        object.__setattr__(self, "estimate", in_parts(self.estimate))
        object.__setattr__(self, "deviations", in_parts(self.deviations))

    @property
    def of(self) -> str:
        return self.measurement.of

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (self.measurement,)

    @property
    def height(self) -> int:
        return height_of(len(self.estimate))

    @cached_property
    def _leaves(self) -> Codes:
        """The end of the tree that holds each leaf; there are more ends than leaves where these are no power of two."""
        begins = boundaries(len(self.estimate), self.height)
        return np.flatnonzero(np.diff(begins))

    def errors(self, columns: Floats) -> Errors:
        """The errors of weighted sums of cells; `columns` is (cells, sums)."""
        weights = np.zeros((2**self.height, columns.shape[1]))
        weights[self._leaves] = columns if self.order is None else columns[self.order]
        model = np.zeros((columns.shape[1], columns.shape[1]))
        slopes, variances = self.slopes / FINE, self.deviations[1:] ** 2
        for level in range(self.height - 1, -1, -1):
            here = slice(2**level - 1, 2 ** (level + 1) - 1)
            first, second = weights[0::2], weights[1::2]
            apart = first - second
            model += apart.T @ (variances[here, None] * apart)
            weights = second + slopes[here, None] * apart
        model += self.deviations[0] ** 2 * np.outer(weights[0], weights[0])
        nothing = Design(self.measurement.queries[:1], self.measurement.noises[:1])
        sums = columns.shape[1]
        return Errors(nothing, np.zeros((1, sums)), model, np.zeros(sums, dtype=np.bool_))


def fit_tree(measured: Measurement, sizes: Codes, order: Codes | None = None) -> TreeFit:
    """The posterior of leaves of so many cells each, from noisy counts of regions of their tree (Ranges of leaves).

    order: the cell that each leaf is, where the leaves are cells in another order than their own.
    """
    leaves = len(sizes)
    height = height_of(leaves)
    levels = [boundaries(leaves, level) for level in range(height + 1)]
    before = np.concatenate([[0], np.cumsum(sizes)])
    answers, scales = _by_level(measured, levels)
    laplace = isinstance(measured.noises[0], Laplace)
    found = Multiscale([np.diff(before[begins]) for begins in levels], answers, scales, laplace=laplace).posterior()
    along = found.cells[np.flatnonzero(np.diff(levels[-1]))]
    estimate = np.empty(leaves)
    estimate[slice(None) if order is None else order] = along
    slopes = np.concatenate([*found.slopes, np.zeros(0)])
    variances = np.concatenate([np.array([found.total]), *found.variances])
    kept = np.rint(np.clip(slopes * FINE, -STEEPEST, STEEPEST)).astype(np.int64)
    return TreeFit(measured, estimate, kept, CAUTION * np.sqrt(variances), order)


def _by_level(measured: Measurement, levels: list[Codes]) -> tuple[list[Floats], list[Floats]]:
    """For every region of every level its noisy count and the scale of its noise, inf where it was not measured.

    Several answers for one region count as one: their mean, weighed by precision, with a scale that has its variance.
    """
    queries, sizes = measured.queries, measured.design.sizes
    if not isinstance(queries, Ranges):
        raise QueryError("a tree is measured by ranges of its leaves")
    laplace = isinstance(measured.noises[0], Laplace)
    answers, scales = [], []
    taken = np.zeros(queries.rows, dtype=np.bool_)
    for begins in levels:
        where = np.searchsorted(begins, queries.lows, side="right") - 1
        here = ~taken & (begins[where] == queries.lows) & (begins[where + 1] == queries.highs + 1)
        taken |= here
        count = len(begins) - 1
        precision = np.bincount(where[here], weights=1.0 / sizes[here], minlength=count)
        weighed = np.bincount(where[here], weights=measured.answers[here] / sizes[here], minlength=count)
        seen = precision > 0.0
        answers.append(np.divide(weighed, precision, out=np.zeros(count), where=seen))
        variance = np.divide(1.0, precision, out=np.full(count, np.inf), where=seen)
        scales.append(np.sqrt(variance * (0.5 if laplace else 1.0)))
    return answers, scales


def is_order(order: Codes, cells: int) -> bool:
    """Whether an array names each of so many cells once; it may hold anything."""
    if order.shape != (cells,) or not 0 <= int(order.min()) <= int(order.max()) < cells:
        return False
    return bool((np.bincount(order, minlength=cells) == 1).all())


def height_of(leaves: int) -> int:
    """The height of a tree with at least so many ends."""
    return max(0, (leaves - 1).bit_length())


def boundaries(leaves: int, level: int) -> Codes:
    """Where the regions of a level begin and end: as even as can be, each level cutting those of the one above."""
    return np.asarray(np.arange(2**level + 1, dtype=np.int64) * leaves // 2**level)
