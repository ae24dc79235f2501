"""Uniform estimate within buckets of cells, with the noise of the bucket totals and the within-bucket deviation.

DAWA (Li, Hay, Miklau, VLDB 2014) measures totals of buckets of similar cells and divides each evenly. Corrected: the
paper's errors are the noise alone; here they include the deviation of the cells from their bucket's mean.

Estimator. Cell c of bucket b, of m_b cells: Z_b / m_b, with Z_b the fitted total of the bucket. It is linear in the
measured numbers, so the distribution of the noise in any sum is exact, dependence included.

Model error. The true deviations within a bucket sum to zero; their size d_b is known (measured or estimated), their
pattern is not. A sum with weights w gets the variance d_b^2 times the variance of w over the bucket's cells: right for
deviations without a pattern, and for a slope calibrated at half of the bucket (d_b / 2 is the error of a half). Where a
query cuts many buckets one slope may run through all of them. If the size of errors is measured besides
(models/calibration/fit.py), a slope along each ordered attribute is added, as large as the part without pattern;
if not, the errors of all buckets are taken as fully correlated, which is the worst case.
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
from sfumato.models.partition.buckets import OverBuckets, buckets_with_rows, erring_together
from sfumato.models.tree.fit import TreeFit

if TYPE_CHECKING:
    from sfumato.answers.noise_sum import Find


@dataclass(frozen=True, eq=False)
class PartitionFit(OverBuckets):
    """Bucket totals divided evenly among the bucket's cells.

    labels: bucket of each cell, (cells,).
    totals: fit of the bucket totals, by a tree posterior, or by least squares in files of the first versions.
    deviations: within-bucket deviation, in steps of the statistic and whole multiples of 1 / PARTS, (buckets,).
    besides: measurements of the deviations alone.
    over: domain along whose ordered attributes all buckets may slope; None: errors of all buckets are fully correlated.
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
        """Error of each cell under a common slope along each ordered attribute, (cells, attributes)."""
        if self.over is None:
            return None
        cells = np.arange(self.over.size)
        slopes = [np.zeros((len(cells), 0))]
        for axis in [axis for axis in self.over if axis.ordered]:
            along = self.over.codes_along(axis.name, cells).astype(np.float64)[:, None]
            beside = along - self.means(along)[self.labels]
            far, each = np.sqrt(self.means(beside**2)), (self.deviations / self.sizes)[:, None]
            slopes.append(np.divide(each, far, out=np.zeros_like(far), where=far > 0.0)[self.labels] * beside)
        return np.concatenate(slopes, axis=1)

    def guaranteed(self, domain: Domain, rows: Find | None = None) -> Find:
        """Confidence bounds that hold for every table, from the bucket totals alone."""
        from sfumato.answers.guaranteed_sums import of_fixed_tree, over_buckets

        if isinstance(self.totals, TreeFit):
            measured, tree = self.totals.pruned
            return over_buckets(self.labels, of_fixed_tree(measured, tree.order))
        return over_buckets(self.labels, self.totals.guaranteed(domain))

    def errors(self, columns: Floats) -> Errors:
        """Noise and model error of weighted sums of cells; columns: (cells, sums)."""
        expected = self.means(columns)
        totals = self.totals.errors(expected)
        beside, variances = columns - expected[self.labels], self.deviations**2
        added = variances[:, None] * self.means(beside**2)  # bucket by bucket, what its deviation adds to the variance
        apart = beside.T @ ((variances / self.sizes)[self.labels, None] * beside)
        if self.sloping is None:
            model = erring_together(apart, np.sqrt(added).sum(axis=0) ** 2)
        else:
            slopes = self.sloping.T @ columns
            model = apart + slopes.T @ slopes
        return Errors(totals.design, totals.weights, model + totals.model, totals.unknown)

    def covariances(self, columns: Floats) -> Floats:
        """Covariances of every cell with weighted sums of cells, (cells, sums); needs tree totals and slopes."""
        assert isinstance(self.totals, TreeFit) and self.sloping is not None  # noqa: S101 (as dawa has them now)
        expected = self.means(columns)
        totals = self.totals.covariances(expected) / self.sizes[:, None]
        inside = (self.deviations**2 / self.sizes)[self.labels, None] * (columns - expected[self.labels])
        return np.asarray(totals[self.labels] + inside + self.sloping @ (self.sloping.T @ columns))

    def errors_by_group(self, asked: Grouped) -> Sequence[Errors] | None:
        """Errors of the sums of each of many groups; None where the totals are a least-squares fit."""
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
        of_totals = self.totals.errors_by_group(asked)
        if slopes is not None:
            by_group += np.einsum("agi,agj->gij", slopes, slopes)
            return [
                replace(totals, model=totals.model + covariance)
                for totals, covariance in zip(of_totals, by_group, strict=True)
            ]
        triples = zip(of_totals, by_group, together, strict=True)
        return [
            replace(totals, model=totals.model + erring_together(covariance, both**2))
            for totals, covariance, both in triples
        ]

    def record(self, domain: Domain) -> Arrays:
        kept: Arrays = {"labels": self.labels, "spread": self.deviations, "totals": self.totals.estimate}
        if isinstance(self.totals, TreeFit):
            kept |= {"slopes": self.totals.slopes, "deviations": self.totals.deviations}
        return kept

    @classmethod
    def read(cls, file: FitReader, over: Domain | None = None) -> PartitionFit:
        """Read a fit from a file.

        over: the domain along which buckets may slope; then one measurement of deviations follows, and others may.
        """
        estimate = file.numbers("totals")
        measured = file.measurement(len(estimate))
        totals: LinearFit | TreeFit = LinearFit(measured, estimate)
        labels = file.whole("labels")
        if "slopes" in file.arrays:
            slopes, deviations = file.whole("slopes"), file.numbers("deviations")
            tree, some = BinaryTree.line(len(estimate)), buckets_with_rows(labels, file.possible)
            totals = TreeFit(measured, tree, estimate, slopes, deviations, np.zeros(0), some)
        besides = file.others() if over is None else (file.measurement(None),)
        return cls(labels, totals, file.numbers("spread"), besides, over)


def _roots(variances: Floats, squares: Floats) -> Floats:
    """Standard deviation that each bucket's deviation adds to every sum, (buckets, sums)."""
    return np.asarray(np.sqrt(variances[:, None] * np.maximum(np.diagonal(squares, axis1=1, axis2=2), 0.0)))


def _slopes(sloping: Floats, asked: Grouped) -> Floats:
    """Effect of a unit slope along each attribute on every group's sums, (attributes, groups, sums)."""
    effects = np.empty((sloping.shape[1], asked.groups, asked.sums))
    for number, along in enumerate(sloping.T):
        effects[number] = summed(asked.group, along[asked.place, None] * asked.weights, asked.groups)
        if asked.whole is not None:
            effects[number] += along @ asked.whole
    return effects
