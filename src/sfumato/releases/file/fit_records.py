"""Fits as a file holds them: what was measured, with which noise, and what each kind of fit keeps besides.

Everything a fit needs to tell its errors goes along, so that an answer from the file is the answer before it was saved.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from sfumato.arrays import Floats
from sfumato.domain import Domain
from sfumato.domain.binary_tree import BinaryTree
from sfumato.errors import ReleaseFileError
from sfumato.inference.fits.base import PARTS, Fit
from sfumato.inference.fits.linear import LinearFit
from sfumato.inference.fits.partition import PartitionFit
from sfumato.inference.fits.scaled_shape import ScaledShape
from sfumato.inference.fits.shrinkage import ShrinkageFit
from sfumato.inference.fits.tree import TreeFit, has_slices
from sfumato.measurement import Measurement
from sfumato.releases.file.query_records import Arrays, Column, describe
from sfumato.releases.file.records import FitRecord, MeasurementRecord, QueriesRecord, noise_record

LARGEST = 2**62  # of an estimate; nothing the kernel hands out is larger


@dataclass
class Written:
    """Records of fits, of their queries (each family once, however many measurements share it), and all arrays."""

    fits: list[FitRecord] = field(default_factory=list)
    queries: list[QueriesRecord] = field(default_factory=list)
    arrays: Arrays = field(default_factory=Arrays)
    _places: dict[int, int] = field(default_factory=dict)

    def linear(self, fit: LinearFit) -> FitRecord:
        return FitRecord(fit.of, "linear", [self.measurement(fit.measurement)])

    def regional(self, fit: PartitionFit) -> FitRecord:
        arrays = {"labels": self.arrays.keep(fit.labels)} | self._numbers("spread", fit.spread)
        arrays |= self._numbers("totals", fit.totals.estimate)
        if isinstance(fit.totals, TreeFit):
            arrays |= self._divisions(fit.totals)
        return FitRecord(fit.of, "regional", [self.measurement(measured) for measured in fit.measurements], arrays)

    def nested(self, fit: ShrinkageFit) -> FitRecord:
        arrays = {"labels": self.arrays.keep(fit.labels), "order": self.arrays.keep(fit.order)}
        for name, values in (("lean", fit.lean), ("keep", fit.keep), ("spread", fit.spread)):
            arrays |= self._numbers(name, values)
        return FitRecord(fit.of, "nested", [self.measurement(measured) for measured in fit.measurements], arrays)

    def shaped(self, fit: ScaledShape) -> FitRecord:
        numbers = self._numbers("total", fit.total.estimate) | self._numbers("spread", np.array([fit.spread]))
        arrays = {"mass": self.arrays.keep(fit.mass), **numbers}
        return FitRecord(fit.of, "shaped", [self.measurement(measured) for measured in fit.measurements], arrays)

    def tree(self, fit: TreeFit, domain: Domain) -> FitRecord:
        if not _alike(fit.tree, BinaryTree.over(domain)):
            raise ReleaseFileError("a file keeps a tree over the cells of its domain only, cut as that domain is cut")
        arrays = self._divisions(fit) | self._numbers("leanings", fit.leanings)
        return FitRecord(fit.of, "tree", [self.measurement(fit.measurement)], arrays)

    def _divisions(self, fit: TreeFit) -> dict[str, int]:
        return {"slopes": self.arrays.keep(fit.slopes)} | self._numbers("deviations", fit.deviations)

    def _numbers(self, name: str, values: Floats) -> dict[str, int]:
        whole, parts = in_whole_numbers(values)
        return {name: self.arrays.keep(whole), f"{name}_parts": self.arrays.keep(parts)}

    def measurement(self, measured: Measurement) -> MeasurementRecord:
        place = self._places.get(id(measured.queries))
        if place is None:
            place = self._places[id(measured.queries)] = len(self.queries)
            self.queries.append(describe(measured.queries, self.arrays))
        return MeasurementRecord(
            measured.of,
            measured.queries.columns,
            place,
            self.arrays.keep(measured.answers),
            [noise_record(noise) for noise in measured.noises],
            None if measured.which is None else self.arrays.keep(measured.which),
        )


def write_fits(fits: tuple[Fit, ...], domain: Domain) -> Written:
    """The records of fits over the cells of a domain; their estimates are kept apart, with the cells."""
    written = Written()
    for fit in fits:
        if type(fit) is LinearFit:
            written.fits.append(written.linear(fit))
        elif type(fit) is PartitionFit:
            written.fits.append(written.regional(fit))
        elif type(fit) is ShrinkageFit:
            written.fits.append(written.nested(fit))
        elif type(fit) is ScaledShape:
            written.fits.append(written.shaped(fit))
        elif type(fit) is TreeFit:
            written.fits.append(written.tree(fit, domain))
        else:
            raise ReleaseFileError(f"a file cannot keep a fit of the kind {type(fit).__name__}")
    return written


def _alike(one: BinaryTree, other: BinaryTree) -> bool:
    """Whether two trees cut the same cells in the same way."""
    if one.height != other.height or has_slices(one) != has_slices(other):
        return False
    return np.array_equal(one.order, other.order) and all(map(np.array_equal, one.begins, other.begins))


def in_whole_numbers(estimate: Floats) -> tuple[Column, Column]:
    """An estimate as whole numbers and 1024ths: exact, for estimates are multiples of these.

    >>> [column.tolist() for column in in_whole_numbers(np.array([2.5, -0.25]))]
    [[2, -1], [512, 768]]
    """
    clipped = np.clip(estimate, -LARGEST, LARGEST)
    whole = np.floor(clipped)
    return whole.astype(np.int64), np.rint((clipped - whole) * PARTS).astype(np.int64)


def from_whole_numbers(whole: Column, parts: Column) -> Floats:
    """The estimate again; the sum is exact, because it was a floating-point number before."""
    estimate = whole.astype(np.float64)
    estimate += parts / PARTS
    return estimate
