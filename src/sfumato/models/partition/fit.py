"""Cells that were put together into buckets: what is measured, what is taken for granted, and what that is off by.

DAWA (Li, Hay, Miklau, VLDB 2014) measures buckets of cells that look alike and divides a bucket's total evenly among
its cells. Corrected: the paper's estimates carry the noise only. Here they also carry how far the cells of a bucket
deviate from each other, which no noise shows and which was measured or estimated too.

The estimate of cell c in bucket b, of m_b cells, is Z_b / m_b, with Z_b the fitted total of the bucket. Everything is
linear in the measured numbers, so the distribution of the noise in any sum is exact, dependence included. What is left
out is how the cells deviate: a pattern that sums to zero, of which the size d_b, the within-bucket deviation, is known
and the shape is not. For weights w its variance is taken as d_b^2 times the variance of w over the bucket's cells:
right for deviations without any pattern, and for one that leans to one side it is calibrated to half of the bucket
(d_b / 2 is the error of a half). Where a query cuts many buckets, the same slope or ridge may run through all of them.
If the size of errors is measured besides (measured_families.py) that is a slope along each ordered attribute, as large
as what has no pattern; if not, errors of all buckets are fully correlated, which is as large as they can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.answers.fit import Arrays, Errors, FitReader, Grouped, in_buckets, in_parts, keep_in_parts, summed
from sfumato.arrays import Codes, Floats
from sfumato.domain import Domain
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import QueryError
from sfumato.frozen import dataclass
from sfumato.measurement import Measurement
from sfumato.models.linear.fit import LinearFit
from sfumato.models.partition.buckets import OverBuckets, erring_together
from sfumato.models.tree.fit import TreeFit

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find


@dataclass(frozen=True, eq=False)
class PartitionFit(OverBuckets):
    """Totals of buckets, divided evenly among their cells.

    totals: by a posterior over the buckets' tree, or by least squares as the first versions had it. deviations: for
    each bucket the within-bucket deviation, in steps of the statistic, kept in whole multiples of 1 / PARTS. besides:
    measured only in order to know the deviations. over: the domain along whose ordered attributes buckets may slope;
    None: all buckets err together, whatever they do.
    """

    family = "regional"
    room = 4

    labels: Codes
    totals: LinearFit | TreeFit
    deviations: Floats
    besides: tuple[Measurement, ...] = field(default=())
    over: Domain | None = None

    def __post_init__(self) -> None:
        self._check_labels()
        keep_in_parts(self, "deviations")
        if self.deviations.shape != self.sizes.shape:
            raise QueryError(f"{len(self.sizes)} buckets need as many within-bucket deviations")

    @property
    def measurements(self) -> tuple[Measurement, ...]:
        return (*self.totals.measurements, *self.besides)

    @cached_property
    def estimate(self) -> Floats:
        return in_parts((1.0 / self.sizes * self.totals.estimate)[self.labels])

    @cached_property
    def sloping(self) -> Floats | None:
        """By how much each cell is off where all buckets slope along an ordered attribute, (cells, attributes)."""
        if self.over is None:
            return None
        cells = np.arange(self.over.size)
        found = [np.zeros((len(cells), 0))]
        for axis in [axis for axis in self.over if axis.ordered]:
            along = self.over.codes_along(axis.name, cells).astype(np.float64)[:, None]
            beside = along - self.means(along)[self.labels]
            far, each = np.sqrt(self.means(beside**2)), (self.deviations / self.sizes)[:, None]
            found.append(np.divide(each, far, out=np.zeros_like(far), where=far > 0.0)[self.labels] * beside)
        return np.concatenate(found, axis=1)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        from sfumato.answers.guaranteed_sums import of_fixed_tree, of_squares, over_buckets

        if isinstance(self.totals, TreeFit):
            return over_buckets(self.labels, of_fixed_tree(self.totals.measurement, self.totals.tree.order))
        return over_buckets(self.labels, of_squares(self.totals))

    def errors(self, columns: Floats) -> Errors:
        expected = self.means(columns)
        totals = self.totals.errors(expected)
        beside, variances = columns - expected[self.labels], self.deviations**2
        each = variances[:, None] * self.means(beside**2)  # bucket by bucket, what its deviation adds to the variance
        apart = beside.T @ ((variances / self.sizes)[self.labels, None] * beside)
        if self.sloping is None:
            model = erring_together(apart, np.sqrt(each).sum(axis=0) ** 2)
        else:
            slopes = self.sloping.T @ columns
            model = apart + slopes.T @ slopes
        return Errors(totals.design, totals.weights, model + totals.model, totals.unknown)

    def covariances(self, columns: Floats) -> Floats:
        """Of every cell with some weighted sums of cells; only where totals are a tree's, and buckets may slope."""
        assert isinstance(self.totals, TreeFit) and self.sloping is not None  # noqa: S101 (as dawa has them now)
        expected = self.means(columns)
        totals = self.totals.covariances(expected) / self.sizes[:, None]
        inside = (self.deviations**2 / self.sizes)[self.labels, None] * (columns - expected[self.labels])
        return np.asarray(totals[self.labels] + inside + self.sloping @ (self.sloping.T @ columns))

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """The same for many groups; None where totals do not know theirs."""
        if not isinstance(self.totals, TreeFit):
            return None
        slopes = None if self.sloping is None else _slopes(self.sloping, asked)
        asked, squares, squares_of_whole = in_buckets(asked, self.labels, self.sizes)
        variances, groups, sums = (self.deviations**2)[asked.place], asked.groups, asked.sums
        apart, roots = variances[:, None, None] * squares, _roots(variances, squares)
        if squares_of_whole is not None:  # of buckets that a group does not touch too
            apart -= variances[:, None, None] * squares_of_whole[asked.place]
            everywhere = _roots(self.deviations**2, squares_of_whole)
            roots -= everywhere[asked.place]
        by_group = summed(asked.group, apart.reshape(-1, sums**2), groups).reshape(-1, sums, sums)
        together = summed(asked.group, roots, groups)
        if squares_of_whole is not None:
            by_group += np.tensordot(self.deviations**2, squares_of_whole, axes=1)
            together += everywhere.sum(axis=0)
        each = self.totals.errors_by_group(asked)
        if slopes is not None:
            by_group += np.einsum("agi,agj->gij", slopes, slopes)
            return [replace(totals, model=totals.model + one) for totals, one in zip(each, by_group, strict=True)]
        found = zip(each, by_group, together, strict=True)
        return [replace(totals, model=totals.model + erring_together(one, both**2)) for totals, one, both in found]

    def record(self, domain: Domain) -> Arrays:
        kept: Arrays = {"labels": self.labels, "spread": self.deviations, "totals": self.totals.estimate}
        if isinstance(self.totals, TreeFit):
            kept |= {"slopes": self.totals.slopes, "deviations": self.totals.deviations}
        return kept

    @classmethod
    def read(cls, file: FitReader, over: Domain | None = None) -> PartitionFit:
        """over: the domain along which buckets may slope; there one measurement is beside, and more may follow."""
        estimate = file.numbers("totals")
        measured = file.measurement(len(estimate))
        totals: LinearFit | TreeFit = LinearFit(measured, estimate)
        if "slopes" in file.arrays:
            slopes, deviations = file.whole("slopes"), file.numbers("deviations")
            totals = TreeFit(measured, BinaryTree.line(len(estimate)), estimate, slopes, deviations, np.zeros(0))
        besides = file.others() if over is None else (file.measurement(None),)
        return cls(file.whole("labels"), totals, file.numbers("spread"), besides, over)


def _roots(variances: Floats, squares: Floats) -> Floats:
    """How far each bucket may be off by its deviation, in every sum."""
    return np.asarray(np.sqrt(variances[:, None] * np.maximum(np.diagonal(squares, axis1=1, axis2=2), 0.0)))


def _slopes(sloping: Floats, asked: Grouped) -> Floats:
    """What slopes make of every group's sums, (attributes, groups, sums)."""
    found = np.empty((sloping.shape[1], asked.groups, asked.sums))
    for number, along in enumerate(sloping.T):
        found[number] = summed(asked.group, along[asked.place, None] * asked.weights, asked.groups)
        if asked.whole is not None:
            found[number] += along @ asked.whole
    return found
